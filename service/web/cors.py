"""CORS: pages of the origins in ``CORS_ORIGINS`` may read responses; other pages may not.

Source: https://fetch.spec.whatwg.org/#http-cors-protocol. Responses do not allow credentials, so a
page has to send a token. A page that sends a cookie cannot read the response, and the gate rejects
its writes.
"""

from flask import Flask, Request, Response

from service.context import current_request, current_settings
from service.web.responses import reply

METHODS = "DELETE", "GET", "PATCH", "POST"
# The last three belong to W3C Trace Context and Baggage; tracing tools add them to each request.
REQUEST_HEADERS = (
    "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Workspace-Id",
    "X-Request-Id", "baggage", "traceparent", "tracestate",
)  # fmt: skip
# The headers of a response that a page may read. Browsers always let a page read a few others.
RESPONSE_HEADERS = (
    "Accept-Encoding", "Allow", "Dry-Run", "ETag", "Idempotent-Replayed", "Link", "Location",
    "RateLimit", "RateLimit-Policy", "Retry-After", "WWW-Authenticate", "X-RateLimit-Limit",
    "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id",
)  # fmt: skip
# In seconds. Chromium caches the response to a preflight request for this time at most.
MAX_AGE = 7200


def init_app(app: Flask) -> None:
    """Register the hook after a request, if the setting lists an origin."""
    origins = frozenset(app.config["SETTINGS"].cors_origins)

    def add_headers(response: Response) -> Response:
        # Send Vary even if the request has no Origin, so that caches keep the responses for
        # different origins apart.
        response.vary.add("Origin")
        origin = current_request().headers.get("Origin")
        if origin in origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = ", ".join(RESPONSE_HEADERS)
        return response

    if origins:
        app.after_request(add_headers)


def is_preflight(request: Request) -> bool:
    """Return whether this is a CORS preflight request."""
    headers = request.headers
    return (
        request.method == "OPTIONS"
        and "Origin" in headers
        and "Access-Control-Request-Method" in headers
    )


def answer_preflight(request: Request) -> Response:
    """Answer a preflight request with 204; it allows nothing unless the origin is listed."""
    if request.headers["Origin"] not in current_settings().cors_origins:
        # The browser's console then tells the developer of the page that the origin is not allowed.
        return reply(None, 204)
    # For an unknown path, allow all methods, so that the page can read the 404.
    methods = getattr(request.routing_exception, "valid_methods", None) or METHODS
    headers = {
        "Access-Control-Allow-Methods": ", ".join(sorted(methods)),
        "Access-Control-Allow-Headers": ", ".join(REQUEST_HEADERS),
        "Access-Control-Max-Age": str(MAX_AGE),
    }
    return reply(None, 204, headers)
