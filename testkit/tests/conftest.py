"""The test double that all tests of the testkit share, and its PostgreSQL."""

import pytest


@pytest.fixture(scope="session")
def service_environment(request, database_url):
    """Let the double make its database on the server that all tests use; return no settings."""
    request.config.option.task_service_database = database_url
    return {}
