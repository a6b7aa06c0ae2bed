"""Commands that print the rows of a statement as they are; its columns are theirs."""

from psycopg.rows import namedtuple_row

from service.commands.base import connect, echo_rows
from service.database.statements import STATEMENTS


def echo_list(name: str, *, as_json: bool, **values: object) -> None:
    """Run ``sql/<name>.sql`` on a new connection, and print all rows."""
    with connect() as connection, connection.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(STATEMENTS[name].source, values)
        rows = cursor.fetchall()
    echo_rows(rows, as_json=as_json)
