"""The reference page: ``/docs`` shows ``/openapi.json`` and sends requests from it. For development.

The page comes with the extra ``dev``, all of it, so that a browser asks nobody but this service.
"""

from service.settings import BadSetting

PAGE = {
    "app_name": "Reference",
    "layout": "BaseLayout",
    "deepLinking": True,
    "displayRequestDuration": True,
    "persistAuthorization": True,
    "tryItOutEnabled": True,
    # Otherwise a stranger's server would be told where the document is.
    "validatorUrl": None,
}


def init_app(app):
    """Add the page where the setting DOCS asks for it; ``flask dev`` does."""
    if not app.config["SETTINGS"].docs:
        return
    try:
        from flask_swagger_ui import get_swaggerui_blueprint
    except ImportError:
        raise BadSetting("DOCS='on': needs the extra dev (pip install -e '.[dev]')") from None
    app.register_blueprint(get_swaggerui_blueprint("/docs", "/openapi.json", PAGE))
