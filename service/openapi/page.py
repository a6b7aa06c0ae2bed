"""The reference page, for development: ``/docs`` shows ``/openapi.json`` and sends requests.

A package of the extra ``dev`` contains all files of the page, so a browser loads them from this
service.
"""

import re
from base64 import b64encode
from hashlib import sha256

from flask import Flask, Response, request

from service.settings import InvalidSetting

PAGE = {
    "app_name": "Reference",
    "layout": "BaseLayout",
    "deepLinking": True,
    "displayRequestDuration": True,
    "persistAuthorization": True,
    "tryItOutEnabled": True,
    # Without this, Swagger UI would send the address of the document to a third party's validator.
    "validatorUrl": None,
}

# The page may run its own scripts, show its own pictures, and call this service, but nothing else.
POLICY = (
    "default-src 'none'; script-src 'self'{hashes}; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
# The page fits on a phone, and its operations begin on the first screen: a long text scrolls.
HEAD = b"""<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
.swagger-ui .info { margin: 1rem 0; }
.swagger-ui .info .description { max-height: 30vh; overflow-y: auto; }
.swagger-ui .scheme-container { margin: 0 0 1rem; padding: .5rem 0; }
@media (max-width: 600px) {
  .swagger-ui .wrapper, .swagger-ui .opblock .opblock-section-header { padding: 0 8px; }
  .swagger-ui .opblock .opblock-summary { flex-wrap: wrap; }
  .swagger-ui .opblock .opblock-summary-path { max-width: none; overflow-wrap: anywhere; }
  .swagger-ui :is(table, tbody, tr, td) { display: block; width: auto; }
  .swagger-ui table thead { display: none; }
  .swagger-ui table tbody tr td { min-width: 0; max-width: 100%; padding: 4px 0; }
  .swagger-ui :is(input, select, textarea) { min-width: 0 !important; max-width: 100%; }
  .swagger-ui .servers { overflow-x: clip; }
  .swagger-ui pre, .swagger-ui .highlight-code { max-width: 100%; overflow-x: auto; }
}
</style>
"""
INLINE_SCRIPT = re.compile(b"<script>(.*?)</script>", re.DOTALL)


def init_app(app: Flask) -> None:
    """Add the page if the setting DOCS is on, as it is with ``task-service dev``."""
    if not app.config["SETTINGS"].docs:
        return
    try:
        from flask_swagger_ui import get_swaggerui_blueprint
    except ImportError:
        raise InvalidSetting("DOCS='on': needs the extra dev of this package") from None
    app.register_blueprint(get_swaggerui_blueprint("/docs", "/openapi.json", PAGE))
    app.after_request(finish)


def finish(response: Response) -> Response:
    """Add the Content-Security-Policy, and what the page needs in its head for small windows."""
    if request.blueprint != "swagger_ui":
        return response
    hashes = ""
    # A response with direct_passthrough is a file of the package, which contains no page.
    if not response.direct_passthrough:
        response.set_data(response.get_data().replace(b"</head>", HEAD + b"</head>"))
        for script in INLINE_SCRIPT.findall(response.get_data()):
            hashes += f" 'sha256-{b64encode(sha256(script).digest()).decode()}'"
    response.headers["Content-Security-Policy"] = POLICY.format(hashes=hashes)
    return response
