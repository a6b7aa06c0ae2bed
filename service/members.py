"""The rows of members that the API and the commands share."""

from typing import NamedTuple

# The parameter ``user_id`` of an operator, whom no statement restricts.
OPERATOR: dict[str, object] = {"user_id": None, "token_workspace_id": None}


class AddedMember(NamedTuple):
    permitted: bool
    # False if the user is deactivated.
    can_join: bool
    # Null if no user has the address.
    id: str | None
    # Null if the user is a member already, or may not become one.
    body: bytes | None


class ChangedMember(NamedTuple):
    """The row of a member with the new role, which needs the permission and an owner."""

    permitted: bool
    has_owner: bool
    body: bytes


class RemovedMember(NamedTuple):
    """The row of a removal, which needs the permission and an owner."""

    permitted: bool
    has_owner: bool
