"""A server of one worker with four threads."""

import pytest
from server import serving

ONE = {"WEB_CONCURRENCY": "1", "WEB_THREADS": "4"}


@pytest.fixture(scope="module")
def lone(database_url):
    with serving(database_url, **ONE) as server:
        yield server
