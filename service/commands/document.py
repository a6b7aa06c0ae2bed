"""``task-service openapi``: the published contract on stdout."""

import click
from flask.cli import with_appcontext

from service import openapi


@click.command("openapi")
@with_appcontext
def print_document() -> None:
    """Print the interface as OpenAPI 3.1, like GET /openapi.json; needs no database."""
    click.echo(openapi.document())
