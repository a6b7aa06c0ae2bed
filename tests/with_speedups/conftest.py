"""The speedups have tests of their own only where they are installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("speedups") else ["test_*.py"]
