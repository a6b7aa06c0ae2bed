"""``requirements.lock`` has what setup.cfg requires, and nothing else."""

import re
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.project import PROJECT, VERSIONS, required

pytestmark = pytest.mark.nodatabase


def locked():
    """Return the lines of the lock by name: the version and the number of hashes."""
    text = (PROJECT / "requirements.lock").read_text()
    entries = re.findall(r"(?m)^([a-z0-9-]+)==(\S+)(.*(?:\n +--hash=sha256:[0-9a-f]{64}.*)*)", text)
    return {name: (version, rest.count("--hash=")) for name, version, rest in entries}


def test_the_lock_has_a_version_that_setup_cfg_allows_of_each_requirement():
    versions = {name: version for name, (version, _) in locked().items()}
    for requirement in required():
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


def test_every_line_of_the_lock_has_a_hash_and_names_no_host():
    lock = locked()
    text = (PROJECT / "requirements.lock").read_text()
    assert len(lock) == len(re.findall("(?m)^[^ #]", text)) > 10
    assert all(hashes for _, hashes in lock.values())
    assert "//" not in text
    assert "-index" not in text


def test_the_lock_has_all_that_the_requirements_require_and_nothing_else():
    found, waiting = set(), required()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        found.add(name)
        for line in metadata.requires(name) or []:
            inner = Requirement(line)
            environments = [
                {"python_version": version, "python_full_version": version, "extra": extra}
                for version in VERSIONS
                for extra in ("", *requirement.extras)
            ]
            if inner.marker is None or any(map(inner.marker.evaluate, environments)):
                waiting.append(inner)
    assert locked().keys() == found
