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
    """The row of a change of role or of a removal; without both conditions, nothing changes."""

    # The caller may change this member.
    permitted: bool
    # The workspace still has an owner after the change.
    has_owner: bool
    # The member as JSON; null after a removal.
    body: bytes | None
