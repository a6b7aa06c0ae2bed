"""What a role or a database sets for its connections changes no response and no command."""

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from support.rows import restore_cast
from support.server_settings import Script, alternatives

ALTER = sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}")
RESET = sql.SQL("ALTER ROLE {} IN DATABASE {} RESET ALL")
# The values of these settings are lists of names.
LISTS = {"search_path", "restrict_nonsystem_relation_kind"}


class Server:
    """The service on a database that has settings for the role of the service."""

    def __init__(self, app, connection):
        self.app, self.connection = app, connection
        user = conninfo_to_dict(app.config["SETTINGS"].database_url)["user"]
        self.place = sql.Identifier(user), sql.Identifier(connection.info.dbname)

    def results(self, settings=()):
        """Return the results of the script, on connections that begin with these settings."""
        try:
            for name, value in settings:
                values = map(sql.Literal, value.split(", ") if name in LISTS else [value])
                text = sql.SQL(", ").join(values)
                self.connection.execute(ALTER.format(*self.place, sql.Identifier(name), text))
            pool = self.app.extensions["pool"]
            pool.open()
            pool.drain()
            return Script(self.app, self.connection).run()
        except (KeyError, psycopg.Error) as error:
            # A failed request has no id for the next one.
            return [repr(error)]
        finally:
            self.connection.execute(RESET.format(*self.place))
            restore_cast(self.connection)


@pytest.fixture
def server(silent_app, connection, unlimited):
    yield Server(silent_app, connection)
    silent_app.extensions["pool"].drain()


def difference(expected, found):
    """Return the first result that differs, as it was expected and as it is."""
    return next((pair for pair in zip(expected, found, strict=False) if len({*pair}) > 1), None)


def guilty(server, expected, settings):
    """Return the settings of which each alone changes a result, with the changed result."""
    changed = difference(expected, server.results(settings))
    if not changed or len(settings) == 1:
        return {settings[0]: changed} if changed else {}
    middle = len(settings) // 2
    halves = settings[:middle], settings[middle:]
    return {name: text for half in halves for name, text in guilty(server, expected, half).items()}


@pytest.mark.slow
def test_all_settings_of_a_role_together_change_no_result(server):
    """Each setting has its first other value, and then its last one."""
    settings, expected = alternatives(server.connection), server.results()
    assert difference(expected, server.results()) is None
    for chosen in (dict(reversed(settings)), dict(settings)):
        changed = difference(expected, server.results(chosen.items()))
        # Two settings can change a result that neither of them changes alone.
        assert changed is None, (changed, guilty(server, expected, [*chosen.items()]))


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_each_other_value_of_a_setting_of_a_role_changes_no_result(server):
    expected = server.results()
    for pair in alternatives(server.connection):
        assert guilty(server, expected, [pair]) == {}
