"""Imports point down: the contracts in pyproject.toml hold, and each wrong import breaks one."""

from copy import deepcopy
from pathlib import Path

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

from service import db

pytestmark = pytest.mark.nodatabase

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
TYPES = {"layers": LayersContract, "forbidden": ForbiddenContract}
LAYERS, LOWEST, DATABASE = (
    "Imports point down",
    "The lowest layer knows no HTTP",
    "The database knows no HTTP",
)


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("service", include_external_packages=True, cache_dir=None)


def broken_contracts(graph):
    configuration = read_configuration(str(PYPROJECT))
    contracts = {
        options["name"]: TYPES[options["type"]](
            options["name"], configuration["session_options"], options
        )
        for options in configuration["contracts_options"]
    }
    assert list(contracts) == [LAYERS, LOWEST, DATABASE]
    return [name for name, contract in contracts.items() if not contract.check(graph, False).kept]


def test_every_contract_holds(graph):
    assert len(graph.find_descendants("service")) >= 35
    assert broken_contracts(graph) == []


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    [
        ("service.openapi.json_schema", "service.commands.base", LAYERS),
        ("service.api.tasks", "service.openapi", LAYERS),
        ("service.http.errors", "service.api.tasks", LAYERS),
        ("service.http.gate", "service.webhooks.delivery", LAYERS),
        ("service.webhooks.worker", "service.http.errors", LAYERS),
        ("service.db", "service.http.errors", LAYERS),
        ("service.fields", "service.db", LAYERS),
        ("service.strict_json", "service.fields", LAYERS),
        ("service.settings", "flask", LOWEST),
        ("service.fields", "werkzeug", LOWEST),
        ("service.db", "werkzeug", DATABASE),
    ],
)
def test_an_import_that_points_up_or_to_http_breaks_its_contract(
    graph, importer, imported, contract
):
    graph = deepcopy(graph)
    graph.add_import(importer=importer, imported=imported)
    assert contract in broken_contracts(graph)


def test_a_module_without_a_layer_breaks_the_contract(graph):
    graph = deepcopy(graph)
    graph.add_module("service.helpers")
    assert broken_contracts(graph) == [LAYERS]


def test_only_what_runs_the_application_imports_it(graph):
    runners = {"service.wsgi", "service.devkit.double.command"}
    assert graph.find_modules_that_directly_import("service") == runners


def test_only_the_command_that_starts_the_test_double_imports_it(graph):
    importers = {
        importer
        for module in graph.find_descendants("service.devkit.double") | {"service.devkit.double"}
        for importer in graph.find_modules_that_directly_import(module)
    }
    assert {name for name in importers if not name.startswith("service.devkit.double")} == {
        "service.devkit.double.command"
    }


def test_the_database_uses_the_application_context_of_flask_and_no_request():
    assert {"current_app", "g"} <= vars(db).keys()
    assert not {"request", "session", "abort", "Request", "Response"} & vars(db).keys()
