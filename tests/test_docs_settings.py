"""The settings that the pages and the files of a deployment name are those of the code."""

import re
from dataclasses import fields

import pytest
from pages import PROJECT, read, rows

from service.settings import Settings

pytestmark = pytest.mark.nodatabase

NAMES = {item.name.upper() for item in fields(Settings)}


def test_the_settings_table_has_every_setting_with_its_default_and_meaning():
    assert rows("docs/settings.md", "Settings") == [
        [f"`{item.name.upper()}`", item.metadata["default"] or "none", item.metadata["meaning"]]
        for item in fields(Settings)
    ]


def test_the_files_of_a_deployment_set_only_settings_that_exist():
    environment = re.search(r"(?s)<<ENV\n(.*?)\nENV\n", read("docs/deployment.md"))[1]
    compose = read("compose.yaml").partition("services:")[0]
    named = {
        *re.findall(r"(?m)^([A-Z_]+)=", environment),
        *re.findall(r"(?m)^    ([A-Z_]+):", compose),
        *re.findall(r"(?m)^ENV ([A-Z_]+)=", read("Dockerfile")),
    }
    assert {"DATABASE_URL", "WEBHOOK_KEY", "TRUSTED_PROXIES", "HOST"} <= named <= NAMES


def test_the_connections_of_the_deployment_page_follow_from_its_settings():
    text = read("docs/deployment.md")
    web, threads = (
        int(re.search(rf"(?m)^{name}='([0-9]+)'$", text)[1])
        for name in ("WEB_CONCURRENCY", "WEB_THREADS")
    )
    needed = 2 * web * threads + threads + 3 + 3
    assert f"The settings above need {needed} on one host." in text


def test_the_delays_of_the_schedule_add_up_to_the_hours_that_the_page_of_webhooks_names():
    hours = int(sum(Settings.read({}).webhook_schedule) / 3600)
    assert f"{hours} hours unless set otherwise" in read("docs/webhooks.md")


def test_the_image_gets_every_file_that_its_build_needs():
    kept = re.findall(r"(?m)^!(\S+)$", read(".dockerignore"))
    assert [name for name in kept if not PROJECT.joinpath(name).exists()] == []
    assert {"README.md", "LICENSE", "setup.cfg", "pyproject.toml", "service", "sql"} <= set(kept)
