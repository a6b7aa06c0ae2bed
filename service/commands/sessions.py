"""Commands for sessions: cookies for browsers."""

import click

from service.commands.tokens import new_token


@click.group("session")
def session() -> None:
    """Make session cookies."""


@session.command("create")
@click.argument("email")
@click.option(
    "--expires-in",
    type=click.IntRange(1, 36500),
    metavar="DAYS",
    default=30,
    show_default=True,
    help="Days until the session expires.",
)
def create_session(email: str, expires_in: int) -> None:
    """Make a session for the user EMAIL; prints the value of the cookie 'session'.

    No command prints the value again.
    """
    click.echo(new_token("session", email, expires_in=expires_in))
