"""What all operations have in common, in the words of OpenAPI: credentials, headers, statuses.

``operations.py`` and ``events.py`` refer to these parts, ``openapi.py`` puts all together.
"""

TITLE = "Task, Meeting and Workspace service"

ABOUT = """\
A JSON interface to workspaces, tasks and meetings, with reads for dashboard, mail, knowledge and AI
suggestions.

- **Credentials**: `Authorization: Bearer <API token>`, or the cookie `session`. If the header is there,
  it alone counts.
- **Limits**: `X-RateLimit-Limit`, `-Remaining` and `-Reset` (epoch seconds) on every answer below `/api`.
- **Errors**: `message` says what to mend; `docs/errors.md` lists them all.
- **Pages**: `nextCursor` of one answer is the `cursor` of the next request; `Link` is that request.
- **Writes** can be repeated safely under an `Idempotency-Key`, and made conditional by `If-Match`.
- **Names** are case-sensitive, and unknown ones are refused: in bodies and in queries.
- **Strings** hold neither NUL nor half of a surrogate pair; lengths are counted in characters, of titles and
  names after the white space around them is dropped.
"""

SECURITY = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API token, made with `flask token create`",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "session",
        "description": "A session token, made with `flask session create`. Writing with it needs"
        " Content-Type: application/json and is refused from other sites",
    },
}


ID = {"type": "string", "format": "uuid"}


def header(description, *, required=True, **schema):
    return {"description": description, "required": required, "schema": schema}


HEADERS = {
    "X-RateLimit-Limit": header(
        "Requests that the window allows: the minute's, or the day's once that is used up",
        type="integer",
        minimum=1,
    ),
    "X-RateLimit-Remaining": header("Requests left in that window", type="integer", minimum=0),
    "X-RateLimit-Reset": header(
        "When that window ends: seconds since 1970", type="integer", minimum=0
    ),
    "RateLimit-Policy": header(
        "Both windows: quota q in w seconds",
        type="string",
        examples=['"minute";q=300;w=60, "day";q=100000;w=86400'],
    ),
    "RateLimit": header(
        "Both windows: r requests left, t seconds until they end",
        type="string",
        examples=['"minute";r=299;t=60, "day";r=99999;t=86400'],
    ),
    "X-Request-Id": header(
        "The request's own X-Request-Id if it has 1 to 64 of A-Z a-z 0-9 . _ -, else a new one",
        type="string",
        pattern="^[A-Za-z0-9._-]{1,64}$",
    ),
    "ETag": header("The version of the object", type="string", pattern='^"[0-9]+"$'),
    "Location": header("The path of the new object", type="string", format="uri-reference"),
    "Link": header(
        'The next page, if there is one: <...>; rel="next"',
        required=False,
        type="string",
        pattern='^<[^>]+>; rel="next"$',
    ),
    "Idempotent-Replayed": header(
        "true if this is the stored answer to an earlier request with the same Idempotency-Key",
        required=False,
        type="string",
        const="true",
    ),
    "Retry-After": header("Seconds to wait", type="integer", minimum=1),
    "WWW-Authenticate": header("The scheme of the credential", type="string", const="Bearer"),
    "Allow": header("The methods that this path answers to", type="string"),
}

RATE = "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"
RATE_DETAILS = "RateLimit-Policy", "RateLimit"
TRACE = ("X-Request-Id",)
ALWAYS = RATE + RATE_DETAILS + TRACE

# Status: name of the component, what it means, headers.
# 500 and 503 lack the details where the database could not be asked for them.
ERRORS = {
    400: (
        "BadRequest",
        "A fault in the body, the query or a header; `errors` names fields",
        ALWAYS,
    ),
    401: ("Unauthorized", "No valid credential", (*ALWAYS, "WWW-Authenticate")),
    403: ("Forbidden", "The role or the token's scope does not allow it", ALWAYS),
    404: ("NotFound", "Not there, or not yours to see", ALWAYS),
    405: ("MethodNotAllowed", "Another method on this path", (*ALWAYS, "Allow")),
    409: ("Conflict", "What is there now does not allow it", ALWAYS),
    412: ("PreconditionFailed", "If-Match names another version than there is", (*ALWAYS, "ETag")),
    413: ("ContentTooLarge", "The body is too large", ALWAYS),
    415: ("UnsupportedMediaType", "The body is declared as something else than JSON", ALWAYS),
    422: ("UnprocessableContent", "The Idempotency-Key was used for another request", ALWAYS),
    429: ("TooManyRequests", "The requests of a window are used up", (*ALWAYS, "Retry-After")),
    500: ("InternalServerError", "A fault of the service", RATE + TRACE),
    503: ("ServiceUnavailable", "The database is away", (*RATE, *TRACE, "Retry-After")),
}


def parameter(name, description, *, place="header", required=False, **schema):
    return {
        "name": name,
        "in": place,
        "required": required,
        "description": description,
        "schema": {"type": "string", **schema},
    }


PARAMETERS = {
    "Idempotency-Key": parameter(
        "Idempotency-Key",
        "Makes a repeat safe for 24 hours: it answers what the first one answered",
        pattern="^[!-~]{1,255}$",
    ),
    "If-Match": parameter("If-Match", 'Change only this version, an ETag like "3"; else 412'),
    "If-None-Match": parameter("If-None-Match", "304 without a body if this is the version there"),
}


def headers(*names):
    return {name: pointer("headers", name) for name in names}


def pointer(kind, name):
    return {"$ref": f"#/components/{kind}/{name}"}
