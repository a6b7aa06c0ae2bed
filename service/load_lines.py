"""What a line of a ``flask load`` file may hold: the API's own schemas, plus what names the owner."""

from datetime import UTC, datetime

from marshmallow import ValidationError, fields, missing

from service.fields import (
    ADDRESS,
    COMMON,
    NAME,
    NOBODY,
    REFERENCE,
    TEXT,
    TITLE,
    UUID,
    Address,
    Body,
    Choice,
    Id,
    Moment,
    Text,
    Texts,
    Timezone,
)
from service.meetings import MeetingChanges
from service.tasks import NewTask
from service.workspaces import WorkspaceChanges

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class GivenId(Text):
    """The id that something is to have, so that later lines can refer to it."""

    default_error_messages = {"uuid": "must be a UUID, like 0190163d-8694-739b-aea5-966c26f8ad91"}

    # Cursors and absent ids are compared with these two.
    reserved = NOBODY, NOBODY.replace("0", "f")

    def __init__(self):
        super().__init__(REFERENCE, load_default=None)

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs).lower()
        if not UUID.fullmatch(text) or text in self.reserved:
            raise self.make_error("uuid")
        return text


class Person(Text):
    """A user, by e-mail address or by id."""

    default_error_messages = {"person": "must be the e-mail address or the id of a user"}

    def __init__(self, **options):
        super().__init__(ADDRESS, 1, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        if "@" not in text and not UUID.fullmatch(text):
            raise self.make_error("person")
        return text


class Past(Moment):
    """A moment that an id can be made from, and that is not still to come."""

    default_error_messages = {"past": "must lie between 1970 and now"}

    def _deserialize(self, value, attr, data, **kwargs):
        moment = super()._deserialize(value, attr, data, **kwargs)
        if not EPOCH <= moment <= datetime.now(UTC):
            raise self.make_error("past")
        return moment


class Truth(fields.Field):
    """JSON's true or false."""

    default_error_messages = {**COMMON, "truth": "must be true or false"}

    def _deserialize(self, value, attr, data, **kwargs):
        if not isinstance(value, bool):
            raise self.make_error("truth")
        return value


class Line(Body):
    """One object of a file."""

    def __init__(self):
        super().__init__()
        known = self.load_fields.items()
        self.checks = {field.data_key: (name, field) for name, field in known}
        self.required = {name for name, field in known if field.required}
        self.defaults = {
            name: field.load_default
            for name, field in known
            if field.load_default not in (missing, None)
        }

    def check(self, document):
        """What ``load`` returns but for the absent, in a third of the time; that one finds all faults."""
        row = {name: item() if callable(item) else item for name, item in self.defaults.items()}
        try:
            for key, value in document.items():
                name, field = self.checks[key]
                if value is None:
                    row[name] = field.deserialize(None)
                else:
                    # No field has validators besides, which is what ``deserialize`` would look for.
                    row[name] = field._deserialize(value, key, document)
        except (KeyError, ValidationError):
            return self.load(document)
        return row if self.required <= row.keys() else self.load(document)


class Created(Line):
    id = GivenId()
    created_at = Past(load_default=None)


class WorkspaceLine(Created, WorkspaceChanges):
    name = Text(NAME, 1, trim=True, required=True)
    slug = Text(REFERENCE, 1, required=True)
    plan = Text(REFERENCE, 1, load_default="Starter")
    timezone = Timezone(load_default="UTC")


class UserLine(Created):
    email = Address(required=True)
    name = Text(NAME, 1, trim=True, required=True)


class Owned(Line):
    """What belongs to a workspace."""

    workspace_id = Text(REFERENCE, 1, data_key="workspace", required=True)


class MemberLine(Owned):
    user_id = Person(data_key="user", required=True)
    role = Choice("owner", "admin", "member", load_default="member")
    joined_at = Moment(load_default=None)


class TaskLine(Owned, Created, NewTask):
    assignee_id = Person(allow_none=True, load_default=None)
    created_by = Person(load_default=None)
    updated_at = Moment(load_default=None)
    completed_at = Moment(allow_none=True, load_default=None)


class MeetingLine(Owned, Created, MeetingChanges):
    status = Choice("scheduled", "completed", load_default="scheduled")
    created_by = Person(load_default=None)


class MailLine(Owned):
    id = GivenId()
    user_id = Person(data_key="user", required=True)
    sender = Address(data_key="from", required=True)
    recipients = Texts(Address(), 200, data_key="to", load_default=list)
    subject = Text(TITLE, load_default="")
    snippet = Text(2000, load_default="")
    read = Truth(load_default=False)
    received_at = Moment(required=True)


class KnowledgeLine(Owned, Created):
    title = Text(TITLE, 1, trim=True, required=True)
    content = Text(TEXT, load_default="")
    tags = Texts(Text(NAME, 1), 50, load_default=list)
    updated_at = Moment(load_default=None)


class SuggestionLine(Owned, Created):
    kind = Text(REFERENCE, 1, required=True)
    title = Text(TITLE, 1, trim=True, required=True)
    body = Text(TEXT, allow_none=True, load_default=None)
    task_id = Id(allow_none=True, load_default=None)
    status = Choice("pending", "accepted", "dismissed", load_default="pending")


TYPES = {
    "workspace": WorkspaceLine(),
    "user": UserLine(),
    "member": MemberLine(),
    "task": TaskLine(),
    "meeting": MeetingLine(),
    "mail": MailLine(),
    "knowledge": KnowledgeLine(),
    "suggestion": SuggestionLine(),
}


class BadLine(Exception):
    """What is wrong with one line, in one line and with nothing that a terminal would obey."""

    def __init__(self, line, fault):
        fault = " ".join(str(fault).split())
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in fault))
        self.line = line
