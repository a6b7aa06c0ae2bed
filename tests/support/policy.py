"""The compatibility policy as functions: what may be added, and what must stay.

Each function compares what a release had with what this checkout has. It yields a sentence for each
difference that could break a client, an operator's script or an older release on the same database.
"""

# Limits of values. In what clients send, a lower maximum or a higher minimum rejects a request that
# succeeds today.
MAXIMA = "maximum", "maxLength", "maxItems"
MINIMA = "minimum", "minLength", "minItems"


def of_migrations(old, new):
    """Compare the SHA-256 of migrations, by name."""
    for name, sha256 in old.items():
        if new.get(name) != sha256:
            what = "differs from the released file" if name in new else "is missing"
            yield (
                f"sql/schema/{name}.sql {what}: databases already have it, so released migrations"
                " never change; restore the file, and add a new one"
            )
    for name in new.keys() - old.keys():
        if old and name < max(old):
            yield f"sql/schema/{name}.sql is new: its number must be above {max(old)}"


def of_columns(old, new):
    """Compare the types of columns by table and name: the old release still reads and writes them.

    A release may drop a column only if no statement of the release before it used the column.
    """
    for column, kind in old.items():
        if column not in new:
            yield f"the column {column} is gone"
        elif new[column] != kind:
            yield f"the column {column} was {kind} and is {new[column]}"


