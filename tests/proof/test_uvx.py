"""Once the wheels are on an index, uvx is the whole start; here a folder is the index."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import urllib3
from support.project import PROJECT, run

pytestmark = [pytest.mark.nodatabase, pytest.mark.proof]

UVX = Path(sys.executable).with_name("uvx")


@pytest.fixture(scope="module")
def index(wheels):
    """Yield a folder with the wheels of this checkout and of all libraries, and a file for uv."""
    # All users can enter the folder, for PostgreSQL.
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        links = folder / "wheels"
        links.mkdir()
        for wheel in wheels:
            shutil.copy(wheel, links)
        (wheel,) = links.glob("task_meeting_workspace_service-*.whl")
        download = sys.executable, "-m", "pip", "download", "-q", "-d", links
        run(*download, f"{wheel}[dev]", cwd=folder)
        (folder / "uv.toml").write_text(f'no-index = true\nfind-links = ["{links}"]\n')
        yield folder


def variables(index, home):
    """Return an environment with an empty home, in which uv knows only the folder."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "uvx").symlink_to(UVX)
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(home / "bin"), "/usr/sbin", "/usr/bin", "/bin"]),
        "UV_CONFIG_FILE": str(index / "uv.toml"),
        "UV_PYTHON": sys.executable,
    }


def test_from_an_empty_home_uvx_starts_the_service_with_demo_data(index):
    readme = " ".join((PROJECT / "README.md").read_text().split())
    command = re.search("`(uvx --from [^`]* task-service dev)`", readme)[1]
    began = time.monotonic()
    process = subprocess.Popen(
        ["sh", "-c", f"exec {command} --port 0 --data {index}/data"],
        env=variables(index, index / "home"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A script starts what ends in & with SIGINT ignored, and every child inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        printed = {}
        for line in process.stdout:
            name, _, value = line.strip().partition("  ")
            printed[name] = value.strip()
            if name.startswith("export "):
                break
        assert "API token" in printed, process.stderr.read()
        headers = {"Authorization": f"Bearer {printed['API token']}"}
        url = f"{printed['Base URL']}/tasks?limit=1"
        assert urllib3.request("GET", url, headers=headers).json()["data"]
        print(f"from an empty home to the first answer: {time.monotonic() - began:.1f} s")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_from_an_empty_home_the_npm_package_names_the_command_with_which_uvx_starts_the_double(
    index, tmp_path
):
    if not shutil.which("node"):
        pytest.skip("node is not on the PATH")
    package = json.dumps((PROJECT / "testkit/node/index.mjs").as_uri())
    text = (
        f"import {{ start }} from {package}; const service = await start();"
        "const headers = { Authorization: `Bearer ${service.token}` };"
        "console.log((await fetch(service.url + '/tasks', { headers })).status);"
        "await service.close();"
    )
    outside = {**variables(index, index / "home of node"), "TMPDIR": str(index)}

    def start(command):
        return subprocess.run(
            [shutil.which("node"), "--input-type=module", "-e", text],
            cwd=tmp_path,
            env={**outside, "TASK_SERVICE_COMMAND": command},
            capture_output=True,
            text=True,
        )

    command = re.search("With uv, the command '(.*)' downloads it", start("").stderr)[1]
    began = time.monotonic()
    ended = start(command)
    assert (ended.stdout, ended.stderr) == ("200\n", "")
    print(f"from an empty home to the first answer: {time.monotonic() - began:.1f} s")
