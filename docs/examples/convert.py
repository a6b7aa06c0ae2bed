"""Prints the tasks of an export as lines for the command ``load`` or for upload.py.

``python convert.py PROGRAM SLUG [EXPORT...] <FILE``: PROGRAM is todoist, asana or trello, FILE its
CSV, or Trello's JSON, and SLUG names the workspace. What an EXPORT of the workspace has is left
out. stderr accounts for each row and each column.
"""

import csv
import hashlib
import io
import json
import re
import sys
import uuid
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

# The columns without which a file is no export of the program, and those that say nothing.
NEEDED = {
    "todoist": {"TYPE", "CONTENT"},
    "asana": {"Task ID", "Name"},
    "trello": {"Card ID", "Card Name"},
}
USELESS = {
    *("DATE_LANG", "DEADLINE_LANG", "IS_COLLAPSED", "Last Modified", "Last Activity Date"),
    *("List ID", "Board ID", "Attachment Count", "Vote Count", "Comment Count"),
    *("Checklist Item Total Count", "Checklist Item Completed Count"),
}
PRIORITIES = {"1": "urgent", "2": "high", "3": "medium", "4": "low"}
# Todoist exports a date as the person has typed it: Oct 5 2026, 5 October 2026 at 17:00.
DAYS = "%b %d %Y", "%d %b %Y", "%B %d %Y", "%d %B %Y"
FORMS = [day + time for day in DAYS for time in ("", " %H:%M", " %I:%M%p", " %I:%M %p", " %I%p")]
# What a line may have; a program must not need the service to know it.
TITLE, DESCRIPTION, PROJECT, VALUE, PAIRS, METADATA = 500, 65_536, 128, 500, 50, 16_000

if len(sys.argv) < 3 or sys.argv[1] not in NEEDED:
    sys.exit(__doc__)
program, slug, *before = sys.argv[1:]
known = set()
for path in before:
    with open(path, encoding="utf-8") as export:
        lines = map(json.loads, export)
        known.update(line.get("id") for line in lines if line["type"] == "task")
texts, above, section = Counter(), {}, ""
counted, kept, described, left = Counter(), Counter(), Counter(), Counter()


# Each program removes from a row what becomes a field of the task.
def todoist(row):
    global section
    kind, text = row.pop("TYPE"), row.pop("CONTENT")
    if kind == "task":
        texts[text] += 1  # Todoist exports no ids: the second "Buy milk" gets a number.
        yield "key", text if texts[text] == 1 else f"{text}\n{texts[text]}"
    elif kind == "section":
        section = text
    else:
        left[f"{kind} rows"] += 1
    label = r"(?<!\S)@\S+"
    row["Labels"] = ", ".join(word[1:] for word in re.findall(label, text))
    row["Section"] = section
    yield "title", re.sub(rf"{label}\s*", "", text)
    yield "description", row.pop("DESCRIPTION", "")
    if row.get("PRIORITY", "") in PRIORITIES:
        yield "priority", PRIORITIES[row.pop("PRIORITY")]
    yield "dueDate", row.pop("DATE", "")
    yield "deadline", row.get("DEADLINE", "")
    yield "zone", row.pop("TIMEZONE", "")
    # A subtask belongs to the last task above it whose INDENT is 1.
    indent = row.pop("INDENT", "1")
    yield "name", indent
    yield "parent", indent > "1" and "1"


def asana(row):
    yield "key", row.pop("Task ID")
    yield "createdAt", row.pop("Created At", "")
    yield "status", "done" if row.get("Completed At") else "todo"
    yield "completedAt", row.pop("Completed At", "")
    # Asana exports the name of the parent: the last task above it with this name.
    yield "name", row["Name"]
    yield "parent", row.pop("Parent task", "")
    yield "title", row.pop("Name")
    yield "description", row.pop("Notes", "")
    yield "dueDate", row.pop("Due Date", "")
    yield "assigneeId", row.pop("Assignee Email", "")


