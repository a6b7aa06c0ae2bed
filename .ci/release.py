"""Make a release: ``make release VERSION=1.2.3``, on a clean main with its tools in .venv.

CONTRIBUTING.md, *Release*, says what a release freezes. This program changes nothing before all
checks have passed. It ends with a commit, the files in dist/, and a printed command that makes the
tag and pushes both; if it fails, it takes back what it wrote.

All steps of .ci/nightly must have passed on the commit already. RELEASE_RUN names the command that
must succeed first, by default .ci/run; only the test of this program sets it.

``.ci/release.py --build v1.2.3`` only builds the files of a tag that is checked out, and writes its
section of the changelog to notes.md: .github/workflows/release.yml publishes them.
"""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

# The files that have the version, with the text around it.
VERSIONS = {
    "setup.cfg": r"^version = (.*)$",
    "service/openapi/document.json": r'"version": "(.*?)"',
    "testkit/task_service_double/pyproject.toml": r'^version = "(.*)"$|-service ==(.*)"',
    "testkit/pytest_task_service/pyproject.toml": r'^version = "(.*)"$',
    "testkit/node/package.json": r'"version": "(.*?)"',
    "compose.yaml": r"task-service:([0-9.]+)$",
    "docs/deploy/kubernetes.yaml": r"task-service:([0-9.]+)$",
    "docs/operations/kubernetes.md": r"task-service:([0-9.]+)`",
    "docs/double.md": r"task-service-double[:-](\d+\.\d+\.\d+)\b|--branch v([0-9.]+) ",
    "docs/testing.md": r"^release=.*@v([0-9.]+)$",
    "docs/examples/container.mjs": r"task-service-double:([0-9.]+)\b",
    "docs/examples/Container.java": r"task-service-double:([0-9.]+)\b",
    "docs/examples/container.go": r"task-service-double:([0-9.]+)\b",
    "testkit/task_service_double/README.md": r"_(?:service|double)-([0-9.]+)-py3",
    "testkit/pytest_task_service/README.md": r"_(?:service|double)-([0-9.]+)-py3",
}
# The pages whose examples install this release and upgrade it to the next patch, and their proof.
EXAMPLES = (
    "docs/operations/deployment.md",
    "docs/operations/running.md",
    "tests/proof/test_deployment.py",
)
DISTRIBUTIONS = ".", "testkit/task_service_double", "testkit/pytest_task_service"
RELEASES = Path("tests/releases")
BIN = Path(".venv/bin")
# An editable installation has the version that the checkout had when it was installed.
INSTALL = BIN / "pip", "install", "-q", "-r", "tests/requirements.txt"


def run(*command, cwd=None, **variables):
    """Run a command, whose output is shown; end this program if it fails."""
    print("==", *command, flush=True)
    if subprocess.run(command, cwd=cwd, env={**os.environ, **variables}).returncode:
        sys.exit(f"Error: {' '.join(map(str, command))} failed; nothing was released.")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def numbers(version):
    return [*map(int, version.split("."))]


def check(version):
    """End this program with a sentence if this checkout cannot become this release."""
    # Only versions that are also PEP 440: three numbers without leading zeros.
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        sys.exit(f"Error: VERSION={version} is not three numbers, like 1.2.3 (semver.org).")
    if changed := output("git", "status", "--porcelain"):
        sys.exit(f"Error: commit or remove these changes first:\n{changed}")
    if not (BIN / "pytest").exists():
        sys.exit("Error: there is no .venv with the tools: run make setup.")
    branch = output("git", "branch", "--show-current")
    if branch != "main":
        sys.exit(f"Error: a release is made on main, not on {branch or 'a detached commit'}.")
    tags = output("git", "tag", "--list", "v*").split()
    done = [*(path.parent.name for path in RELEASES.glob("*/commit")), *(tag[1:] for tag in tags)]
    newest = max(filter(re.compile(r"\d+\.\d+\.\d+").fullmatch, done), key=numbers, default=None)
    if newest and numbers(version) <= numbers(newest):
        sys.exit(f"Error: VERSION={version} must be greater than {newest}, the newest release.")
    entries = re.search(r"(?ms)^## \[Unreleased\]\n(.*?)(?=^## |\Z)", read("CHANGELOG.md"))
    if not entries or not re.search(r"(?m)^- ", entries[1]):
        sys.exit("Error: CHANGELOG.md has no entry below ## [Unreleased], so what is released?")
    here = "--points-at=HEAD", "--format=%(refname:lstrip=2)", "refs/nightly"
    passed = output("git", "for-each-ref", *here).split()
    if lacking := [step for step in output(".ci/nightly", "--list").split() if step not in passed]:
        sys.exit(f"Error: on this commit, first run: .ci/nightly {' '.join(lacking)}")


