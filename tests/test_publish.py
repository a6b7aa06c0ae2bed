"""What .github/workflows/release.yml runs: each part asks whether its result exists."""

import re
import subprocess
from base64 import b64encode
from hashlib import sha512

import pytest
import yaml
from support.project import PROJECT, environment, read

pytestmark = pytest.mark.nodatabase

# Programs that keep in the folder $STATE what was published, and list there what they were told.
# A program whose name is in the file $STATE/broken fails once.
PROGRAM = """#!/bin/sh
name=$(basename "$0")
echo "$name $*" >>"$STATE/told"
tag() { echo "$*" | sed -n 's/.*--tag \\([^ ]*\\).*/\\1/p'; }
case "$name $*" in
    *' --push '* | *' imagetools create '* | 'npx '* | 'gh release create '*)
        if grep -sqx "$name" "$STATE/broken"; then rm "$STATE/broken"; exit 1; fi ;;
esac
case "$name $*" in
    'docker login '*) cat >/dev/null ;;
    *' inspect '*'--format'*) echo sha256:of-the-index ;;
    *' imagetools inspect '*) grep -sqx "$4" "$STATE/images" ;;
    *' --push '* | *' imagetools create '*) tag "$@" >>"$STATE/images" ;;
    'npm view '*) cat "$STATE/integrity" 2>/dev/null || exit 1 ;;
    'npx '*) cp "$STATE/own" "$STATE/integrity" ;;
    'gh release view '*) cat "$STATE/draft" 2>/dev/null || exit 1 ;;
    'gh release create '*) echo false >"$STATE/draft" ;;
esac
"""
PUBLISHING = re.compile(r"(?m)^.* (?:--push|imagetools create|publish|release create) .*$")
PARTS = "image", "npm", "index", "release"


class Publisher:
    """Runs .ci/publish with programs that only note what they should publish."""

    def __init__(self, folder):
        self.folder, self.state = folder, folder / "state"
        for name in ("dist", "bin", "state"):
            (folder / name).mkdir()
        for name in ("task_meeting_workspace_service", "task_service_double"):
            (folder / f"dist/{name}-1.2.3-py3-none-any.whl").write_text(name)
        (folder / "dist/task-service-double-1.2.3.tgz").write_text("the package")
        (folder / "notes.md").touch()
        (folder / "bundle").touch()
        digest = b64encode(sha512(b"the package").digest()).decode()
        (self.state / "own").write_text(f"sha512-{digest}\n")
        for name in ("docker", "npm", "npx", "gh", "curl", "git"):
            (folder / "bin" / name).write_text(PROGRAM)
            (folder / "bin" / name).chmod(0o755)

    def run(self, part):
        """Run a part; return its exit status, what it published, and its output."""
        (self.state / "told").write_text("")
        variables = environment(
            STATE=str(self.state), TOKEN="secret", GITHUB_ACTOR="rosa", GITHUB_REF_NAME="v1.2.3",
            GITHUB_REPOSITORY="Umbrella/service", GITHUB_REPOSITORY_OWNER="Umbrella", ARCH="arm64",
            BUNDLE="bundle",
        )  # fmt: skip
        variables["PATH"] = f"{self.folder / 'bin'}:{variables['PATH']}"
        command = [PROJECT / ".ci/publish", part]
        ran = subprocess.run(
            command, cwd=self.folder, env=variables, capture_output=True, text=True
        )
        told = (self.state / "told").read_text()
        assert "secret" not in told
        return ran.returncode, PUBLISHING.findall(told), ran.stdout


@pytest.fixture
def publisher(tmp_path):
    return Publisher(tmp_path)


def test_a_part_of_a_release_that_exists_is_not_published_again(publisher):
    done = {part: publisher.run(part) for part in PARTS}
    assert [status for status, _, _ in done.values()] == [0] * len(PARTS)
    told = {part: published for part, (_, published, _) in done.items()}
    service, double = told["image"]
    assert " --build-context build=wheels " in service
    image = "ghcr.io/umbrella/task-service:1.2.3"
    assert f"--tag {image}-arm64 --provenance mode=max --sbom generator=docker/" in service
    assert " --target double " in double
    package = "./dist/task-service-double-1.2.3.tgz"
    assert told["npm"] == [f"npx --yes npm@11.21.2 publish --provenance --access public {package}"]
    assert f"--tag {image} {image}-amd64 {image}-arm64" in told["index"][0]
    (created,) = told["release"]
    assert created.split().count("dist/provenance.sigstore.json") == 1
    outputs = "service-name=ghcr.io/umbrella/task-service\nservice-digest=sha256:of-the-index\n"
    assert done["index"][2].startswith(outputs)
    for part in PARTS:
        assert publisher.run(part)[:2] == (0, []), part


FAILING = [("image", "docker"), ("npm", "npx"), ("index", "docker"), ("release", "gh")]


@pytest.mark.parametrize(("part", "program"), FAILING)
def test_a_part_of_a_release_that_failed_can_run_again(publisher, part, program):
    (publisher.state / "broken").write_text(program + "\n")
    assert publisher.run(part)[0] != 0
    status, told, _ = publisher.run(part)
    assert (status, len(told)) == (0, {"image": 2, "index": 2}.get(part, 1))
    assert publisher.run(part)[:2] == (0, [])


def test_a_draft_that_a_failed_upload_has_left_is_replaced(publisher):
    (publisher.state / "draft").write_text("true\n")
    assert publisher.run("release")[0] == 0
    told = (publisher.state / "told").read_text()
    assert told.index("gh release delete v1.2.3") < told.index("gh release create v1.2.3")


def test_another_file_under_the_version_on_npm_does_not_pass_for_this_release(publisher):
    (publisher.state / "integrity").write_text("sha512-another")
    (publisher.state / "broken").write_text("npx\n")
    assert publisher.run("npm")[0] != 0


def test_every_job_that_publishes_is_in_the_environment_release_and_uses_the_tested_files():
    jobs = yaml.safe_load(read(".github/workflows/release.yml"))["jobs"]
    for name, job in jobs.items():
        steps = job.get("steps", [])
        publishes = "write" in job.get("permissions", {}).values()
        assert (job.get("environment") == "release") is publishes, name
        assert any(".ci/publish" in step.get("run", "") for step in steps) is publishes, name
        if publishes:
            assert {"check", "build"} <= {*job["needs"]}
            assert any("sha256sum --check" in step.get("run", "") for step in steps), name
    text = read(".github/workflows/release.yml")
    assert {*re.findall(r"\.ci/publish (\w+)", text)} == {*PARTS}
    # npx and docker run with versions only inside .ci/publish, which names them exactly.
    assert not re.search(r"\b(npx|docker) ", text)
