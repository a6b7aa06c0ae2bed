"""What all ``flask`` commands share: plain values on stdout, errors in one line on stderr."""

from functools import wraps

import click
import psycopg
from flask import current_app
from marshmallow import ValidationError

from service import db, errors
from service.settings import BadSetting


def told(command):
    """Turn what can go wrong into one line on stderr and exit status 1."""

    @wraps(command)
    def run(*args, **options):
        try:
            return command(*args, **options)
        except BadSetting as error:
            raise click.ClickException(str(error)) from None
        except ValidationError as error:
            raise click.ClickException(errors.from_schema(error).description) from None
        except psycopg.Error as error:
            raise click.ClickException(in_words(error)) from None

    return run


def in_words(error):
    """A constraint's sentence where there is one, else the first line of what Postgres says."""
    constraint = error.diag.constraint_name or ""
    if " " in constraint:
        return constraint
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def run(name, /, **values):
    """Run ``sql/<name>.sql`` on a connection of its own and return its rows."""
    with db.connect(current_app.config["SETTINGS"]) as connection:
        return connection.execute(db.statement(name), values).fetchall()


def checked(field, name, value):
    """The value as the schema field takes it."""
    try:
        return field.deserialize(value)
    except ValidationError as error:
        raise ValidationError({name: error.messages}) from None


def only(rows, absent):
    """The one row, or an error that says what does not exist."""
    if not rows:
        raise click.ClickException(absent)
    return rows[0]