def trello(row):
    id = row.pop("Card ID")
    if row.pop("Archived", "") == "true":
        left["archived cards"] += 1
    else:
        yield "key", id
    if re.match("[0-9a-f]{8}", id):
        yield "createdAt", datetime.fromtimestamp(int(id[:8], 16), UTC).isoformat()
    yield "title", row.pop("Card Name")
    yield "description", row.pop("Card Description", "")
    yield "status", "done" if row.pop("Due Complete", "") == "true" else "todo"
    yield "dueDate", row.pop("Due Date", "")
    if len(row.get("List Name", "")) <= PROJECT:
        yield "projectId", row.pop("List Name", "")


def cards(board):
    """Yield the cards of Trello's JSON as rows with the columns of its CSV."""
    lists = {one["id"]: one for one in board["lists"]}
    people = {one["id"]: one["fullName"] for one in board.get("members", ())}
    checklists = {}
    for one in board.get("checklists", ()):
        boxes = {"complete": "[x]"}
        items = [f"- {boxes.get(i['state'], '[ ]')} {i['name']}" for i in one["checkItems"]]
        checklists.setdefault(one["idCard"], []).append("\n".join([one["name"], *items]))
    for card in board["cards"]:
        column = lists.get(card.pop("idList"), {})
        labels = [one["name"] or one["color"] or "" for one in card.pop("labels", ())]
        id = card.pop("id")
        row = {
            "Card ID": id,
            "Card Name": card.pop("name"),
            "Card Description": "\n\n".join([card.pop("desc", ""), *checklists.get(id, ())]),
            "Archived": "true" if card.pop("closed", False) or column.get("closed") else "false",
            "Due Complete": "true" if card.pop("dueComplete", False) else "false",
            "Due Date": card.pop("due", None) or "",
            "List Name": column.get("name", ""),
            "Labels": ", ".join(labels),
            "Members": ", ".join(people.get(one, one) for one in card.pop("idMembers", ())),
            "Start Date": card.pop("start", None) or "",
            "Card URL": card.pop("shortUrl", ""),
            "Attachment Links": ", ".join(one["url"] for one in card.pop("attachments", ())),
        }
        left.update(name for name, value in card.items() if value and not name.startswith("id"))
        yield row
    left["comments"] += sum(one["type"] == "commentCard" for one in board.get("actions", ()))


def rows():
    """Yield each row with the number of its line, or of its card in Trello's JSON."""
    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig").replace("\0", "")
    except UnicodeDecodeError:
        sys.exit("The file is not UTF-8: export it again.")
    if program == "trello" and text.lstrip().startswith("{"):
        try:
            board = json.loads(text)
            yield from enumerate(cards(board), 1)
        except (ValueError, KeyError) as error:
            sys.exit(f"The file is no JSON of a board: {error!r}")
        return
    csv.field_size_limit(2**31 - 1)
    file = io.StringIO(text, newline="")
    header, names = csv.reader(file), []
    for name in next(header, ()):
        names.append(f"{name} {len(names) + 1}" if name in names else name)
    if absent := NEEDED[program].difference(names):
        sys.exit(f"The file has no column {min(absent)}: is it an export of {program}?")
    reader = csv.DictReader(file, names, restkey="Columns without a name", restval="")
    for row in reader:
        more = row.pop(reader.restkey, ())
        yield header.line_num + reader.line_num, {**row, reader.restkey: ", ".join(more)}


def dated(text, zone):
    """Return a day, or a moment in UTC; None for other text, such as "every day"."""
    moment, plain = None, re.sub(",| at\\b", "", text)
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
    for form in FORMS:
        with suppress(ValueError):
            moment = moment or datetime.strptime(plain, form)
    try:
        # A day, but not a week.
        if moment and not re.search(r"[\dT]\d?:\d|T\d|\d ?[ap]m\b", text, re.IGNORECASE):
            moment = None if "W" in text else moment.replace(tzinfo=UTC)
            shown = str(moment)[:10]
        elif moment:
            # A time without an offset and a timezone is a time of this computer.
            if zone and not moment.tzinfo:
                moment = moment.replace(tzinfo=ZoneInfo(zone))
            moment = moment.astimezone(UTC)
            shown = moment.isoformat()
    except (KeyError, ValueError, OverflowError, OSError):  # No such timezone, or no such moment.
        return None
    return shown if moment and 1900 <= moment.year <= 9998 else None


