"""The schemas of lines: the API's resources, but workspaces and users have names instead of ids."""

# A field of a line may have another class than the same field of the resource, because a line has a
# name where the resource has an id.
# mypy: disable-error-code="misc, assignment"

import re
from datetime import UTC, datetime

from service.api.knowledge import Knowledge
from service.api.mail import Mail
from service.api.meetings import STATUSES, MeetingDetails
from service.api.members import Member
from service.api.suggestions import Suggestion
from service.api.tasks import Task
from service.api.webhooks import Webhook
from service.api.workspaces import WorkspaceDetails
from service.values.schemas import Resource
from service.values.types import (
    MAX_EMAIL,
    MAX_REFERENCE,
    MAX_TITLE,
    UUID,
    CountingNumber,
    Day,
    Id,
    NewId,
    OneOf,
    PersonName,
    StoredEmail,
    String,
    StringList,
    Text,
    Timestamp,
    Timezone,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UserRef(String):
    default_error_messages = {"form": "must be the e-mail address or the id of a user"}
    max, min = MAX_EMAIL, 1
    well_formed = re.compile(f".*@.*|{UUID.pattern}", re.DOTALL)


class LineTimestamp(Timestamp):
    """A timestamp, or a day, which other programs export; a day means its beginning in UTC."""

    def _moment(self, value: object) -> datetime:
        is_day = Day.matches(value)
        return super()._moment(f"{value}T00:00:00Z" if is_day else value)


class PastTimestamp(LineTimestamp):
    """A timestamp from 1970 until now; ids contain such a timestamp."""

    default_error_messages = {"not_before_now": "must be between 1970 and now"}

    def _moment(self, value: object) -> datetime:
        timestamp = super()._moment(value)
        if not EPOCH <= timestamp <= datetime.now(UTC):
            raise self.make_error("not_before_now")
        return timestamp


class Fingerprint(String):
    default_error_messages = {"form": "must be 16 of the characters 0-9 a-f"}
    well_formed = re.compile("[0-9a-f]{16}")


class CreatedLine(Resource):
    id = NewId(load_default=None)
    created_at = PastTimestamp(load_default=None)


class OwnedLine(Resource):
    """A line about an object in a workspace; it names the workspace by its slug."""

    workspace_id = Text(MAX_REFERENCE, min=1, data_key="workspace", required=True)


class AuthoredLine(OwnedLine, CreatedLine):
    """A line about an object that has an author and versions."""

    created_by = UserRef(load_default=None)
    updated_by = UserRef(load_default=None)
    version = CountingNumber(load_default=1)


class WorkspaceLine(CreatedLine, WorkspaceDetails):
    slug = Text(MAX_REFERENCE, min=1, required=True)
    plan = Text(MAX_REFERENCE, min=1, load_default="Starter")
    timezone = Timezone(load_default="UTC")
    version = CountingNumber(load_default=None)


class UserLine(CreatedLine):
    email = StoredEmail(required=True)
    name = PersonName(required=True)
    deactivated_at = PastTimestamp(load_default=None)


class DeletedUserLine(Resource):
    """The id of a deleted user whom a task or a meeting names."""

    id = NewId(required=True)
    deleted_at = PastTimestamp(load_default=None)


class MemberLine(OwnedLine, Member):
    user_id = UserRef(data_key="user", required=True)
    joined_at = Timestamp(load_default=None)


class TaskLine(AuthoredLine, Task):
    due_day = Day(load_default=None)
    assignee_id = UserRef(load_default=None)
    updated_at = LineTimestamp(load_default=None)
    completed_at = LineTimestamp(load_default=None)
    completed_by = UserRef(load_default=None)


class MeetingLine(AuthoredLine, MeetingDetails):
    attendees = StringList(StoredEmail(), 200, unique=True, load_default=list)
    status = OneOf(*STATUSES, schema_name="MeetingStatus", load_default="scheduled")
    updated_at = Timestamp(load_default=None)


class MailLine(OwnedLine, Mail):
    id = NewId(load_default=None)
    sender = StoredEmail(data_key="from", required=True)
    recipients = StringList(StoredEmail(), 200, data_key="to", load_default=list)
    user_id = UserRef(data_key="user", required=True)


class KnowledgeLine(OwnedLine, CreatedLine, Knowledge):
    updated_at = Timestamp(load_default=None)


class SuggestionLine(OwnedLine, CreatedLine, Suggestion):
    """An AI suggestion."""


class LoadedWebhook(OwnedLine, CreatedLine, Webhook):
    """A webhook, with the number and the key from which its secret is derived."""

    secret_number = CountingNumber(load_default=1)
    key_fingerprint = Fingerprint(load_default=None)
    disabled_at = PastTimestamp(load_default=None)
    disabled_reason = Text(MAX_TITLE, load_default=None)
    version = CountingNumber(load_default=1)


class PreviousSecretLine(OwnedLine):
    """The previous secret of a webhook, which signs as well until it expires."""

    webhook_id = Id(required=True)
    number = CountingNumber(required=True)
    key_fingerprint = Fingerprint(load_default=None)
    expires_at = Timestamp(required=True)


class DeletedLine(OwnedLine):
    """The last version of a deleted task or meeting, above which its id begins again."""

    id = NewId(required=True)
    version = CountingNumber(required=True)
    deleted_at = PastTimestamp(load_default=None)


TYPES: dict[str, Resource] = {
    "workspace": WorkspaceLine(),
    "user": UserLine(),
    "deleted_user": DeletedUserLine(),
    "member": MemberLine(),
    "task": TaskLine(),
    "meeting": MeetingLine(),
    "mail": MailLine(),
    "knowledge": KnowledgeLine(),
    "suggestion": SuggestionLine(),
    # After the suggestions, because the service would send events about them to webhooks.
    "webhook": LoadedWebhook(),
    "previous_secret": PreviousSecretLine(),
    "deleted": DeletedLine(),
}
