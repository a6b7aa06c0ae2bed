"""The statements of the service, and the statements of the test double.

``double/save`` is the file sql/double/save.sql in this folder.
"""

from pathlib import Path

from service.database.statements import STATEMENTS, read_statements

__all__ = ["SQL", "STATEMENTS"]

SQL = Path(__file__).with_name("sql")

STATEMENTS.update(read_statements(SQL))
