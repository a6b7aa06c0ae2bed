"""Clients as in docs/clients.md, generated from a document, call the real service.

Each client is generated from the document of this checkout, and from the document that the newest
release has published: an upgrade of the service must break no client that already exists.

Python: openapi-python-client generates the client, and mypy checks it.
TypeScript: openapi-typescript and openapi-fetch, and tsc checks it. npm installs these programs in
the versions of clients/package-lock.json.
Go: openapi-generator, in the version of clients/requirements.txt.
"""

import re
import shutil
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support.project import run, start
from support.releases import releases

pytestmark = pytest.mark.proof

CLIENTS = Path(__file__).parent / "clients"
PACKAGE = "task_meeting_and_workspace_service_client"
# Go must not fetch modules of other projects: the client needs only the standard library.
GO = {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
GO_MODULE = "module example.com/client\n\ngo 1.19\n"


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


# None stands for the document that the service itself serves.
SOURCES = {"this checkout": None, **{release.name: release for release in releases()[-1:]}}


@pytest.fixture(params=SOURCES.values(), ids=SOURCES)
def published(request, service):
    """Yield the base URL of a document: of the service itself, or of the newest release."""
    if request.param is None:
        yield service["URL"]
        return
    files = partial(Files, directory=request.param)
    with ThreadingHTTPServer(("127.0.0.1", 0), files) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_generated_client_in_python_passes_mypy_and_can_call_the_service(
    published, service, tmp_path
):
    generate = ("openapi-python-client", "generate", "--fail-on-warning")
    run(*generate, f"--url={published}/openapi.json", cwd=tmp_path)
    (project,) = tmp_path.iterdir()
    shutil.copy(CLIENTS / "calls.py", project)
    run("mypy", "--strict", "--no-incremental", PACKAGE, "calls.py", cwd=project)
    run(sys.executable, "calls.py", cwd=project, **service)


def test_a_generated_client_in_typescript_compiles_and_can_call_the_service(
    published, service, npm
):
    run("openapi-typescript", f"{published}/openapi.json", "--output", "service.ts", cwd=npm)
    run("tsc", cwd=npm)
    run("node", "built/calls.js", cwd=npm, **service)


def test_a_generated_client_in_go_compiles_and_can_call_the_service(
    openapi_generator, published, service, tmp_path
):
    shutil.copy(CLIENTS / "calls.go", tmp_path)
    (tmp_path / "go.mod").write_text(GO_MODULE)
    run(
        *(
            openapi_generator,
            "generate",
            "--generator-name=go",
            f"--input-spec={published}/openapi.json",
        ),
        # Generate no tests and no pages.
        "--global-property=models,apis,supportingFiles,"
        "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false",
        "--additional-properties=withGoMod=false,disallowAdditionalPropertiesIfNotPresent=false",
        *("--output=taskservice", "--package-name=taskservice"),
        cwd=tmp_path,
        # The program runs for a few seconds only, so Java should not spend time on optimization.
        JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1",
    )
    run("go", "vet", "./...", cwd=tmp_path, **GO)
    printed = run("go", "run", ".", cwd=tmp_path, **GO, **service).splitlines()
    assert printed == [
        "201 Call Ada 15:00 1",
        "1 todo true",
        "done true 2",
        "412 412 done 2",
        "true",
    ]


# The page for authors of clients.
PAGE = (CLIENTS.parents[2] / "docs/clients.md").read_text(encoding="utf-8")


def block(language, heading):
    """Return the only block of code in this language below a heading of the page."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    (code,) = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", section)
    return code


def check_client(*command, **variables):
    """Require that the client lists all tasks of two pages, and prints a wrong token or path."""
    titles = [line.split(" ", 1)[1] for line in run(*command, **variables).splitlines()]
    assert titles == ["Call Ada", *["Task"] * 60]
    failed = start(*command, **{**variables, "TOKEN": "tmw_api_nobody"})
    assert failed.returncode == 1
    assert failed.stderr.startswith("401: Unauthorized: send an API token")
    # For this operation, the document does not have the status 404.
    failed = start(*command, **{**variables, "URL": f"{variables['URL']}/api"})
    assert failed.returncode == 1
    assert "404" in failed.stderr


@pytest.fixture
def two_pages(insert_into):
    for _ in range(60):
        insert_into("tasks")


def test_the_python_client_on_the_page_passes_mypy_and_works(
    published, service, two_pages, tmp_path
):
    run("bash", "-ec", block("sh", "Python"), cwd=tmp_path, URL=published)
    project = tmp_path / "task-service-client"
    (project / "client.py").write_text(block("python", "Python"))
    run("mypy", "--strict", "--no-incremental", "client.py", cwd=project)
    check_client(sys.executable, "client.py", cwd=project, **service)


def test_the_typescript_client_on_the_page_compiles_and_works(published, service, two_pages, npm):
    run("bash", "-ec", block("sh", "TypeScript"), cwd=npm, URL=published)
    (npm / "client.ts").write_text(block("ts", "TypeScript"))
    run("tsc", cwd=npm)
    shutil.rmtree(npm / "built")
    (check,) = re.findall("`(npx tsc [^`]+)`", PAGE)
    run(*check.split(), cwd=npm)
    check_client("node", "built/client.js", cwd=npm, **service)
