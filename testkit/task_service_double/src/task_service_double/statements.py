"""The statements of the service, and beside them those of the test double.

``double/cast`` is the file sql/double/cast.sql of this folder.
"""

from pathlib import Path

from service.database.statements import STATEMENTS, read_statements

__all__ = ["SQL", "STATEMENTS"]

SQL = Path(__file__).with_name("sql")

STATEMENTS.update(read_statements(SQL))
