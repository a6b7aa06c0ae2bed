"""The files that other programs read fit the schemas of these programs."""

import sys

import pytest
from support.project import PROJECT, run

pytestmark = [pytest.mark.proof, pytest.mark.nodatabase]


def tool(*words):
    """Run a program of a package that uv installs for this run alone."""
    return run(sys.executable, "-m", "uv", "tool", "run", *words, cwd=PROJECT)


def test_the_workflows_and_the_settings_of_dependabot_fit_the_schemas_of_github():
    workflows = sorted(str(path) for path in PROJECT.glob(".github/workflows/*.yml"))
    for schema, files in (
        ("vendor.github-workflows", workflows),
        ("vendor.dependabot", [".github/dependabot.yml"]),
        ("vendor.compose-spec", ["compose.yaml"]),
    ):
        assert "ok" in tool("check-jsonschema", "--builtin-schema", schema, *files)


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_the_manifests_fit_the_schemas_of_kubernetes(version):
    tool("kubernetes-validate", "--strict", "-k", version, "docs/deploy/kubernetes.yaml")
