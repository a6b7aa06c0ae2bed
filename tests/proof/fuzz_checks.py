"""Checks that schemathesis makes for this service, beside its own."""

import re

import schemathesis
from schemathesis import GenerationMode

# Reasons to reject a request that its schema allows: a field depends on another, or on a row.
REASONS = re.compile(
    r"assigneeId: must be the id of a member of the workspace"
    r"|parentId: must (be the id of a task of the workspace|be another task"
    r"|not be the id of a subtask|be null for a task with subtasks)"
    r"|endTime: must be after startTime"
    r"|(summary|actionItems|decisions): needs? status completed"
    r"|attendees: must not contain duplicates: .*"
    # A range of years is not a keyword of JSON Schema; the description has it.
    r"|(dueDate|startTime|endTime): must be in the years 1900 to 9998 \(UTC\)",
    re.DOTALL,
)


@schemathesis.check
def a_valid_request_is_rejected_only_for_what_no_schema_can_say(_context, response, case):
    positive = case.meta and case.meta.generation.mode == GenerationMode.POSITIVE
    if positive and response.status_code == 400:
        error = response.json()
        reasons = [f"{fault['field']}: {fault['message']}" for fault in error.get("errors", ())]
        assert reasons, error["message"]
        assert all(map(REASONS.fullmatch, reasons)), error["message"]
