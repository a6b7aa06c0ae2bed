"""The rows of members that the API and the commands share."""

from typing import NamedTuple


class AddedMember(NamedTuple):
    permitted: bool
    # False if the user is deactivated.
    can_join: bool
    # Null if no user has the address.
    id: str | None
    # Null if the user is already a member, or may not become one.
    body: bytes | None


class ChangedMember(NamedTuple):
    """The row of a change of role or a removal: whether the caller may, and an owner remains."""

    permitted: bool
    has_owner: bool
    # The member; null for a removal.
    body: bytes | None