def of_names(old, new, place="names"):
    """Compare names in lists, by the keys of nested objects: each old name must still be there."""
    if isinstance(old, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{place}: {key} is gone"
            else:
                yield from of_names(value, new[key], f"{place}, {key}")
    elif place.endswith(", arguments"):
        # Their order counts, and a further one must be optional.
        added = new[len(old) :]
        if new[: len(old)] != old or not all(name.startswith("[") for name in added):
            yield f"{place}: {' '.join(old)} became {' '.join(new)}"
    elif place.endswith(", required"):
        yield from (f"{place}: {name} was optional" for name in new if name not in old)
    else:
        yield from (f"{place}: {name} is gone" for name in old if name not in new)


def of_lines(old, new):
    """Compare lines of an export: each old object must still be there, with all its members."""
    known = {identity(line): line for line in new}
    for line in old:
        found = known.get(identity(line))
        if found is None:
            yield f"the line {identity(line)} is gone"
            continue
        for name, value in line.items():
            # The first line names the release, and the last one the number of lines.
            if found.get(name) != value and name not in ("release", "lines"):
                yield f"the line {identity(line)}: {name} was {value!r} and is {found.get(name)!r}"


def identity(line):
    names = "type", "id", "user", "webhookId", "number"
    return tuple(line.get(name) for name in names)


def of_openapi(old, new):
    """Compare two OpenAPI documents by docs/api.md and the document's section *Compatibility*."""
    return OpenAPI(old, new).faults()


def may_name_several(parameter):
    """Return whether a parameter is a list, separated by commas, in which one value is enough."""
    style = parameter["in"], parameter.get("style"), parameter.get("explode")
    return style == ("query", "form", False) and parameter["schema"].get("minItems", 0) <= 1


class OpenAPI:
    """A comparison of two documents.

    ``sent`` is whether the service receives what a schema describes: then a new required member
    breaks clients. In what clients receive, a new value or type breaks them.
    """

    def __init__(self, old, new):
        self.old, self.new = old, new
        # The schemas that are being compared or were compared, so that one in itself ends.
        self.seen = set()

    def faults(self):
        for name in self.old["components"]["schemas"]:
            if name not in self.new["components"]["schemas"]:
                yield f"the schema {name} is gone, which names a type of generated clients"
        for kind in ("paths", "webhooks"):
            for path, methods in self.old.get(kind, {}).items():
                for method, operation in methods.items():
                    place = f"{method.upper()} {path}"
                    current = self.new.get(kind, {}).get(path, {}).get(method)
                    if current is None:
                        yield f"{place} is gone"
                    else:
                        receives = kind == "webhooks"
                        yield from self.operations(operation, current, place, receives=receives)

    def operations(self, old, new, place, *, receives):
        """Compare two operations; ``receives`` is whether the client receives the request."""
        for name in ("operationId", "security"):
            if old.get(name) != new.get(name):
                yield f"{place}: {name} was {old.get(name)} and is {new.get(name)}"
        yield from self.parameters(old, new, place)
        old_body, new_body = old.get("requestBody"), new.get("requestBody", {})
        if new_body.get("required") and not (old_body or {}).get("required"):
            yield f"{place}: the body is required now"
        if old_body:
            yield from self.contents(old_body, new_body, f"{place}, body", sent=not receives)
        for status, response in old["responses"].items():
            if status not in new["responses"]:
                yield f"{place}: the status {status} is gone"
                continue
            response, current = self.resolve(response, new["responses"][status])
            yield from self.contents(response, current, f"{place}, {status}", sent=False)
            for name, header in response.get("headers", {}).items():
                where = f"{place}, {status}, header {name}"
                if name not in current.get("headers", {}):
                    yield f"{where} is gone"
                else:
                    header, other = self.resolve(header, current["headers"][name])
                    yield from self.schemas(header["schema"], other["schema"], where, sent=False)
        for status in new["responses"].keys() - old["responses"].keys():
            if status < "400":
                yield f"{place}: the status {status} is new, which a request does not get today"

    def parameters(self, old, new, place):
        old_ones, new_ones = (
            {(found["in"], found["name"]): found for found in self.each(document, operation)}
            for document, operation in ((self.old, old), (self.new, new))
        )
        for key, parameter in old_ones.items():
            where, current = f"{place}, parameter {key[1]}", new_ones.get(key)
            if current is None:
                yield f"{where} is gone"
                continue
            if current.get("required") and not parameter.get("required"):
                yield f"{where} is required now"
            if may_name_several(current) and not may_name_several(parameter):
                # One value is written as before.
                items = current["schema"]["items"]
                yield from self.schemas(parameter["schema"], items, where, sent=True)
                continue
            for name in ("style", "explode"):
                if parameter.get(name) != current.get(name):
                    yield f"{where}: {name} changed"
            yield from self.schemas(parameter["schema"], current["schema"], where, sent=True)
        for key, parameter in new_ones.items():
            if key not in old_ones and parameter.get("required"):
                yield f"{place}: the new parameter {key[1]} is required"

    def each(self, document, operation):
        return [follow(document, found) for found in operation.get("parameters", [])]

    def contents(self, old, new, place, *, sent):
        for kind, content in old.get("content", {}).items():
            if kind not in new.get("content", {}):
                yield f"{place}: {kind} is gone"
            elif "schema" in content:
                schema = new["content"][kind].get("schema", {})
                yield from self.schemas(content["schema"], schema, place, sent=sent)

    def schemas(self, old, new, place, *, sent):
        key = (old.get("$ref", id(old)), new.get("$ref", id(new)), sent)
        if key in self.seen:
            return
        self.seen.add(key)
        old, new = self.resolve(old, new)
        # The order of types means nothing.
        for name in ("type", "format", "const", "pattern", "uniqueItems", "not"):
            before, after = (plain(found.get(name)) for found in (old, new))
            # A schema without a pattern accepts more; what the client receives may follow another.
            # What is excluded grows with the types of events.
            allowed = after is None if sent and name == "pattern" else not sent
            if before != after and not (name in ("pattern", "not") and allowed):
                yield f"{place}: {name} was {before} and is {after}"
        yield from self.choices(old, new, place, sent=sent)
        if sent:
            yield from self.limits(old, new, place)
        yield from self.members(old, new, place, sent=sent)
        for name in ("items", "additionalProperties", "propertyNames"):
            before, after = old.get(name, True), new.get(name, True)
            if isinstance(before, dict) and isinstance(after, dict):
                yield from self.schemas(before, after, f"{place}, {name}", sent=sent)
            elif before != after and not (sent and after is True):
                yield f"{place}: {name} was {before} and is {after}"

    def choices(self, old, new, place, *, sent):
        before, after = set(old.get("enum", [])), set(new.get("enum", []))
        if "enum" in old and "enum" in new:
            yield from (f"{place}: the value {value} is gone" for value in sorted(before - after))
            if not sent:
                added = sorted(after - before)
                yield from (f"{place}: the value {value} is new" for value in added)
        elif "enum" in old and not sent:
            yield f"{place}: any value is allowed now"
        elif "enum" in new and sent:
            yield f"{place}: only some values are allowed now"
        for name in ("anyOf", "oneOf", "allOf"):
            mine, others = old.get(name, []), new.get(name, [])
            # Types of events may be added; the schema tells them apart by a member.
            grows = "discriminator" in old and not sent
            if len(mine) != len(others) and not (grows and len(mine) < len(others)):
                yield f"{place}: {name} had {len(mine)} schemas and has {len(others)}"
            for one, other in zip(mine, others, strict=False):
                yield from self.schemas(one, other, place, sent=sent)

    def limits(self, old, new, place):
        for names, is_narrower in ((MAXIMA, int.__lt__), (MINIMA, int.__gt__)):
            for name in names:
                if name in new and (name not in old or is_narrower(new[name], old[name])):
                    yield f"{place}: {name} was {old.get(name)} and is {new[name]}"

    def members(self, old, new, place, *, sent):
        before, after = old.get("properties", {}), new.get("properties", {})
        for name, schema in before.items():
            if name not in after:
                yield f"{place}: the member {name} is gone"
            else:
                yield from self.schemas(schema, after[name], f"{place}, {name}", sent=sent)
        old_ones, new_ones = set(old.get("required", [])), set(new.get("required", []))
        if sent:
            for name in sorted(new_ones - old_ones):
                yield f"{place}: the member {name} is required now"
        else:
            for name in sorted(old_ones - new_ones):
                yield f"{place}: the member {name} may be absent now"

    def resolve(self, old, new):
        return follow(self.old, old), follow(self.new, new)


def follow(document, found):
    """Return what a ``$ref`` of the document names, or the thing itself."""
    while "$ref" in found:
        target = document
        for part in found["$ref"].removeprefix("#/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        found = target
    return found


def plain(value):
    return sorted(value) if isinstance(value, list) else value
