"""Settings: read once and checked; the message for an invalid value names the variable."""

import re
import shutil
import subprocess
import sys

import pytest
from support.project import PROJECT

from service.settings import InvalidSetting, Settings
from service.version import version

pytestmark = pytest.mark.nodatabase


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [
        ("DATABASE_URL", "host=/tmp dbname=x", "host=/tmp dbname=x"),
        *[("PORT", "1", 1), ("PORT", "65535", 65535), ("PORT", "", 8000)],
        *[("WEB_CONCURRENCY", "8", 8), ("WEB_THREADS", "16", 16), ("TRUSTED_PROXIES", "2", 2)],
        *[("DATABASE_PREPARE", "off", False), ("SPEEDUPS", "off", False)],
        ("STATEMENT_TIMEOUT", "0.5", 0.5),
        ("POOL_TIMEOUT", "10", 10.0),
        ("MAX_BODY", "1", 1),
        ("HOST", "::1", "::1"),
        ("HOST", "db-1.internal", "db-1.internal"),
        ("WEBHOOK_ALLOW", "localhost, 10.0.0.0/8,::1", ("localhost", "10.0.0.0/8", "::1")),
        ("WEBHOOK_SCHEDULE", "1, 2.5", (1.0, 2.5)),
        ("CORS_ORIGINS", "https://a.example, http://[::1]", ("https://a.example", "http://[::1]")),
        ("CORS_ORIGINS", "capacitor://localhost", ("capacitor://localhost",)),
        ("CORS_ORIGINS", "http://x:443,https://x:80", ("http://x:443", "https://x:80")),
        ("CORS_ORIGINS", " , ", ()),
    ],
)
def test_each_setting_is_read_from_the_variable_of_its_name(variable, text, value):
    assert getattr(Settings.read({variable: text}), variable.lower()) == value


EXAMPLES = {"database_url": "host=/tmp", "login_key": "k" * 32, "webhook_key": "k" * 32}


@pytest.mark.parametrize("setting", Settings.secrets())
def test_white_space_at_the_ends_of_a_secret_is_ignored(setting):
    """A secret of Kubernetes that was made with echo ends with a newline."""
    variable, text = setting.upper(), EXAMPLES[setting]
    expected = Settings.read({variable: text})
    assert Settings.read({variable: f" {text}\r\n"}) == expected
    assert Settings.changed({variable: f"{text}\n"}) == Settings.changed({variable: text})


NO_ORIGINS = (
    "*", "https://*.example.com", "null", "example.com", "//example.com", "https://",
    "a.example:80", "https://a.example/", "https://a.example/x", "https://a.example?x", "https://me@a.example",
    "https://A.example", "HTTPS://a.example", "https://bücher.example", "https://-a.example",
    "https://a.example:443", "http://a.example:80", "https://a.example:", "https://a.example:x",
    "https://a..example", "https://a.example:65536",
    "https://a.example https://b.example", "https://a.example,*", "https://a.example,null",
)  # fmt: skip
INVALID = {
    "PORT": ("0", "65536", "-1", "+1", "1_0", "8000 ", "\uff18000", "1e3", "80.0", "x"),
    "WEB_CONCURRENCY": ("0", "257", "two"),
    "WEB_THREADS": ("0", "257"),
    "TRUSTED_PROXIES": ("-1", "17", "true", "*"),
    "DATABASE_PREPARE": ("On", "true", "1", "no", " off"),
    "DOCS": ("yes", "ON"),
    "STATEMENT_TIMEOUT": ("0", "0.0", "-1", "nan", "inf", "1e3", "5s", "86401", ".5"),
    "POOL_TIMEOUT": ("0", "x"),
    "MAX_BODY": ("0", "1M", "9999999999"),
    "HOST": ("127.0.0.1:9", "0:0", "[::1]", "a b", "-", "unix:/tmp/x"),
    "CORS_ORIGINS": NO_ORIGINS,
    "WEBHOOK_ALLOW": ("10.0.0.0/33", "a b", "http://localhost"),
    "WEBHOOK_SCHEDULE": ("5,x", "0,5", "5;300", "nan"),
    "WEBHOOK_DISABLE_AFTER": ("0", "8761"),
}


@pytest.mark.parametrize("variable", INVALID)
def test_the_error_for_an_invalid_value_names_the_variable_and_what_is_allowed(variable):
    for text in INVALID[variable]:
        with pytest.raises(InvalidSetting, match=f"^{re.escape(f'{variable}={text!r}: must be')}"):
            Settings.read({variable: text})


