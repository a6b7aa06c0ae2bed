"""The service, its test double and the pytest plugin are one release."""

import configparser
import tomllib

import pytest
from support.project import PROJECT

pytestmark = pytest.mark.nodatabase

OTHERS = "task_service_double", "pytest_task_service"


def service():
    parser = configparser.ConfigParser()
    parser.read(PROJECT / "setup.cfg")
    return parser["metadata"]


def project(name):
    return tomllib.loads(PROJECT.joinpath("testkit", name, "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("name", OTHERS)
def test_each_distribution_has_the_version_and_the_license_of_the_service(name):
    assert project(name)["version"] == service()["version"]
    texts = {(PROJECT / folder / "LICENSE").read_text() for folder in (".", f"testkit/{name}")}
    assert len(texts) == 1


def test_the_double_requires_the_service_of_its_own_version():
    pinned = f"{service()['name']} =={service()['version']}"
    assert pinned in project("task_service_double")["dependencies"]


@pytest.mark.parametrize("name", OTHERS)
def test_the_page_of_a_distribution_names_its_wheel(name):
    page = PROJECT.joinpath("testkit", name, "README.md").read_text()
    assert f"{name}-{service()['version']}-py3-none-any.whl" in page
