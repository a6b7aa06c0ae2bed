"""The reference page, for development: ``/docs`` shows ``/openapi.json`` and sends requests.

A package of the extra ``dev`` contains all files of the page, so a browser loads them from here.
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
    # By default Swagger UI sends the address of the document to a validator of a third party.
    "validatorUrl": None,
}


def init_app(app: Flask) -> None:
    """Add the page if the setting DOCS is on, as it is with ``task-service dev``."""
    if not app.config["SETTINGS"].docs:
        return
    try:
        from flask_swagger_ui import get_swaggerui_blueprint
    except ImportError:
        raise InvalidSetting("DOCS='on': needs the extra dev of this package") from None
    app.register_blueprint(get_swaggerui_blueprint("/docs", "/openapi.json", PAGE))
