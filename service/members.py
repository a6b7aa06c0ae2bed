"""The rows of members that the API and the commands share."""

from typing import NamedTuple


class AddedMember(NamedTuple):
    permitted: bool
    # False if the user is deactivated.
    can_join: bool
    # Null if no user has the address.
    id: str | None
    # Null if the user is a member already, or may not become one.
    body: bytes | None


class ChangedMember(NamedTuple):
    """The row of a new role or a removal, which needs the permission and an owner."""

    permitted: bool
    has_owner: bool
    # The member; null for a removal.
    body: bytes | None
