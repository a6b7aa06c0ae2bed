"""The reference page, for development: ``/docs`` shows ``/openapi.json`` and sends requests.

The extra ``dev`` contains the whole page, so that a browser loads it from this service alone.
"""

from flask import Flask

from service.settings import InvalidSetting

PAGE = {
    "app_name": "Reference",
    "layout": "BaseLayout",
    "deepLinking": True,
    "displayRequestDuration": True,
    "persistAuthorization": True,
    "tryItOutEnabled": True,
    # Otherwise a third party would be told where the document is.
    "validatorUrl": None,
}


def init_app(app: Flask) -> None:
    """Add the page where the setting DOCS asks for it; ``task-service dev`` does."""
    if not app.config["SETTINGS"].docs:
        return
    try:
        from flask_swagger_ui import get_swaggerui_blueprint
    except ImportError:
        raise InvalidSetting("DOCS='on': needs the extra dev of this package") from None
    app.register_blueprint(get_swaggerui_blueprint("/docs", "/openapi.json", PAGE))
