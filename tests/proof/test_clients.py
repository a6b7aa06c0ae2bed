"""Clients as in docs/clients.md, generated from a document, call the real service.

Each client is generated from the document of this checkout, with the code of this checkout. Clients
that already exist must work, too: they are generated from the document of each release, and their
code is that of the commit of the release.

Python: openapi-python-client generates the client, and mypy checks it.
TypeScript: openapi-typescript and openapi-fetch, and tsc checks it. npm installs these programs in
the versions of clients/package-lock.json.
Go: openapi-generator, in the version of clients/requirements.txt.
"""

import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest
from support.openapi_check import document
from support.project import PROJECT, run, start
from support.releases import read_bytes, read_json, releases

pytestmark = pytest.mark.proof

CLIENTS = Path(__file__).parent / "clients"
PACKAGE = "task_meeting_and_workspace_service_client"
# Go must not fetch modules of other projects: the client needs only the standard library.
GO = {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
GO_MODULE = "module example.com/client\n\ngo 1.19\n"


SUFFIXES = {"python": "py", "ts": "ts"}


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Published(NamedTuple):
    """A document, and the code that was written for clients which are generated from it."""

    # The URL below which there is /openapi.json.
    url: str
    # calls.py, calls.ts and calls.go.
    clients: Path
    # The text of docs/clients.md.
    page: str
    # client.py and client.ts; in older releases the page has them.
    examples: Path

    def block(self, language, heading):
        """Return the example, or the only block in this language below a heading of the page."""
        example = self.examples / f"client.{SUFFIXES[language]}" if language in SUFFIXES else None
        if example and example.exists():
            return example.read_text(encoding="utf-8")
        section = self.page.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
        (code,) = re.findall(rf"(?ms)^```{language}\n(.*?)^```$", section)
        return code


@pytest.fixture(
    params=[None, *releases()], ids=lambda release: release.name if release else "this checkout"
)
def published(request, service, tmp_path_factory):
    release = request.param
    if release is None:
        yield published_in(PROJECT, service["URL"])
        return
    if read_json(release, "openapi.json") == document():
        pytest.skip(f"the document of {release.name} is that of this checkout")
    folder, commit = tmp_path_factory.mktemp("release"), (release / "commit").read_text().strip()
    command = ["git", "archive", commit, CLIENTS.relative_to(PROJECT), "docs"]
    archive = subprocess.run(command, cwd=PROJECT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"the history lacks {commit}, the commit of {release.name}: git fetch --tags")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    (folder / "openapi.json").write_bytes(read_bytes(release, "openapi.json"))
    # These releases wrote the reference with the whole path. It is relative now, and a client that
    # follows it resolves it in either form (RFC 9110, 10.2.2).
    calls = folder / CLIENTS.relative_to(PROJECT) / "calls.py"
    calls.write_text(calls.read_text().replace('== f"/api/tasks/{', '== f"tasks/{'))
    with serving_files(folder) as url:
        yield published_in(folder, url)


def published_in(project, url):
    page = (project / "docs/clients.md").read_text(encoding="utf-8")
    return Published(url, project / CLIENTS.relative_to(PROJECT), page, project / "docs/examples")


@contextmanager
def serving_files(folder):
    """Serve the files of a folder; yield the URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=folder)) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def typescript(npm, published):
    """Return the folder of npm with the code of the published client, and no other code."""
    for name in ("client.ts", "service.ts"):
        (npm / name).unlink(missing_ok=True)
    shutil.rmtree(npm / "built", ignore_errors=True)
    shutil.copy(published.clients / "calls.ts", npm)
    return npm


def test_a_generated_client_in_python_passes_mypy_and_can_call_the_service(
    published, service, tmp_path
):
    generate = ("openapi-python-client", "generate", "--fail-on-warning")
    run(*generate, f"--url={published.url}/openapi.json", cwd=tmp_path)
    (project,) = tmp_path.iterdir()
    shutil.copy(published.clients / "calls.py", project)
    run("mypy", "--strict", "--no-incremental", PACKAGE, "calls.py", cwd=project)
    run(sys.executable, "calls.py", cwd=project, **service)


def test_a_generated_client_in_typescript_compiles_and_can_call_the_service(
    published, service, typescript
):
    source = f"{published.url}/openapi.json"
    run("openapi-typescript", source, "--output", "service.ts", cwd=typescript)
    run("tsc", cwd=typescript)
    run("node", "built/calls.js", cwd=typescript, **service)


READER = """
import createClient from "openapi-fetch";
import type { components, paths } from "./service.js";

const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
const client = createClient<paths>({ baseUrl: process.env.URL ?? "", headers });
const after = (await client.GET("/api/events")).data?.nextCursor ?? "";
await client.POST("/api/tasks", { body: { title: "Call Ada" } });
const { data } = await client.GET("/api/events", { params: { query: { after } } });
LINE
for (const event of page.data) {
  if (event.type === "task.created") console.log(event.data.title.toUpperCase());
  // @ts-expect-error: a meeting has no due date
  if (event.type === "meeting.created") console.log(event.data.dueDate);
}
"""


def test_the_line_on_the_page_lets_typescript_tell_events_apart_by_their_type(service, npm):
    published = published_in(PROJECT, service["URL"])
    (line,) = re.findall(r"`(const page = [^`]+)`", published.page)
    source = f"{published.url}/openapi.json"
    run("openapi-typescript", source, "--output", "service.ts", cwd=npm)
    (npm / "events.mts").write_text(READER.replace("LINE", line))
    (options,) = re.findall("`npx tsc ([^`]+) client.ts`", published.page)
    run("tsc", *options.split(), "events.mts", cwd=npm)
    assert run("node", "built/events.mjs", cwd=npm, **service) == "CALL ADA\n"


TYPED = """
import { start, type FaultKind, type Service, type User } from "task-service-double";

const service: Service = await start({ environment: { MAX_BODY: "4096" } });
const users: User[] = [service.user, service.member, service.stranger];
const kinds: FaultKind[] = ["503", "drop-after-commit"];
const options = { times: 2, skip: 1, seconds: 1, method: "POST", path: "/api/tasks" };
for (const kind of kinds) await service.fault(kind, options);
const now: Date = await service.clock(new Date());
const { data } = await service.control<{ data: { path: string }[] }>("requests");
console.log(users[0]!.workspace.slug, now.getTime(), data[0]?.path, service.url.length);
// @ts-expect-error: the double has no such fault
await service.fault("fire");
await service.reset();
await service.close();
"""


def test_the_types_of_the_npm_package_for_tests_fit_a_strict_program(npm):
    package = npm / "node_modules/task-service-double"
    if not package.exists():
        package.symlink_to(PROJECT / "testkit/node")
    (npm / "typed.mts").write_text(TYPED)
    strict = "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"
    run("tsc", *strict, "--module", "nodenext", "--target", "es2022", "typed.mts", cwd=npm)


def test_a_generated_client_in_go_compiles_and_can_call_the_service(
    openapi_generator, published, service, tmp_path
):
    shutil.copy(published.clients / "calls.go", tmp_path)
    (tmp_path / "go.mod").write_text(GO_MODULE)
    run(
        *(
            openapi_generator,
            "generate",
            "--generator-name=go",
            f"--input-spec={published.url}/openapi.json",
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
    expected = ["201 Call Ada 15:00 1", "1 todo true", "done true 2", "412 412 done 2", "true"]
    # The code of an older release may print less in a line.
    assert len(printed) == len(expected)
    assert all(map(str.startswith, expected, printed)), printed


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
    run("bash", "-ec", published.block("sh", "Python"), cwd=tmp_path, URL=published.url)
    project = tmp_path / "task-service-client"
    (project / "client.py").write_text(published.block("python", "Python"))
    run("mypy", "--strict", "--no-incremental", "client.py", cwd=project)
    check_client(sys.executable, "client.py", cwd=project, **service)


def test_the_typescript_client_on_the_page_compiles_and_works(
    published, service, two_pages, typescript
):
    run("bash", "-ec", published.block("sh", "TypeScript"), cwd=typescript, URL=published.url)
    (typescript / "client.ts").write_text(published.block("ts", "TypeScript"))
    run("tsc", cwd=typescript)
    shutil.rmtree(typescript / "built")
    (check,) = re.findall("`(npx tsc [^`]+)`", published.page)
    run(*check.split(), cwd=typescript)
    check_client("node", "built/client.js", cwd=typescript, **service)