def next_patch(version):
    major, minor, patch = numbers(version)
    return f"{major}.{minor}.{patch + 1}"


def read(name):
    return Path(name).read_text(encoding="utf-8")


def write_version(version):
    """Write the version into each file that has it, and the date into the changelog."""
    old = re.search("(?m)^version = (.*)$", read("setup.cfg"))[1]
    new = {old: version, next_patch(old): next_patch(version)}
    versions = re.compile(rf"(?<![\d.])({'|'.join(map(re.escape, new))})(?!\d)")
    for name in EXAMPLES:
        text = versions.sub(lambda match: new[match[0]], read(name))
        Path(name).write_text(text, encoding="utf-8")
    for name, pattern in VERSIONS.items():
        text, found = re.subn(
            f"(?m){pattern}",
            lambda match: match[0].replace(next(filter(None, match.groups())), version),
            read(name),
        )
        if not found:
            sys.exit(f"Error: {name} has no version like {pattern}.")
        Path(name).write_text(text, encoding="utf-8")
    heading = f"## [Unreleased]\n\n## [{version}] - {datetime.now(UTC):%Y-%m-%d}\n"
    text = read("CHANGELOG.md").replace("## [Unreleased]\n", heading, 1)
    Path("CHANGELOG.md").write_text(text, encoding="utf-8")


def build(tools, commit, folder):
    """Build all files of the release from a new clone of a commit into folder/dist."""
    epoch = output("git", "show", "--no-patch", "--format=%ct", commit)
    run("git", "clone", "--quiet", ".", folder)
    run("git", "checkout", "--quiet", commit, cwd=folder)
    dist = folder / "dist"
    for project in DISTRIBUTIONS:
        command = "-m", "build", "--no-isolation", "--outdir", "dist", project
        with tempfile.TemporaryFile("w+") as log:
            variables = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
            built = subprocess.run(
                [tools / "python", *command], cwd=folder, env=variables, stdout=log, stderr=log
            )
            log.seek(0)
            if built.returncode:
                sys.exit(f"{log.read()}\nError: the build of {project} failed.")
    run("npm", "pack", "--silent", "--pack-destination", "dist", "./testkit/node", cwd=folder)
    for sdist in dist.glob("*.tar.gz"):
        sdist.write_bytes(without_traces(sdist, int(epoch)))
    (wheel,) = dist.glob("task_meeting_workspace_service-*.whl")
    bom = ("--output-reproducible", "--output-file", f"dist/{wheel.stem}.cdx.json")
    run(tools / "cyclonedx-py", "requirements", "requirements.txt", *bom, cwd=folder)
    complete_bill(dist / f"{wheel.stem}.cdx.json", wheel, tools, folder)
    shutil.copy(folder / "requirements.txt", dist)
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(dist.iterdir())
    ]
    (dist / "SHA256SUMS").write_text("".join(lines))
    return dist


def complete_bill(path, wheel, tools, folder):
    """Add to a CycloneDX document what it is the bill of, and the licenses of the libraries."""
    locked = "--require-hashes", "-r", "requirements.txt"
    run(tools / "pip", "install", "-q", "--target", folder / "libraries", *locked, cwd=folder)
    licenses = {}
    for library in metadata.distributions(path=[str(folder / "libraries")]):
        spdx, named = library.metadata["License-Expression"], library.metadata["License"]
        classified = [
            line.rpartition(" :: ")[2]
            for line in library.metadata.get_all("Classifier", [])
            if line.startswith("License :: ")
        ]
        if spdx:
            found = [{"expression": spdx}]
        else:
            found = [{"license": {"name": name}} for name in classified or [named or "unknown"]]
        licenses[library.name.lower().replace("_", "-")] = found
    bill = json.loads(path.read_text())
    for component in bill["components"]:
        # A library for other systems is not installed here.
        component["licenses"] = licenses.get(component["name"], [])
    name, version = wheel.name.split("-")[:2]
    purl = f"pkg:pypi/{name.replace('_', '-')}@{version}"
    main = {"type": "application", "bom-ref": purl, "name": name.replace("_", "-")}
    main |= {"version": version, "purl": purl, "licenses": [{"license": {"id": "MIT"}}]}
    bill.setdefault("metadata", {})["component"] = main
    refs = [component["bom-ref"] for component in bill["components"]]
    bill.setdefault("dependencies", []).append({"ref": purl, "dependsOn": refs})
    path.write_text(json.dumps(bill, indent=2) + "\n")


