"""Calls the service through the client that openapi-generator makes for Python.

test_generators.py runs it.
"""

import os
from datetime import UTC, datetime

from openapi_client import ApiClient, Configuration, TaskChanges, TaskInput, TasksApi, TaskStatus
from openapi_client.exceptions import ApiException

settings = Configuration(host=os.environ["URL"], access_token=os.environ["TOKEN"])
with ApiClient(settings) as client:
    tasks = TasksApi(client)
    new = TaskInput(title="Call Ada", dueDate=datetime(2036, 5, 2, 15, tzinfo=UTC))
    created = tasks.create_task(new, idempotency_key="once-in-python")
    page = tasks.list_tasks(assignee="none")
    print(created.title, created.due_date, len(page.data), page.data[0].status.value)

    # The task as it was read, with its read-only fields, and one change.
    changes = TaskChanges.from_json(created.to_json())
    changes.status = TaskStatus.DONE
    changed = tasks.update_task(created.id, changes, if_match='"1"')
    print(changed.status.value, changed.version)
    try:
        tasks.update_task(created.id, changes, if_match='"1"')
    except ApiException as error:
        print(error.status)
    tasks.delete_task(created.id)
