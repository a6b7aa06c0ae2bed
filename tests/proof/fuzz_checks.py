"""Checks for this service that schemathesis makes in addition to its own."""

import re

import schemathesis
from schemathesis import GenerationMode
from support.openapi_check import closed

# Reasons to reject a request that its schema allows: a field depends on another field or on a row.
REASONS = re.compile(
    r"assigneeId: must be the id of a member of the workspace"
    r"|parentId: must (be the id of a task of the workspace|be another task"
    r"|not be the id of a subtask|be null for a task with subtasks)"
    r"|endTime: must be after startTime"
    r"|from: must be before the value of to|dueAfter: must be before dueBefore"
    r"|completedAfter: must be before completedBefore"
    # A cursor is opaque, so the document has no pattern for it.
    r"|(cursor|after): must be the nextCursor of an earlier response"
    r"|(summary|actionItems|decisions): needs? status completed"
    r"|attendees: must not contain duplicates: .*"
    # The pattern in the document is that of 1.0.0, which also allows a last part like "12" or "a-".
    r"|(email|attendees\[\d+\]): must have (1 to 64 characters before the @|a domain like ).*"
    # JSON Schema has no keyword for a range of years; the description names it.
    r"|(dueDate|dueAfter|dueBefore|completedAfter|completedBefore|startTime|endTime|from|to)"
    r": must be in the years 1900 to 9998 \(UTC\)"
    # The database of IANA has the names, and it changes.
    r"|timezone: must be an IANA timezone name, like Europe/Berlin"
    r"|workspaceId: must be the id of one of your workspaces"
    # No pattern can tell which hosts are public, or which types of events exist.
    r"|url: must have a host that can be resolved within 2 s"
    r"|url: must have a host with public addresses only"
    r"|url: must be an http or https URL in ASCII, with a host, without user name and password"
    r", with a port from 1 to 65535 if any"
    r"|events\[\d+\]: must be one of: .*|events: must not contain duplicates: .*"
    r"|expiresAt: must be (in the future|in the years 1900 to 9998 \(UTC\))"
    # Reading and writing share one enum; its description says which values can be set.
    r"|status: must be one of: completed",
    re.DOTALL,
)


@schemathesis.hook
def before_load_schema(_context, raw_schema):
    """Make the schema stricter than what the service promises to clients."""
    for name, schema in raw_schema["components"]["schemas"].items():
        # Clients must expect new members. Here, a member that is not documented is a failure.
        raw_schema["components"]["schemas"][name] = closed(schema)
    # A request that repeats an idempotency key gets the stored response, whatever its If-Match is.
    del raw_schema["components"]["parameters"]["If-Match"]["schema"]["maxLength"]
    for item in raw_schema["paths"].values():
        for operation in item.values():
            parameters = operation.get("parameters", [])
            # What a dry run has created does not exist afterwards.
            parameters[:] = [each for each in parameters if each.get("name") != "dryRun"]
            for parameter in parameters:
                # The service lowers a larger limit, even one that does not fit the format int32.
                if parameter.get("name") == "limit":
                    del parameter["schema"]["format"]


def is_allowed(fault, sent):
    """Return whether the service may reject a request for this fault if its schema allows it."""
    if fault["message"].startswith("must be an ISO 8601 timestamp"):
        # RFC 3339 allows leap seconds, and so does the format date-time.
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
