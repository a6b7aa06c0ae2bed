"""``task-service openapi``: print the OpenAPI document."""

import click

from service import openapi
from service.app import create_app
from service.commands.base import current_settings


@click.command("openapi")
def print_document() -> None:
    with create_app(current_settings()).app_context():
        click.echo(openapi.document())
