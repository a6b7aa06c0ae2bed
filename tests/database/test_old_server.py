"""A server that only reports an old version; tests/proof/test_old_server.py runs a real one."""

import pytest
from support.old_server import assert_named
from support.proxy import Proxy


class OldServer(Proxy):
    """A proxy that changes the reported version to 13; the message keeps its length."""

    def forwarded(self, content):
        name = b"server_version\0"
        before, found, after = content.partition(name)
        return before + found + b"13" + after[2:] if found else content


@pytest.mark.slow
def test_a_postgresql_older_than_15_gets_an_error_of_one_line_that_names_its_version(
    database_url, connection
):
    row = connection.execute("SELECT current_setting('server_version') AS version").fetchone()
    proxy = OldServer(database_url)
    assert_named(proxy.url, f"13{row['version'].split()[0][2:]}")
    proxy.close()
