"""Prints the tasks of a CSV export as lines for the command ``load`` or for upload.py.

``python convert.py PROGRAM SLUG [EXPORT...] <FILE``: PROGRAM is todoist, asana or trello, and SLUG
names the workspace. What an EXPORT of the workspace has is left out. stderr accounts for each row.
"""

import csv
import hashlib
import json
import sys
import uuid
from collections import Counter
from datetime import UTC, datetime

program, slug, *before = sys.argv[1:]
known = set()
for path in before:
    with open(path, encoding="utf-8") as export:
        known.update(json.loads(line).get("id") for line in export)
PRIORITIES = {"1": "urgent", "2": "high", "3": "medium", "4": "low"}
texts, above, counted = Counter(), {}, Counter()


def todoist(row):
    if row["TYPE"] == "task":
        text = row["CONTENT"]
        texts[text] += 1  # Todoist exports no ids: the second "Buy milk" gets a number.
        yield "key", text if texts[text] == 1 else f"{text}\n{texts[text]}"
    yield "title", row["CONTENT"]
    yield "description", row["DESCRIPTION"]
    yield "priority", PRIORITIES[row["PRIORITY"] or "4"]
    yield "dueDate", row["DATE"]
    # A subtask belongs to the last task above it whose INDENT is 1.
    yield "name", row["INDENT"]
    yield "parent", row["INDENT"] > "1" and "1"


def asana(row):
    yield "key", row["Task ID"]
    yield "title", row["Name"]
    yield "description", row["Notes"]
    yield "createdAt", row["Created At"]
    yield "completedAt", row["Completed At"]
    yield "status", "done" if row["Completed At"] else "todo"
    yield "dueDate", row["Due Date"]
    yield "assigneeId", row["Assignee Email"]
    # Asana exports the name of the parent: the last task above it with this name.
    yield "name", row["Name"]
    yield "parent", row["Parent task"]


def trello(row):
    yield "key", row["Archived"] != "true" and row["Card ID"]
    yield "createdAt", datetime.fromtimestamp(int(row["Card ID"][:8], 16), UTC).isoformat()
    yield "title", row["Card Name"]
    yield "description", row["Card Description"]
    yield "status", "done" if row["Due Complete"] == "true" else "todo"
    yield "dueDate", row["Due Date"]
    yield "projectId", row["List Name"]


def date(task):
    """Make the date a day or a timestamp. Put any other text into the description."""
    text = task.pop("dueDate", "")
    try:
        moment = datetime.fromisoformat(text)
        # A time without an offset is a time of this computer.
        task["dueDate"] = text if len(text) == 10 else moment.astimezone().isoformat()
    except ValueError:
        if text:
            task["description"] = f"{task.get('description', '')}\n\nDate: {text}".strip()
            counted["dates as text"] += 1


sys.stdin.reconfigure(encoding="utf-8-sig", newline="")
for row in csv.DictReader(sys.stdin):
    counted["rows"] += 1
    task = {name: value for name, value in globals()[program](row) if value}
    digest = hashlib.sha256(f"{program} {task.get('key')}".encode()).hexdigest()
    # Ids sort in the order of creation, as the ids of the service do.
    created = datetime.fromisoformat(task.get("createdAt", "2000-01-01")).replace(tzinfo=UTC)
    id = str(uuid.UUID(f"{int(created.timestamp() * 1000):012x}7{digest[:3]}8{digest[3:18]}"))
    key, name, parent = (task.pop(word, None) for word in ("key", "name", "parent"))
    if not key:
        counted["other rows"] += 1
        continue
    if parent and parent not in above:
        counted["without their parent"] += 1
    elif parent:
        task["parentId"] = above[parent]
    # A subtask has no subtasks of its own: they become its siblings.
    above[name] = task.get("parentId", id)
    if id in known:
        counted["known"] += 1
        continue
    known.add(id)
    date(task)
    counted["tasks"] += 1
    counted["subtasks"] += "parentId" in task
    print(json.dumps({"type": "task", "workspace": slug, "id": id, **task}))

words = "rows", "tasks", "subtasks", "dates as text", "without their parent", "known", "other rows"
print(", ".join(f"{counted[word]} {word}" for word in words), file=sys.stderr)
