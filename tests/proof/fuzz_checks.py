"""Checks that schemathesis makes for this service, beside its own."""

import re

import schemathesis
from schemathesis import GenerationMode

# What is wrong although each field is as its schema wants it: one field depends on another, or on a row.
REASONS = re.compile(
    r"assigneeId: must be the id of a member of the workspace"
    r"|parentId: must (be the id of a task of the workspace|be another task"
    r"|not be the id of a subtask|be null for a task with subtasks)"
    r"|endTime: must be after startTime"
    r"|(summary|actionItems|decisions): needs? status completed"
    r"|attendees: must not contain duplicates: .*",
    re.DOTALL,
)


@schemathesis.check
def a_valid_request_is_refused_only_for_what_no_schema_can_say(_context, response, case):
    positive = case.meta and case.meta.generation.mode == GenerationMode.POSITIVE
    if positive and response.status_code == 400:
        message = response.json()["message"]
        assert REASONS.fullmatch(message), message
