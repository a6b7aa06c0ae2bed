"""Settings: read once and checked; the message for an invalid value names the variable."""

import re
import shutil
import string
import subprocess
import sys
from dataclasses import fields
from itertools import product
from typing import NamedTuple

import pytest
from psycopg.conninfo import conninfo_to_dict
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


@pytest.mark.parametrize("setting", Settings.secrets())
def test_white_space_at_the_ends_of_a_secret_is_no_change(setting):
    """A secret of Kubernetes that was made with echo ends with a newline."""
    variable, text = setting.upper(), PLAIN[setting]
    assert Settings.changed({variable: f"{text}\n"}) == Settings.changed({variable: text})


NO_ORIGINS = (
    "*", "https://*.example.com", "null", "example.com", "//example.com", "https://",
    "a.example:80", "https://a.example/", "https://a.example/x", "https://a.example?x", "https://me@a.example",
    "https://A.example", "HTTPS://a.example", "https://bücher.example", "https://-a.example",
    "https://a.example:443", "http://a.example:80", "https://a.example:", "https://a.example:x",
    "https://a..example", "https://a.example:65536",
    "https://a.example https://b.example", "https://a.example;https://b.example", '["https://a.example"]',
    "https://a.example,*", "https://a.example,null",
)  # fmt: skip
KEY, OTHER_KEY = "Zk7qX2vW9pB4nR8s" * 2, "tY3mL6cJ1hG5fD0a" * 2
URL = f"postgresql://alice:{KEY}@db.example:5432/service"


class Ways(NamedTuple):
    """Other ways in which people write values."""

    # Each with the value that it means.
    accepted: dict[str, object]
    refused: tuple[str, ...]


# By the type of a setting, or by the name of a setting with a type of its own.
WAYS = {
    bool: Ways(
        {
            **{"On": True, "TRUE": True, "true": True, "yes": True, "1": True},
            **{"OFF": False, "False": False, "No": False, "0": False},
        },
        ("y", "t", "enabled", "2", "on;", "on off"),
    ),
    int: Ways(
        {"012": 12},
        (
            *("-1", "+12", "12.0", "1_2", "1,200", "1 200", "1e1", "0xC", "\uff11\uff12", "twelve"),
            *("12s", "12h", "12 h", "9d", "12M", "12MB", "12;", "12,", "12%", "99999999999", "x"),
            *("10.0.0.0/8", "true", "*", ":12", "12/tcp", "tcp://10.0.0.1:12"),
        ),
    ),
    float: Ways(
        {"3.50": 3.5, "03": 3.0},
        (
            *("0", "0.0", "-1", "+5", "nan", "inf", "1e1", "86401", ".5", "5.", "0,5", "1_0", "x"),
            *("5s", "5 s", "500ms", "2m", "00:05", "PT5S", "5;", "5%"),
        ),
    ),
    "host": Ways(
        {"LocalHost": "LocalHost", "::": "::"},
        (
            *("127.0.0.1:9", "0:0", "[::1]", "[::1]:80", "a b", "-", "unix:/tmp/x", "*"),
            *("http://localhost", "localhost;", "localhost,::1", "10.0.0.0/8"),
        ),
    ),
    "log_format": Ways({"JSON": "json", "Text": "text"}, ("plain", "json;", "json,text", "jsonl")),
    "cors_origins": Ways({"https://a.example,": ("https://a.example",)}, NO_ORIGINS),
    "webhook_allow": Ways(
        {"10.0.0.0/255.0.0.0 ,": ("10.0.0.0/255.0.0.0",), "a_b.internal.": ("a_b.internal.",)},
        (
            *("10.0.0.0/33", "10.0.0.*", "a b", "a;b", "http://localhost", "localhost:3000", "*"),
            *("[::1]", "*.internal", ".internal", '["localhost"]', "localhost/x"),
        ),
    ),
    "webhook_schedule": Ways(
        {"5, 300 ,": (5.0, 300.0), "0.5,1.50": (0.5, 1.5)},
        ("5,x", "0,5", "5;300", "5 300", "5s,5m", "5m", "[5, 300]", "5|300", "nan", ","),
    ),
    "database_url": Ways(
        {
            URL.replace("postgresql:", "postgres:"): URL.replace("postgresql:", "postgres:"),
            f"host=/tmp password={KEY} port=5432": f"host=/tmp password={KEY} port=5432",
        },
        (
            *(URL.replace("postgresql:", f"postgresql+{each}:") for each in ("psycopg", "asyncpg")),
            *(URL.replace("postgresql:", each) for each in ("POSTGRESQL:", "pgsql:", "mysql:", "")),
            *(f"jdbc:{URL}", f"psql '{URL}'", f"DATABASE_URL={URL}", f"{URL},{URL}"),
            *(f"{URL}?schema=public", f"{URL}?pgbouncer=true", URL.replace(":5432", ":port")),
            *(f"host=/tmp password={KEY} {OTHER_KEY}", f"host=/tmp password='{KEY}", KEY, " "),
            *(f"host=/tmp;password={KEY}", f"host=/tmp,Password={KEY}", f"alice:{KEY}@db/service"),
        ),
    ),
    "login_key": Ways(
        {f"{KEY} , {OTHER_KEY}": f"{KEY} , {OTHER_KEY}"},
        (
            *(f"{KEY};{OTHER_KEY}", f"{KEY} {OTHER_KEY}", f"{KEY}\n{OTHER_KEY}", f"Bearer {KEY}"),
            *(f"{KEY},", f"{KEY};", f'"{KEY}","{OTHER_KEY}"', KEY[:31], f"{KEY}é", f"\ufeff{KEY}"),
        ),
    ),
    "webhook_key": Ways(
        {
            f"{KEY} , {OTHER_KEY}": f"{KEY} , {OTHER_KEY}",
            # Keys of earlier releases may contain semicolons and spaces.
            f"!{KEY};{KEY[:16]} ;x": f"!{KEY};{KEY[:16]} ;x",
        },
        (
            *(f"{KEY};{OTHER_KEY}", f"{KEY} ; {OTHER_KEY}", f"{KEY};", f"{KEY},{KEY}; {OTHER_KEY}"),
            *(f"{KEY},", f'"{KEY}","{OTHER_KEY}"', f'"{KEY}', KEY[:31], f"{KEY},{KEY[:31]}", " "),
        ),
    ),
}
# By setting, a value from which each test makes others.
PLAIN = {"host": "127.0.0.1", "cors_origins": "https://a.example", "webhook_allow": "localhost"}
PLAIN |= {"database_url": URL, "login_key": KEY, "webhook_key": KEY}


