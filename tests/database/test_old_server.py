"""A server that only reports another version; tests/proof/test_old_server.py runs an old one."""

import pytest
from support.commands import CommandRunner
from support.old_server import assert_named
from support.proxy import Proxy

from service.app import create_app
from service.settings import Settings
from service.version import POSTGRESQL


class OtherServer(Proxy):
    """A proxy that changes the reported major version; the message keeps its length."""

    def __init__(self, database_url, version):
        self.version = str(version).encode()
        super().__init__(database_url)

    def forwarded(self, content):
        name = b"server_version\0"
        before, found, after = content.partition(name)
        return before + found + self.version + after[2:] if found else content


@pytest.mark.slow
def test_a_postgresql_older_than_15_gets_an_error_of_one_line_that_names_its_version(
    database_url, connection
):
    row = connection.execute("SELECT current_setting('server_version') AS version").fetchone()
    proxy = OtherServer(database_url, 13)
    assert_named(proxy.url, f"13{row['version'].split()[0][2:]}")
    proxy.close()


@pytest.mark.slow
def test_check_warns_of_a_postgresql_that_is_newer_than_the_tested_versions(database_url):
    newest = POSTGRESQL[-1]
    for version, warnings in ((newest, 0), (newest + 1, 1)):
        proxy = OtherServer(database_url, version)
        runner = CommandRunner(create_app(Settings.read({"DATABASE_URL": proxy.url})))
        ran = runner.invoke(["check"])
        assert ran.exit_code == 0
        warning = f"PostgreSQL {version} is newer than 15 to {newest}, the tested versions: test it"
        assert ran.output.count(warning) == warnings, ran.output
        assert (f"connection  warning {warning}" in ran.output) == bool(warnings)
        proxy.close()
