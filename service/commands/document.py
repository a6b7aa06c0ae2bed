"""``task-service openapi``: the published contract on stdout."""

from importlib import import_module

import click
from flask import current_app

from service import openapi
from service.commands.base import report_errors


@click.command("openapi")
@report_errors
def print_document() -> None:
    """Print the interface as OpenAPI 3.1, like GET /openapi.json; needs no database."""
    # Imported by name: the layer of the application lies above that of the commands.
    app = current_app or import_module("service.wsgi").app
    with app.app_context():
        click.echo(openapi.document())