EACH = [
    (
        item.name.upper(),
        PLAIN.get(item.name) or item.metadata["default"],
        WAYS.get(item.name) or WAYS[item.type],
    )
    for item in fields(Settings)
]


def message(variable, text):
    with pytest.raises(InvalidSetting) as caught:
        print(f"accepted: {variable}={text!r}: {Settings.read({variable: text})}")
    return str(caught.value)


@pytest.mark.parametrize(("variable", "plain", "ways"), EACH)
def test_a_value_that_people_write_in_another_way_is_read_as_they_mean_it(variable, plain, ways):
    def read(text):
        return getattr(Settings.read({variable: text}), variable.lower())

    for text, value in {plain: read(plain), **ways.accepted}.items():
        for form in ("{}", " {}\t", "{}\r\n", '"{}"', "'{}'", ' "{}"\n'):
            assert read(form.format(text)) == value, form.format(text)
    for empty in ("", '""', "''"):
        assert read(empty) == Settings.read({}).__dict__[variable.lower()]


@pytest.mark.parametrize(("variable", "plain", "ways"), EACH)
def test_the_error_for_an_invalid_value_names_the_variable_and_what_is_allowed(
    variable, plain, ways
):
    secret = variable.lower() in Settings.secrets()
    for text in (*ways.refused, f"\u201c{plain}\u201d", f"'{plain}\""):
        shown = variable if secret else f"{variable}={text.strip()!r}"
        assert re.match(
            rf"{re.escape(shown)}: must (be|not contain the quote) ", message(variable, text)
        )


def parts(secret):
    return {secret[start : start + 4] for start in range(len(secret) - 3)}


@pytest.mark.parametrize("variable", [name.upper() for name in Settings.secrets()])
def test_no_error_shows_a_part_of_a_secret(variable, tmp_path):
    (tmp_path / "latin").write_bytes(KEY.encode() + b"\xe9")
    told = [message(variable, text) for text in WAYS[variable.lower()].refused]
    # A person has written the value, instead of the path of the file.
    for text in (KEY, URL, f"{KEY},{OTHER_KEY}", "/" * 5000 + KEY, str(tmp_path / "latin")):
        told.append(message(f"{variable}_FILE", text))
        assert told[-1].startswith(f"{variable}_FILE: must be the path of a file with the value; ")
    for text in told:
        assert not [part for part in parts(KEY) | parts(OTHER_KEY) if part in text], text


@pytest.mark.parametrize("form", ["xy{}zx{}yz", "12{}34{}56", "{}{}", "x{}{}"])
def test_a_url_whose_password_libpq_would_read_as_something_else_is_refused(form):
    """Otherwise errors would show parts of the password as the host or the name of the database."""
    for pair in product(string.punctuation + "x", repeat=2):
        password = form.format(*pair)
        if re.search("%[0-9a-f]{2}", password):
            # libpq decodes it.
            continue
        url = f"postgresql://alice:{password}@db.example/service"
        try:
            read = conninfo_to_dict(Settings.read({"DATABASE_URL": url}).database_url)
        except InvalidSetting:
            continue
        found = read.get("host"), read.get("dbname"), read.get("password", "")
        assert found == ("db.example", "service", password)


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
    assert "FileNotFoundError" in message(f"{name}_FILE", "/nowhere")


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
