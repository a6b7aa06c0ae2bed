"""The test double that tests share, and a PostgreSQL for it."""

import pytest


@pytest.fixture(scope="session")
def service_environment(request, database_url):
    """Let the double make its database on the server that all tests use; it needs no settings."""
    request.config.option.task_service_database = database_url
    return {}
