"""The operations of the published contract: what each one takes and every answer that it can give."""

from service.contract import ALWAYS, ERRORS, TRACE, headers, pointer

SUCCESS = {200: "Done", 201: "Created", 204: "Removed for good"}


def describe(operation, path, method, view, api, examples):
    """Complete an operation: its name, its headers, and every answer that it can give."""
    said = view.answers
    gated = path.startswith("/api/")
    first, *rest = view.__name__.split("_")
    name = operation["operationId"] = first + "".join(map(str.title, rest))
    operation["summary"] = view.__doc__.strip().split("\n")[0]
    if not gated:
        operation["security"] = []
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        content["example"] = examples["requests"][name]
        if method == "PATCH":
            forget_defaults(api.spec.components.schemas[content["schema"]["$ref"].split("/")[-1]])
    for parameter in operation.get("parameters", ()):
        plain(parameter["schema"])
    header_parameters = conditions(method, said)
    if header_parameters:
        found = (pointer("parameters", header) for header in header_parameters)
        operation["parameters"] = [*operation.get("parameters", ()), *found]
    refer = api.ma_plugin.resolver.resolve_schema_dict
    operation["responses"] = {
        str(said["status"]): success(said, method, gated, refer, examples["answers"].get(name))
    }
    if "If-None-Match" in header_parameters:
        operation["responses"]["304"] = {
            "description": "There is still the version that you have",
            "headers": headers(*ALWAYS, "ETag"),
        }
    for status in failures(path, method, said, gated):
        component, text, names = ERRORS[status]
        operation["responses"][str(status)] = (
            pointer("responses", component)
            if gated
            else failure(status, examples, text, set(names) - {*ALWAYS} | {"X-Request-Id"})
        )


def plain(schema):
    """What an absent parameter stands for inside, like None, is no value that a query could have."""
    if not isinstance(schema.get("default", ""), (int, str)):
        del schema["default"]
    if isinstance(schema["type"], list):
        schema["type"] = schema["type"][0]


def forget_defaults(schema):
    """In a PATCH an absent field is kept as it is."""
    for field in schema["properties"].values():
        field.pop("default", None)


def conditions(method, said):
    """The request headers that the operation heeds."""
    if method == "GET":
        return ["If-None-Match"] if said["form"] == "one" else []
    return ["Idempotency-Key"] if method == "POST" else ["Idempotency-Key", "If-Match"]


def failures(path, method, said, gated):
    """The statuses that the operation fails with, in order."""
    statuses = {400, 500, *said["also"]}
    if gated:
        statuses |= {401, 405, 429, 503}
    if "{" in path:
        statuses.add(404)
    if method != "GET":
        statuses |= {403, 409, 413, 415, 422}
    if method in ("PATCH", "DELETE"):
        statuses.add(412)
    return sorted(statuses)


def success(said, method, gated, refer, example):
    """The answer of an operation that went well."""
    names = list(ALWAYS if gated else TRACE)
    if said["status"] == 201:
        names.append("Location")
    if said["form"] == "page":
        names.append("Link")
    if said["form"] == "one" and said["shape"]:
        names.append("ETag")
    if method != "GET":
        names.append("Idempotent-Replayed")
    answer = {"description": SUCCESS[said["status"]], "headers": headers(*names)}
    if said["shape"]:
        schema = refer(said["shape"])
        if said["form"] == "page":
            schema = page_of(schema)
        elif said["form"] == "list":
            schema = {"type": "array", "items": schema}
        answer["content"] = {"application/json": {"schema": schema}}
        if example is not None:
            answer["content"]["application/json"]["example"] = example
    return answer


def failure(status, examples, text, names):
    """An answer that says what went wrong."""
    content = {
        "schema": pointer("schemas", "Error"),
        "examples": {
            name: {"value": error}
            for name, error in examples["errors"].items()
            if error["status"] == status
        },
    }
    return {
        "description": text,
        "headers": headers(*sorted(names)),
        "content": {"application/json": content},
    }


def page_of(shape):
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["data", "nextCursor"],
        "properties": {
            "data": {"type": "array", "items": shape},
            "nextCursor": {
                "type": ["string", "null"],
                "description": "The cursor of the next page; null on the last one",
            },
        },
    }
