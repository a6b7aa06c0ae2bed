"""Checks that schemathesis makes for this service, beside its own."""

import re

import schemathesis
from schemathesis import GenerationMode
from support.openapi_check import closed

# Reasons to reject a request that its schema allows: a field depends on another, or on a row.
REASONS = re.compile(
    r"assigneeId: must be the id of a member of the workspace"
    r"|parentId: must (be the id of a task of the workspace|be another task"
    r"|not be the id of a subtask|be null for a task with subtasks)"
    r"|endTime: must be after startTime"
    r"|from: must be before to|dueAfter: must be before dueBefore"
    # One parameter, of another form with sort=dueDate.
    r"|cursor: must be the nextCursor of an earlier response"
    r"|(summary|actionItems|decisions): needs? status completed"
    r"|attendees: must not contain duplicates: .*"
    # A range of years is not a keyword of JSON Schema; the description has it.
    r"|(dueDate|dueAfter|dueBefore|startTime|endTime|from|to): must be in the years 1900 to 9998"
    r" \(UTC\)"
    # The names are in the database of IANA, which changes.
    r"|timezone: must be an IANA timezone name, like Europe/Berlin"
    r"|workspaceId: must be the id of one of your workspaces"
    # No pattern has the hosts that can be resolved and are public, or the types of events.
    r"|url: must (have a host that can be resolved, within 2 s|lead to public addresses only"
    r"|be an http or https URL in ASCII, with a host, without user name and password)"
    r"|events\[\d+\]: must be one of: .*|events: must not contain duplicates: .*"
    r"|expiresAt: must be (in the future|in the years 1900 to 9998 \(UTC\))"
    # One enum for reading and writing; its description says what can be set.
    r"|status: must be one of: completed",
    re.DOTALL,
)


@schemathesis.hook
def before_load_schema(_context, raw_schema):
    """Make the schema stricter than the promises to clients."""
    for name, schema in raw_schema["components"]["schemas"].items():
        # Clients must expect new members; here an undocumented one is a failure.
        raw_schema["components"]["schemas"][name] = closed(schema)
    # A repeat under its key gets the stored response before If-Match is looked at.
    del raw_schema["components"]["parameters"]["If-Match"]["schema"]["maxLength"]
    for item in raw_schema["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                # A larger limit is lowered, also one that its format, int32, does not have.
                if parameter.get("name") == "limit":
                    del parameter["schema"]["format"]


def is_allowed(fault, sent):
    """Return whether a request that its schema allows may have this fault."""
    if fault["message"].startswith("must be an ISO 8601 timestamp"):
        # RFC 3339, and so the format date-time, has leap seconds.
        return sent[fault["field"]][17:19] == "60"
    return REASONS.fullmatch(f"{fault['field']}: {fault['message']}")


@schemathesis.check
def a_valid_request_is_rejected_only_for_what_no_schema_can_say(_context, response, case):
    positive = case.meta and case.meta.generation.mode == GenerationMode.POSITIVE
    if positive and response.status_code == 400:
        error = response.json()
        faults = error.get("errors", ())
        assert faults, error["message"]
        sent = case.body if isinstance(case.body, dict) else case.query
        assert all(is_allowed(fault, sent) for fault in faults), error["message"]
