"""More generators of clients read the published document; their clients call the real service.

tests/proof/test_clients.py has those of docs/clients.md. The generators in Python come from PyPI in
the versions of clients/requirements.txt, those in TypeScript from npm.
"""

import shutil

import pytest
from openapi_check import document
from programs import run

pytestmark = pytest.mark.proof

# No module of another project can be fetched: the client needs the standard library alone.
GO = {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
GO_MODULE = "module example.com/client\n\ngo 1.19\n"


def generate(generators, project, language, *options):
    """Run openapi-generator; its own tests and pages are left out."""
    if not shutil.which("java"):
        pytest.skip("java is not installed: openapi-generator is not tried")
    parts = "models,apis,supportingFiles,apiTests=false,modelTests=false,apiDocs=false"
    command = ("generate", f"--generator-name={language}", "--input-spec=openapi.json")
    run(
        str(generators / "openapi-generator-cli"),
        *command,
        f"--global-property={parts},modelDocs=false",
        *options,
        cwd=project,
        # Compile little: the program runs for seconds.
        JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1",
    )


def test_openapi_generator_makes_a_client_in_go_that_compiles_and_calls(
    generators, project, service
):
    if not shutil.which("go"):
        pytest.skip("go is not installed: its client is not tried")
    options = (
        "--additional-properties=withGoMod=false,disallowAdditionalPropertiesIfNotPresent=false"
    )
    generate(
        generators, project, "go", options, "--output=taskservice", "--package-name=taskservice"
    )
    (project / "go.mod").write_text(GO_MODULE)
    run("go", "vet", "./...", cwd=project, **GO)
    printed = run("go", "run", ".", cwd=project, **GO, **service).splitlines()
    assert printed == ["201 Call Ada 15:00 1", "1 todo true", "done true 2", "412 412", "true"]


def test_openapi_generator_makes_a_client_in_java_that_compiles_and_calls(
    generators, project, service
):
    if not shutil.which("javac"):
        pytest.skip("javac is not installed: the client in Java is not tried")
    options = "--additional-properties=openApiNullable=false,hideGenerationTimestamp=true"
    generate(generators, project, "java", "--library=native", options, "--output=.")
    # The program contains the one library that its clients need, Jackson.
    (jar,) = generators.parent.glob("lib/python*/site-packages/openapi_generator_cli/*.jar")
    sources = [str(path) for path in (project / "src/main").rglob("*.java")]
    own = ("Calls.java", "Generated.java")
    classes = ("-d", "built", "-cp", str(jar))
    run("javac", "-J-XX:TieredStopAtLevel=1", *classes, *own, *sources, cwd=project)
    printed = run("java", "-cp", f"built:{jar}", "Calls", cwd=project, **service).splitlines()
    assert printed == ["Call Ada 2036-05-02T15:00:00Z 1", "1 todo", "done 2", "412"]


def test_openapi_generator_makes_a_client_in_python_that_calls(generators, project, service):
    generate(generators, project, "python", "--output=.")
    calls = (str(generators / "python"), "calls_of_openapi_generator.py")
    printed = run(*calls, cwd=project, **service).splitlines()
    assert printed == ["Call Ada 2036-05-02 15:00:00+00:00 1 todo", "done 2", "412"]


def test_openapi_generator_makes_a_client_in_typescript_that_compiles(generators, project, npm):
    generate(generators, project, "typescript-fetch", "--output=made")
    options = ("--strict", "--noEmit", "--target", "ES2022", "--module", "preserve")
    run(str(npm / "node_modules/.bin/tsc"), *options, "made/index.ts", cwd=project)


def test_datamodel_code_generator_makes_models_of_every_response(generators, project, service):
    run(
        str(generators / "datamodel-codegen"),
        "--field-constraints",
        "--input=openapi.json",
        "--input-file-type=openapi",
        "--output-model-type=pydantic_v2.BaseModel",
        "--formatters=builtin",
        "--output=models.py",
        cwd=project,
    )
    read = run(str(generators / "python"), "check_models.py", cwd=project, **service)
    # All reads but the document's own, and all events.
    reads = sum("get" in item for item in document()["paths"].values()) - 1
    assert int(read) == reads + len(document()["webhooks"])


def test_hey_api_makes_a_client_in_typescript_that_passes_the_compiler_and_calls(npm, service):
    made = ("--input=openapi.json", "--output=hey-api/service", "--no-log-file")
    run("openapi-ts", *made, cwd=npm)
    run("tsc", "--project", "hey-api", cwd=npm)
    printed = run("node", "hey-api/built/calls.js", cwd=npm, **service)
    assert printed == "Call Ada 2036-05-02T15:00:00.000Z done\n"


@pytest.mark.parametrize(
    "command",
    [
        ("redocly", "lint", "--config=redocly.yaml", "openapi.json"),
        ("spectral", "lint", "--ruleset=spectral.yaml", "--fail-severity=hint", "openapi.json"),
    ],
    ids=["redocly", "spectral"],
)
def test_linters_of_openapi_find_nothing(npm, command):
    run(*command, cwd=npm)
