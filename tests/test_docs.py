"""The pages say what the code does: their tables, commands, settings, figures and links."""

import re
import sys
import tomllib
from dataclasses import fields
from importlib import metadata

import click
import pytest
from support.derived import filters, parameter, views_of
from support.openapi_check import WITH_LOGIN
from support.project import PROJECT, links, output, read, rows
from support.resources import HERE, LISTS

from service.__main__ import COMMANDS, Commands
from service.app import create_app
from service.database.pool import PROPERTIES
from service.settings import Settings
from service.webhooks import worker

pytestmark = pytest.mark.nodatabase

PAGES = sorted(
    str(path.relative_to(PROJECT))
    for path in [
        *PROJECT.glob("*.md"),
        *PROJECT.glob("docs/**/*.md"),
        *PROJECT.glob(".github/*.md"),
        *PROJECT.glob("speedups/**/*.md"),
    ]
)


def test_the_table_of_endpoints_lists_every_route_and_nothing_else():
    listed = {(method, path.strip("`")) for method, path, _ in rows("docs/api.md", "Endpoints")}
    routes = {
        (method, re.sub("<.*?>", ":id", rule.rule))
        for rule in create_app(WITH_LOGIN).url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert not routes - listed, f"docs/api.md, Endpoints: add {sorted(routes - listed)}"
    assert not listed - routes, f"docs/api.md, Endpoints: remove {sorted(listed - routes)}"


def test_the_api_page_lists_the_characters_that_are_removed_at_both_ends_of_texts():
    paragraph = re.search(r"(?s)\nThe service removes white space .*?\n\n", read("docs/api.md"))[0]
    listed = {" "}
    for first, last in re.findall(r"U\+([0-9A-F]{4})(?:\sto U\+([0-9A-F]{4}))?", paragraph):
        listed |= {chr(code) for code in range(int(first, 16), int(last or first, 16) + 1)}
    removed = {chr(code) for code in range(sys.maxunicode + 1) if not chr(code).strip()}
    assert listed == removed


def test_each_page_file_and_message_that_creates_a_database_gives_it_the_same_properties():
    found = [
        (path.relative_to(PROJECT), line)
        for folder in ("docs", "service", "sql", "testkit")
        for path in PROJECT.joinpath(folder).rglob("*")
        if path.suffix in {"", ".md", ".py", ".sql", ".toml", ".yaml", ".yml"} and path.is_file()
        for line in path.read_text(encoding="utf-8").splitlines()
        if "TEMPLATE template0" in line
    ]
    assert len({path for path, _ in found}) >= 7
    assert [(path, line) for path, line in found if PROPERTIES not in line] == []


def test_the_page_of_webhooks_says_how_long_the_worker_waits():
    seconds = worker.MAX_ATTEMPT_SECONDS
    text = " ".join(read("docs/webhooks.md").split())
    waits = f"wait {seconds} seconds, or half of `WEBHOOK_LEASE` if that is shorter"
    assert f"Retries by the worker {waits}" in text


def shown(page):
    """Yield the command lines of a page: in blocks, and code spans that begin with a command."""
    text = read(page)
    for block in re.findall(r"(?ms)^```sh\n(.*?)^```$", text):
        yield from re.findall(r"task-service ([a-z][^|;&)\n]*)", block.replace("\\\n", ""))
    prose = re.sub(r"(?ms)^```.*?^```$", "", text)
    for span in re.findall(r"`([^`\n]+)`", prose):
        line = span.removeprefix("task-service ")
        if line != span or line.split()[0] in COMMANDS:
            yield line


def missing(line):
    """Return the words of a command line that do not exist; None if all exist."""
    command, path = Commands(), []
    for word in line.split():
        if word.startswith("--"):
            path_and_option = " ".join([*path, word.partition("=")[0]])
            options = {name for item in command.params for name in item.opts}
            if word.partition("=")[0] not in {*options, "--help", "--version"}:
                return path_and_option
        elif isinstance(command, click.Group) and re.fullmatch("[a-z-]+", word):
            path.append(word)
            command = command.get_command(click.Context(command), word)
            if command is None:
                return " ".join(path)
    return None


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_that_a_page_shows_exists(page):
    assert {fault for line in shown(page) if (fault := missing(line))} == set()


def test_the_wheel_that_the_deployment_page_installs_has_the_version_of_the_package():
    version = metadata.version("task-meeting-workspace-service")
    for page in ("docs/operations/deployment.md", "docs/operations/running.md"):
        assert f"/opt/task-service/{version}" in read(page) or f"old={version}\n" in read(page)
    wheel = f"dist/task_meeting_workspace_service-{version}-py3"
    assert wheel in read("docs/operations/deployment.md")
    assert PROJECT.joinpath("docs/deploy/task-service").stat().st_mode & 0o111


def test_contributing_lists_the_layers_that_lint_imports_checks():
    contract = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"][0]
    layers = [re.split(r" \| ", layer) for layer in contract["layers"]]
    text = read("CONTRIBUTING.md").partition("<!-- layers -->")[2].partition("\n\n")[0]
    assert [re.findall("`(.*?)`", line) for line in text.strip().splitlines()] == layers


@pytest.mark.speedups
def test_the_page_of_the_speedups_lists_every_module():
    cells = " ".join(row[0] for row in rows("speedups/README.md", "Speedups"))
    modules = {path.name for path in PROJECT.glob("speedups/*.py")} - {"__init__.py"}
    assert {*modules, "http_server"} - set(re.findall("`(.*?)`", cells)) == set()


@pytest.mark.speedups
def test_the_table_of_rooms_lists_every_package_of_the_service():
    listed = {room.strip("`") for room, *_ in rows("CONTRIBUTING.md", "Rooms")}
    folders = [path.parent for path in PROJECT.glob("service/*/__init__.py")]
    packages = {f"service/{path.name}" for path in folders if not path.is_symlink()}
    assert packages - listed == set()
    assert [name for name in listed if not PROJECT.joinpath(name).is_dir()] == []


def test_the_runbook_of_each_alert_is_a_section_of_a_page():
    rules = read("docs/deploy/prometheus-rules.yml")
    runbooks = re.findall(r"runbook: ([^#]+)#([^}]+)}", rules)
    assert len(runbooks) == rules.count("- alert: ")
    for page, anchor in set(runbooks):
        headings = re.sub(r"[^\w \n#-]", "", read(page)).lower().replace(" ", "-")
        assert re.search(f"(?m)^#+-{anchor}$", headings), (page, anchor)


def names_of(taken):
    """Return the filters of a cell, without the values in brackets."""
    return set(re.findall("`([^`]+)`", re.sub(r"\([^)]*\)", "", taken)))


def test_the_table_of_lists_has_each_paged_list_with_its_filters_and_limits():
    table = read("docs/api.md").partition("\n## Lists\n")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| `([^`]+)` \| [^|]+ \|([^|]*)\| ([0-9]+), ([0-9]+) \|$", table)
    shown = {path: (names_of(taken), *limits) for path, taken, *limits in rows}
    expected = {}
    for view in views_of("GET", kinds=["page"]):
        limit = view.arguments.fields["limit"]
        # The table shows ``sort`` in its column for the order.
        names = {parameter(field) for field in filters(view.arguments)} - {"sort"}
        path = re.sub("<id:[a-z]+>", ":id", view.rule)
        expected[path] = names, str(limit.load_default), str(limit.max)
    assert shown == expected


def test_the_table_of_lists_tells_each_order_and_the_parameter_that_chooses_it():
    table = read("docs/api.md").partition("\n## Lists\n")[2].partition("\n## ")[0]
    shown = dict(re.findall(r"(?m)^\| `([^`]+)` \| ([^|]+) \|", table))
    for path in {paged.path for paged in LISTS.values()}:
        lists = [paged for paged in LISTS.values() if paged.path == path]
        (usual,) = {(paged.order, paged.told) for paged in lists if not paged.query}
        expected = {usual[1]}
        for paged in lists:
            if paged.order != usual[0] and len(paged.query) == 1:
                ((name, value),) = paged.query.items()
                chosen = name if name == "q" else f"{name}={value}"
                expected.add(f"with `{chosen}` {paged.told}")
        parts = shown[f"/api{path}"].split("; ")
        told = {text for text in expected for part in parts if part.startswith(text)}
        assert (told, len(parts)) == (expected, len(expected)), (
            f"docs/api.md tells the order of {path} in other words than `told` in {HERE}"
        )


def anchors(path):
    """Return the anchors of the headings of a page."""
    headings = re.findall("(?m)^#+ (.+)$", path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_the_anchor_of_every_link_is_a_heading_of_the_page(page):
    path = PROJECT / page
    for link in links(page):
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if anchor and target.suffix == ".md" and target.exists():
            assert anchor in anchors(target), f"{page}: no heading of {target.name} is #{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_to_a_file(page):
    folder = PROJECT.joinpath(page).parent
    targets = {folder.joinpath(link.partition("#")[0]).resolve() for link in links(page)}
    absent = [path for path in targets if not path.exists()]
    # A deployment may delete the folder speedups.
    deleted = PROJECT / "speedups"
    assert [path for path in absent if deleted.exists() or deleted not in path.parents] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_file_of_the_project_that_a_page_names_exists(page):
    named = re.findall(r"`((?:service|sql|tests|docs|bench)/[A-Za-z0-9_./-]+)`", read(page))
    absent = {name for name in named if not PROJECT.joinpath(name).exists()}
    assert absent - {"sql/schema/NNNN-subject.sql"} == set()


NAMES = {item.name.upper() for item in fields(Settings)}


def test_the_settings_table_has_every_setting_with_its_default_and_meaning():
    assert rows("docs/operations/settings.md", "Settings") == [
        [f"`{item.name.upper()}`", item.metadata["default"] or "none", item.metadata["meaning"]]
        for item in fields(Settings)
    ]


def test_the_files_of_a_deployment_set_only_settings_that_exist():
    environment = re.search(r"(?s)<<ENV\n(.*?)\nENV\n", read("docs/deploy/install"))[1]
    compose = read("compose.yaml").partition("services:")[0]
    named = {
        *re.findall(r"(?m)^([A-Z_]+)=", environment),
        *re.findall(r"(?m)^    ([A-Z_]+)_FILE:", compose),
        *re.findall(r"(?m)^ENV ([A-Z_]+)=", read("Dockerfile").partition("AS double")[0]),
    }
    assert {"DATABASE_URL", "WEBHOOK_KEY", "TRUSTED_PROXIES", "HOST"} <= named <= NAMES


def test_the_number_of_connections_on_the_deployment_page_follows_from_its_settings():
    web, threads = (
        int(re.search(rf"(?m)^{name}='([0-9]+)'$", read("docs/deploy/install"))[1])
        for name in ("WEB_CONCURRENCY", "WEB_THREADS")
    )
    needed = 2 * web * threads + threads + 3 + 3
    said = f"The settings of a first installation need {needed} on one host."
    assert said in read("docs/operations/deployment.md")


def test_the_webhooks_page_states_the_hours_to_which_the_delays_of_the_schedule_add_up():
    hours = int(sum(Settings.read({}).webhook_schedule) / 3600)
    assert f"{hours} hours unless set otherwise" in read("docs/webhooks.md")


def test_dockerignore_keeps_every_file_that_the_build_of_the_image_needs():
    kept = re.findall(r"(?m)^!(\S+)$", read(".dockerignore"))
    assert [name for name in kept if not PROJECT.joinpath(name).exists()] == []
    assert {"README.md", "LICENSE", "setup.cfg", "pyproject.toml", "service", "sql"} <= set(kept)


def in_sight():
    """List the files of the repository, except those whose path begins with a dot."""
    files = output("git", "ls-files", cwd=PROJECT).splitlines()
    return [name for name in files if not name.startswith(".")]


def test_the_readme_has_a_sentence_for_each_folder_and_each_file_of_the_design():
    listed = {name.strip("`") for name, _ in rows("README.md", "What is where")}
    folders = {name.partition("/")[0] for name in in_sight() if "/" in name}
    assert folders - listed == set()
    assert {"app.py", "service", "sql", "tests", "setup.cfg", "Procfile"} <= listed
    assert [name for name in listed - {"speedups"} if not PROJECT.joinpath(name).exists()] == []


def test_the_top_folder_of_the_project_has_at_most_23_entries():
    names = {name.partition("/")[0] for name in in_sight()}
    assert len(names) <= 23, sorted(names)


def test_the_readme_names_every_page_of_docs():
    pages = {page for page in PAGES if page.startswith("docs/")}
    assert pages - set(re.findall(r"`(docs/[a-z/-]+\.md)`", read("README.md"))) == set()


def test_the_readme_has_no_relative_link_because_a_package_index_resolves_none():
    # Pictures do not count: a package index shows their words instead.
    links = re.findall(r"(?<!!)\[[^]]*\]\(([^)]*)\)", read("README.md"))
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_first_block_below_a_heading_that_ci_reads_is_one_command():
    for heading in ("Run it", "Test it"):
        section = read("README.md").partition(f"\n## {heading}\n")[2]
        assert re.match(r"\n```sh\n[^\n]*\.venv/bin/[^\n]*\n```\n", section), heading