def is_past(text):
    made = datetime.fromisoformat(text)
    return datetime(1970, 1, 1, tzinfo=UTC) <= made.replace(tzinfo=UTC) <= datetime.now(UTC)


def finished(task, row):
    """Make the dates days or moments, keep the other columns, and cut what is too long."""
    title, more = task.get("title", "").strip(), []
    zone, deadline = task.pop("zone", ""), task.pop("deadline", "")
    for name, word in (("createdAt", "Created"), ("completedAt", "Completed"), ("dueDate", "Date")):
        if text := task.pop(name, "").strip():
            date = dated(text, zone if name == "dueDate" else "UTC")
            if date and (name != "createdAt" or is_past(date)):
                task[name] = date
            else:
                counted["dates as text"] += 1
                more.append(f"{word}: {text}")
    if "dueDate" not in task and (date := dated(deadline, zone)):
        task["dueDate"] = date
    metadata = {}
    for column, value in row.items():
        name = re.sub("[^a-z0-9_.:-]+", "-", column.lower()).strip("-")[:40]
        fits = name and name not in metadata and len(value) <= VALUE and len(metadata) < PAIRS
        if not value.strip() or value == "None":  # Todoist writes None for no duration.
            continue
        if column in USELESS:
            left[column] += 1
        elif fits and len(json.dumps({**metadata, name: value})) <= METADATA:
            metadata[name] = value
            kept[column] += 1
        else:
            more.append(f"{column}: {value}")
            described[column] += 1
    texts = [task.pop("description", ""), *more]
    if not title:
        counted["untitled"] += 1
        title = "(untitled)"
    if len(title) > TITLE:
        counted["titles cut"] += 1
        # The description has the whole title.
        texts.insert(0, title)
        title = title[: TITLE - 1] + "…"
    description = "\n\n".join(filter(None, texts)).strip()
    counted["descriptions cut"] += len(description) > DESCRIPTION
    if description:
        task["description"] = description[:DESCRIPTION]
    if metadata:
        task["metadata"] = metadata
    return {**task, "title": title}


def created(text):
    """Return the milliseconds since 1970 of the creation, or of another time if it is no date."""
    with suppress(ValueError):
        if is_past(text):
            return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    return 946_684_800_000


line = printed = 0
try:
    for line, row in rows():
        counted["rows"] += 1
        task = {name: value for name, value in globals()[program](row) if value}
        digest = hashlib.sha256(f"{program} {task.get('key')}".encode()).hexdigest()
        # Ids sort in the order of creation, as the ids of the service do.
        milliseconds = created(task.get("createdAt", ""))
        id = str(uuid.UUID(f"{milliseconds:012x}7{digest[:3]}8{digest[3:18]}"))
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
        counted["tasks"] += 1
        counted["subtasks"] += "parentId" in task
        # Empty lines, so that an error of load names the line of the row.
        print("\n" * (line - printed - 1), end="")
        document = {"type": "task", "workspace": slug, "id": id, **finished(task, row)}
        print(json.dumps(document))
        printed = line
except csv.Error as error:
    sys.exit(f"The row after line {line}: {error}")

words = (
    *("rows", "tasks", "subtasks", "dates as text", "untitled", "titles cut", "descriptions cut"),
    *("without their parent", "known", "other rows"),
)
print(", ".join(f"{counted[word]} {word}" for word in words), file=sys.stderr)
for words, columns in (
    ("in metadata", kept),
    ("in the description", described),
    ("left out", left),
):
    if any(columns.values()):
        counts = ", ".join(f"{column} {count}" for column, count in columns.items() if count)
        print(f"{words}: {counts}", file=sys.stderr)