@pytest.mark.parametrize("text", ["*", "https://example.com/", "https://example.com:443"])
def test_an_invalid_origin_is_named_with_all_that_an_origin_must_be(text):
    reason = "in lower case, without a path and without the default port"
    with pytest.raises(InvalidSetting, match=re.escape(f"{reason}; {text} is not an origin")):
        Settings.read({"CORS_ORIGINS": f"https://app.example.com,{text}"})


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", []),
        ("k" * 32, ["k" * 32]),
        ("k" * 32 + "," + "l" * 32, ["k" * 32, "l" * 32]),
        (f" {'k' * 32} , {'l' * 32} ", ["k" * 32, "l" * 32]),
    ],
)
def test_webhook_key_lists_keys_newest_first(text, keys):
    assert Settings.read({"WEBHOOK_KEY": text}).webhook_keys == keys


@pytest.mark.parametrize("key", ["k" * 32])
@pytest.mark.parametrize("form", ["{},", ",{}", "{},,{}", "{},short", "{}, long enough", ",", " "])
def test_an_empty_or_short_part_of_webhook_key_is_rejected_and_the_message_does_not_show_it(
    key, form
):
    with pytest.raises(
        InvalidSetting, match=r"^WEBHOOK_KEY: must be keys of at least 32"
    ) as caught:
        Settings.read({"WEBHOOK_KEY": form.replace("{}", key)})
    assert key not in str(caught.value)


def test_webhook_lease_must_be_longer_than_webhook_timeout():
    with pytest.raises(InvalidSetting, match=r"^WEBHOOK_LEASE: must be longer"):
        Settings.read({"WEBHOOK_LEASE": "2", "WEBHOOK_TIMEOUT": "2"})


def test_environment_variables_that_are_no_settings_are_ignored():
    assert Settings.read({"PATH": "/bin", "port": "x"}) == Settings.read({})


def test_the_error_for_a_missing_database_url_names_the_variable():
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
def test_the_error_for_an_invalid_secret_names_the_variable_but_does_not_show_the_secret(
    variable, text
):
    with pytest.raises(InvalidSetting, match=f"^{variable}: must") as caught:
        Settings.read({variable: text})
    assert "the-password" not in str(caught.value)


@pytest.mark.parametrize("platform", ["DYNO", "RENDER", "FLY_APP_NAME"])
def test_on_a_hosting_platform_that_sets_port_the_service_listens_on_all_addresses(platform):
    variables = {platform: "x", "PORT": "5000"}
    assert Settings.read(variables).host == "0.0.0.0"
    assert Settings.changed(variables) == {"PORT": "5000", "HOST": "0.0.0.0"}
    assert Settings.read({**variables, "HOST": "::"}).host == "::"
    assert Settings.read({platform: "x"}).host == "127.0.0.1"
    assert Settings.read({"PORT": "5000"}).host == "127.0.0.1"


@pytest.mark.parametrize("name", [name.upper() for name in Settings.secrets()])
def test_each_secret_can_be_read_from_a_file(name, tmp_path):
    text, other = ("host=/tmp", "host=/x") if name == "DATABASE_URL" else ("k" * 32, "x" * 32)
    file = tmp_path / "secret"
    file.write_text(f"{text}\n")
    variables = {f"{name}_FILE": str(file), "PORT_FILE": str(file)}
    settings = Settings.read(variables)
    assert (getattr(settings, name.lower()), settings.port) == (text, 8000)
    assert Settings.changed(variables) == {name: "set"}
    assert Settings.misspelled(variables) == {}
    assert getattr(Settings.read({**variables, name: other}), name.lower()) == other
    with pytest.raises(InvalidSetting, match=f"{name}_FILE='/nowhere': FileNotFoundError"):
        Settings.read({f"{name}_FILE": "/nowhere"})


def test_a_checkout_that_is_not_installed_knows_its_version(copied):
    """A platform may install requirements.txt only; -S hides the packages installed here."""
    shutil.copy(PROJECT / "setup.cfg", copied)
    show = [sys.executable, "-S", "-c", "from service.version import version; print(version())"]
    ran = subprocess.run(show, cwd=copied, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == version()


def test_only_one_property_reads_the_setting_speedups():
    """So SPEEDUPS=off runs the same code as a checkout without the package, which .ci/run tests."""
    for path in PROJECT.glob("service/**/*.py"):
        found = re.findall(r"\bsettings\.speedups\b", path.read_text())
        assert not found, f"{path} reads settings.speedups: use settings.uses_speedups"
    class_of_settings = PROJECT.joinpath("service/settings.py").read_text()
    assert re.findall(r"\bself\.speedups\b", class_of_settings) == ["self.speedups"]
