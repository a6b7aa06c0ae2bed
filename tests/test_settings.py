"""Settings: read once, strictly, and every fault names its variable."""

from dataclasses import FrozenInstanceError

import pytest

from service.settings import InvalidSetting, Settings

pytestmark = pytest.mark.nodatabase


def test_without_an_environment_everything_has_its_default():
    settings = Settings.read({})
    assert settings.database_url is None
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.trusted_proxies == 0
    assert settings.database_prepare is True
    assert settings.max_body == 1024 * 1024


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("DATABASE_URL", "host=/tmp dbname=x", "host=/tmp dbname=x"),
        ("PORT", "1", 1),
        ("PORT", "65535", 65535),
        ("WEB_CONCURRENCY", "8", 8),
        ("WEB_THREADS", "16", 16),
        ("TRUSTED_PROXIES", "2", 2),
        ("DATABASE_PREPARE", "off", False),
        ("STATEMENT_TIMEOUT", "0.5", 0.5),
        ("POOL_TIMEOUT", "10", 10.0),
        ("MAX_BODY", "1", 1),
        ("PORT", "", 8000),
        ("HOST", "::1", "::1"),
        ("HOST", "db-1.internal", "db-1.internal"),
        ("WEBHOOK_ALLOW", "localhost, 10.0.0.0/8,::1", ("localhost", "10.0.0.0/8", "::1")),
    ],
)
def test_each_is_read_from_the_variable_of_its_name(variable, text, value):
    assert getattr(Settings.read({variable: text}), variable.lower()) == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        *(("PORT", text) for text in ("0", "65536", "-1", "+1", "8000 ", "\uff18000", "1e3", "80.0")),
        *(("WEB_CONCURRENCY", text) for text in ("0", "257", "two")),
        *(("WEB_THREADS", text) for text in ("0", "1_0")),
        *(("TRUSTED_PROXIES", text) for text in ("-1", "17", "true", "*")),
        *(("DATABASE_PREPARE", text) for text in ("On", "true", "1", "no", " off")),
        *(("STATEMENT_TIMEOUT", text) for text in ("0", "0.0", "-1", "nan", "1e3", "5s", "86401", ".5")),
        *(("POOL_TIMEOUT", text) for text in ("0", "x")),
        *(("MAX_BODY", text) for text in ("0", "1M", "9999999999")),
        *(("HOST", text) for text in ("127.0.0.1:9", "0:0", "[::1]", "a b", "-", "unix:/tmp/x")),
        *(("WEBHOOK_ALLOW", text) for text in ("10.0.0.0/33", "a b", "http://localhost")),
    ],
)  # fmt: skip
def test_a_bad_value_names_its_variable_and_what_is_allowed(variable, text):
    with pytest.raises(InvalidSetting, match="must be") as caught:
        Settings.read({variable: text})
    assert str(caught.value).startswith(f"{variable}={text!r}: must be")


def test_what_is_not_a_setting_is_left_alone():
    assert Settings.read({"PATH": "/bin", "port": "x"}) == Settings.read({})


def test_the_database_is_asked_for_by_name():
    for environment in ({}, {"DATABASE_URL": ""}):
        with pytest.raises(InvalidSetting, match=r"^DATABASE_URL is not set"):
            Settings.read(environment).require_database()
    assert Settings.read({"DATABASE_URL": "host=x"}).require_database() == "host=x"


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("DATABASE_URL", "the-password"),
        ("DATABASE_URL", "postgresql://user:the-password@host:port/name=%"),
        ("WEBHOOK_KEY", "the-password"),
    ],
)
def test_a_bad_secret_is_named_but_not_shown(variable, text):
    with pytest.raises(InvalidSetting, match=f"^{variable}: must") as caught:
        Settings.read({variable: text})
    assert "the-password" not in str(caught.value)


def test_settings_never_change():
    with pytest.raises(FrozenInstanceError):
        Settings.read({}).port = 1
