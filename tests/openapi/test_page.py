"""The reference page: served by this service alone, and only if the setting DOCS asks for it."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from support.rows import TOKENS


@pytest.fixture
def with_page(build):
    pytest.importorskip("flask_swagger_ui")
    return build(docs=True).test_client()


def test_the_reference_page_and_its_files_need_no_credentials_and_no_other_host(
    with_page, connection
):
    page = with_page.get("/docs")
    assert page.status_code == 200
    assert page.mimetype == "text/html"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    loaded = re.findall(r'(?:href|src)="([^"]+)"', page.text)
    assert len(loaded) >= 4
    for path in loaded:
        assert path.startswith("/docs/")
        assert with_page.get(path, buffered=True).status_code == 200
    assert '"url": "/openapi.json"' in page.text
    assert connection.execute("SELECT count(*) FROM usage").fetchone()["count"] == 0


def test_the_content_security_policy_of_the_page_allows_only_its_own_scripts(with_page):
    page = with_page.get("/docs/")
    policy = page.headers["Content-Security-Policy"]
    (script,) = re.findall("<script>(.*?)</script>", page.text, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'; ")
    file = with_page.get("/docs/swagger-ui-bundle.js", buffered=True)
    assert "script-src 'self';" in file.headers["Content-Security-Policy"]


def test_a_request_for_an_unknown_file_of_the_page_is_a_json_error(with_page):
    for path in ("/docs/nothing.js", "/docs/../gate.py", "/docs/..%2f..%2fsecret"):
        response = with_page.get(path)
        assert response.mimetype == "application/json"
        assert response.status_code in (401, 404)


@pytest.mark.parametrize("path", ["/docs", "/docs/", "/docs/swagger-ui.css"])
def test_by_default_the_reference_page_does_not_exist(app, path):
    client = app.test_client()
    assert client.get(path).status_code == 401
    response = client.get(path, headers={"Authorization": f"Bearer {TOKENS['alice']}"})
    assert response.status_code == 404
    assert response.mimetype == "application/json"
