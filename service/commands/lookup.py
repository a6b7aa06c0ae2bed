"""Find what an argument names: a workspace by its slug, a webhook by its id."""

from typing import NamedTuple

from service.commands.base import one_row
from service.values.fields import uuid_or_nil


class FoundWorkspace(NamedTuple):
    """The row of a workspace that a command or a line names."""

    slug: str
    id: str
    # Null in a workspace without an owner.
    owner_id: str | None


class FoundWebhook(NamedTuple):
    """The row of a webhook that a command names by its id alone."""

    workspace_id: str
    id: str


def find_workspace(slug: str) -> FoundWorkspace:
    """Find a workspace; raises ClickException if there is none."""
    absent = f"there is no workspace {slug}"
    return one_row(FoundWorkspace, "workspaces/find", absent, slugs=[slug])


def find_webhook(id: str) -> FoundWebhook:
    """Find a webhook by its id; raises ClickException if there is none."""
    return one_row(FoundWebhook, "webhooks/find", f"there is no webhook {id}", id=uuid_or_nil(id))
