"""Pages of other origins: none may call this service, but those that ``CORS_ORIGINS`` lists.

Source: https://fetch.spec.whatwg.org/#http-cors-protocol. No response allows credentials, so a page
has to send a token: with a cookie it can read nothing, and the gate rejects what it would write.
"""

from flask import Flask, Response, request
from werkzeug.exceptions import MethodNotAllowed, NotFound

from service.http.responses import reply

METHODS = "DELETE", "GET", "PATCH", "POST"
# The last three are those of W3C Trace Context and Baggage, which tracing adds to each request.
REQUEST_HEADERS = (
    "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "X-Request-Id",
    "baggage", "traceparent", "tracestate",
)  # fmt: skip
# Those that a page may read are few unless they are named here.
RESPONSE_HEADERS = (
    "Allow", "ETag", "Idempotent-Replayed", "Link", "Location", "RateLimit", "RateLimit-Policy",
    "Retry-After", "WWW-Authenticate", "X-RateLimit-Limit", "X-RateLimit-Remaining",
    "X-RateLimit-Reset", "X-Request-Id",
)  # fmt: skip
# Seconds; Chromium keeps no response to a preflight request for longer.
MAX_AGE = 7200


def init_app(app: Flask) -> None:
    """Register the hooks, if any origin is listed."""
    origins = frozenset(app.config["SETTINGS"].cors_origins)
    if not origins:
        return

    def answer_preflight() -> Response | None:
        """What a page may send to this path, for a browser that asks before it sends."""
        error = request.routing_exception
        if (
            request.method != "OPTIONS"
            or not isinstance(error, MethodNotAllowed | NotFound)
            or request.headers.get("Origin") not in origins
            or "Access-Control-Request-Method" not in request.headers
        ):
            return None
        # Of a path that does not exist a page may learn so, by any method.
        methods = getattr(error, "valid_methods", None) or METHODS
        headers = {
            "Access-Control-Allow-Methods": ", ".join(sorted(methods)),
            "Access-Control-Allow-Headers": ", ".join(REQUEST_HEADERS),
            "Access-Control-Max-Age": str(MAX_AGE),
        }
        return reply(None, 204, headers)

    def add_headers(response: Response) -> Response:
        """Let the pages of a listed origin read the response."""
        # Without an origin too: a cache must not give a page the response to another request.
        varies = response.headers.get("Vary")
        response.headers["Vary"] = f"{varies}, Origin" if varies else "Origin"
        origin = request.headers.get("Origin")
        if origin in origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = ", ".join(RESPONSE_HEADERS)
        return response

    app.before_request(answer_preflight)
    app.after_request(add_headers)