def section(version):
    """Return what the changelog says about a release."""
    found = re.search(
        rf"(?ms)^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", read("CHANGELOG.md")
    )
    if not found:
        sys.exit(f"Error: CHANGELOG.md has no section of {version}.")
    return found[1].strip()


def publishable(tag):
    """Build the files of a tag that is checked out, for the workflow that publishes them."""
    version = tag.removeprefix("v")
    if f"\nversion = {version}\n" not in read("setup.cfg"):
        sys.exit(f"Error: the tag {tag} is not that of the version in setup.cfg.")
    notes = section(version)
    build_twice(output("git", "rev-parse", "HEAD"))
    Path("notes.md").write_text(notes + "\n", encoding="utf-8")


def without_traces(sdist, epoch):
    """Return the archive with its files in order, without the times and users of this build."""
    packed = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=packed, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.pax_headers = {}
            member.mode = 0o755 if member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(packed.getvalue(), mtime=epoch)


def build_twice(commit):
    """Fill dist/ with the files of a commit; end this program if a second build differs."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run(sys.executable, "-m", "venv", folder / "tools")
        tools = folder / "tools" / "bin"
        run(tools / "pip", "install", "-q", "build", "twine", "setuptools>=77", "cyclonedx-bom")
        first, second = (build(tools, commit, folder / name) for name in ("first", "second copy"))
        for path in first.iterdir():
            if path.read_bytes() != (second / path.name).read_bytes():
                sys.exit(f"Error: two builds of {path.name} differ; nothing was released.")
        run(tools / "twine", "check", "--strict", *first.glob("*.whl"), *first.glob("*.tar.gz"))
        shutil.rmtree("dist", ignore_errors=True)
        shutil.copytree(first, "dist")


def main(version=""):
    check(version)
    # New versions of libraries would be untested: an earlier commit renews the lock.
    requirements = read("requirements.txt")
    run("make", "lock", "UPGRADE=")
    if read("requirements.txt") != requirements:
        sys.exit("Error: requirements.txt does not fit setup.cfg: commit what make lock wrote.")
    tested = output("git", "rev-parse", "HEAD")
    run(*os.environ.get("RELEASE_RUN", ".ci/run").split())
    check(version)
    if output("git", "rev-parse", "HEAD") != tested:
        sys.exit("Error: main has moved during the tests: begin again.")
    try:
        release(version, tested)
    except BaseException:
        # The tree was clean, so this removes only what this program wrote.
        subprocess.run(["git", "reset", "--quiet", "--hard", tested], check=True)
        shutil.rmtree(RELEASES / version, ignore_errors=True)
        subprocess.run(INSTALL, check=False)
        raise


def record(version):
    """Commit what the release freezes. Then remove the files that only Git has to keep."""
    run(BIN / "pytest", "-q", "tests/releases/test_releases.py", "--record", version)
    run("git", "add", RELEASES)
    run("git", "commit", "--quiet", "-m", f"Record what {version} freezes")
    for path in (RELEASES / version).iterdir():
        if path.name != "commit":
            path.unlink()


def release(version, tested):
    """Write, record, commit and build the release whose code was tested in this commit."""
    write_version(version)
    run(*INSTALL)
    record(version)
    affected = (
        "tests/releases",
        "tests/test_distributions.py",
        "tests/test_docs.py",
        "tests/openapi",
    )
    rules = "tests/commands/test_migration_rules.py"
    run(BIN / "pytest", "-q", *affected, rules)
    run("git", "add", *VERSIONS, *EXAMPLES, "CHANGELOG.md", RELEASES)
    run("git", "commit", "--quiet", "-m", f"Release {version}\n\n.ci/run has passed on {tested}.")
    commit = output("git", "rev-parse", "HEAD")
    build_twice(commit)
    print(read("dist/SHA256SUMS"))
    print(f"{version} is committed and built. To publish it:\n")
    print(
        f"git tag -a v{version} -m 'Release {version}' {commit} && git push origin main v{version}"
    )


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    os.umask(0o022)
    if sys.argv[1:2] == ["--build"]:
        publishable(sys.argv[2])
    else:
        main(*sys.argv[1:])
