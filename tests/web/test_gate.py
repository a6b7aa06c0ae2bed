"""The gate: credentials, the CSRF check, rate limits, and the id of a request."""

import json
import re
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from math import ceil

import pytest
from support.http import Client, error_message
from support.rows import SESSION, TOKENS, count, insert_member, insert_token
from support.statements import trigger

from service.callers import Usage
from service.web.gate import rate_limit_error

HOME = "http://localhost"
TASK = {"title": "Write the report"}
RATE = "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"


@pytest.fixture
def starter(connection):
    connection.execute("UPDATE workspaces SET plan = 'Starter' WHERE slug = 'acme'")


def left(response):
    return int(response.headers["X-RateLimit-Remaining"])


def is_unauthorized(response):
    assert "Unauthorized" in error_message(response, 401)
    return response.headers["WWW-Authenticate"] == "Bearer"


# Credentials


def test_the_header_alone_authenticates_a_request_that_also_has_a_cookie(app, browser, cast):
    for header in ("Bearer nonsense", "Basic YTpi", "", f"Bearer {SESSION}"):
        assert is_unauthorized(browser.get("/tasks", headers={"Authorization": header}))
    both = {"Authorization": f"Bearer {TOKENS['bob']}"}
    assert browser.post("/tasks", TASK, headers=both).get_json()["createdBy"] == cast["bob"]
    assert Client(app, TOKENS["bob"], cookie="nonsense").get("/tasks").status_code == 200


@pytest.mark.usefixtures("browser")
def test_an_api_token_in_the_cookie_and_a_session_in_the_header_get_401(app):
    assert is_unauthorized(Client(app, SESSION).get("/tasks"))
    assert is_unauthorized(Client(app, cookie=TOKENS["alice"]).get("/tasks"))


ALICE = TOKENS["alice"]


HEADERS = (
    "", "Bearer", "Bearer ", "Bearer a b", f"Bearer\t{ALICE}", f"Bearer {ALICE},",
    f"Bearer {ALICE}, Bearer {ALICE}", f"Bearer {ALICE.upper()}", "Bearer a=b", 'Bearer a="b',
    "Bearer " + "x" * 300, "Bearer é", "Basic é", f"Basic {ALICE}", ALICE, "Bearer \u017f",
    "Bearer %00", "Digest username=x",
)  # fmt: skip
COOKIES = "", "é", "x" * 5000, '"', "a b", "%00", "\\000", "a; session=b"


def test_a_request_with_a_malformed_credential_gets_401(stranger):
    sent = [("Authorization", text) for text in HEADERS]
    sent += [("Cookie", f"session={text}") for text in COOKIES]
    for name, text in sent:
        response = stranger.get("/tasks", headers={name: text.encode().decode("latin-1")})
        assert is_unauthorized(response), (name, text)


def test_the_word_bearer_is_case_insensitive(stranger):
    for word in ("bearer", "BEARER", "Bearer  "):
        header = {"Authorization": f"{word} {TOKENS['alice']}"}
        assert stranger.get("/tasks", headers=header).status_code == 200


@pytest.mark.parametrize("end", ["expires", "revoked"])
@pytest.mark.parametrize("kind", ["api", "session"])
def test_a_request_with_an_expired_or_revoked_token_gets_401(app, connection, cast, kind, end):
    past, future = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
    insert_token(connection, cast["alice"], "ended", kind=kind, **{end: past})
    insert_token(connection, cast["alice"], "valid", kind=kind, expires=future)
    ended, valid = (
        Client(app, token) if kind == "api" else Client(app, cookie=token)
        for token in ("ended", "valid")
    )
    assert is_unauthorized(ended.post("/tasks", TASK))
    assert (
        count(connection, "tasks") == count(connection, "tokens", "last_used_at > '-infinity'") == 0
    )
    assert valid.get("/tasks").status_code == 200


def test_the_last_use_of_a_token_is_written_at_most_once_a_minute(alice, connection):
    def last_use(sql="SELECT last_used_at AS at FROM tokens JOIN users ON users.id = user_id"):
        return connection.execute(f"{sql} WHERE users.name = 'Alice'").fetchone()["at"]

    assert last_use() is None
    alice.get("/tasks")
    first = last_use()
    assert first is not None
    alice.get("/tasks")
    assert last_use() == first
    connection.execute("UPDATE tokens SET last_used_at = last_used_at - interval '61 seconds'")
    alice.get("/tasks")
    assert last_use() > first


# Writes from other origins


@pytest.mark.parametrize(
    ("header", "values", "status"),
    [
        ("Sec-Fetch-Site", ["same-origin", "none"], 201),
        ("Sec-Fetch-Site", ["cross-site", "same-site", "Same-Origin", ""], 403),
        ("Origin", [HOME], 201),
        ("Origin", ["http://evil.example", f"{HOME}.evil.example", f"{HOME}:81"], 403),
        ("Origin", ["http://[evil", "null", ""], 403),
        ("Content-Type", ["application/json; charset=utf-8"], 201),
        ("Content-Type", ["text/plain", "application/x-www-form-urlencoded", ""], 415),
        ("Content-Type", ["multipart/form-data; boundary=x", "text/plain; application/json"], 415),
    ],
)
def test_a_write_with_the_cookie_must_be_json_and_come_from_the_origin_of_the_service(
    browser, connection, header, values, status
):
    for value in values:
        for more in ({}, {"Origin": HOME}):
            headers = {"Content-Type": "application/json", **more, header: value}
            written = browser.post("/tasks", data=json.dumps(TASK), headers=headers)
            assert (value, written.status_code) == (value, status)
    assert count(connection, "tasks") == (2 * len(values) if status == 201 else 0)


def test_changes_and_deletes_with_the_cookie_need_the_own_origin_but_no_content_type(
    browser, alice
):
    task = alice.post("/tasks", TASK).get_json()
    path = f"/tasks/{task['id']}"
    for headers in ({"Sec-Fetch-Site": "same-site"}, {"Origin": "http://x.example"}):
        for type in ({}, {"Content-Type": "application/json"}):
            for method in ("PATCH", "DELETE"):
                sent = {"data": b'{"title": "Other"}', "headers": {**headers, **type}}
                error_message(browser.send(method, path, **sent), 403)
    as_text = {"Content-Type": "text/plain"}
    rejected = browser.send("PATCH", path, data=b"{}", headers=as_text)
    assert "text/plain" in error_message(rejected, 415)
    assert alice.get(path).get_json() == task
    changed = browser.send("PATCH", path, data=b'{"title": "Other"}')
    assert (changed.status_code, changed.get_json()["title"]) == (200, "Other")
    assert browser.delete(path).status_code == 204


def test_requests_with_a_bearer_token_are_exempt_from_the_csrf_check(alice):
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}, {}):
        written = alice.post("/tasks", data=json.dumps(TASK), headers=headers)
        assert written.status_code == 201, headers


# Rate limits


@pytest.mark.parametrize(
    ("who", "method", "path", "options", "status"),
    [
        ("alice", "GET", "/tasks", {}, 200), ("alice", "HEAD", "/tasks", {}, 200),
        ("alice", "POST", "/tasks", {"json": TASK}, 201),
        ("alice", "DELETE", "/tasks/{task}", {}, 204),
        ("alice", "POST", "/tasks", {"json": []}, 400), ("alice", "GET", "/tasks?limit=0", {}, 400),
        ("stranger", "GET", "/tasks", {}, 401), ("stranger", "GET", "/nothing", {}, 401),
        ("stranger", "GET", "/me?unknown=1", {}, 401), ("alice", "GET", "/me?unknown=1", {}, 400),
        ("bob", "PATCH", "/workspaces/{acme}", {"json": {"name": "Mine"}}, 403),
        ("alice", "GET", "/tasks/unknown", {}, 404), ("alice", "GET", "/nothing", {}, 404),
        ("alice", "PUT", "/tasks", {}, 405), ("alice", "OPTIONS", "/tasks", {}, 405),
        ("alice", "POST", "/tasks", {"data": b"x", "content_type": "text/plain"}, 415),
    ],
)  # fmt: skip
def test_each_response_has_the_headers_of_the_limits_and_each_request_counts(
    request, connection, cast, who, method, path, options, status
):
    client = request.getfixturevalue(who)
    alice = request.getfixturevalue("alice")
    task = alice.post("/tasks", TASK).get_json()
    before = left(client.get("/tasks"))
    response = client.send(method, path.format(task=task["id"], acme=cast["acme"]), **options)
    assert response.status_code == status
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    limit, remaining, reset = (int(response.headers[name]) for name in RATE)
    assert limit == (60 if who == "stranger" else 1000)
    assert remaining == before - 1
    assert time.time() < reset <= time.time() + 61
    # A plan with a daily limit (Starter) has two windows; a plan without one has only the minute.
    day = '"day";q=10000;w=86400' if who == "stranger" else None
    policy = ", ".join(filter(None, [f'"minute";q={limit};w=60', day]))
    assert response.headers["RateLimit-Policy"] == policy
    assert re.fullmatch(
        rf'"minute";r={remaining};t=([0-9]|[1-5][0-9]|60)'
        + (rf', "day";r={10000 - 60 + remaining};t=[0-9]{{5}}' if day else ""),
        response.headers["RateLimit"],
    )


@pytest.mark.usefixtures("starter")
def test_a_request_over_the_limit_gets_429_and_is_not_counted(alice, connection):
    alice.get("/tasks")
    connection.execute("UPDATE usage SET minute_count = 59")
    assert left(alice.get("/tasks")) == 0
    row = "SELECT minute_count, day_count, minute_started_at, day_started_at FROM usage"
    full = connection.execute(row).fetchone()
    for _ in range(3):
        rejected = alice.post("/tasks", TASK)
        assert "exceeded: 60 per minute; retry in" in error_message(rejected, 429)
        assert rejected.headers["X-RateLimit-Limit"] == "60"
        assert left(rejected) == 0
        wait = int(rejected.headers["Retry-After"])
        assert 1 <= wait <= 60
        assert abs(int(rejected.headers["X-RateLimit-Reset"]) - time.time() - wait) < 2
    assert connection.execute(row).fetchone() == full
    assert count(connection, "tasks") == 0


@pytest.mark.usefixtures("starter")
def test_a_used_up_daily_limit_gets_429_until_the_next_window(alice, connection):
    alice.get("/tasks")
    connection.execute("UPDATE usage SET day_count = 9999")
    last = alice.get("/tasks")
    assert last.status_code == 200
    assert (last.headers["X-RateLimit-Limit"], left(last)) == ("10000", 0)
    rejected = alice.get("/tasks")
    assert "exceeded: 10000 per day; retry in" in error_message(rejected, 429)
    assert rejected.headers["X-RateLimit-Limit"] == "10000"
    assert 86000 < int(rejected.headers["Retry-After"]) <= 86400
    # A new minute does not end the window of the day.
    connection.execute("UPDATE usage SET minute_started_at = now() - interval '1 hour'")
    assert alice.get("/tasks").status_code == 429
    connection.execute("UPDATE usage SET day_started_at = now() - interval '1 day'")
    fresh = alice.get("/tasks")
    assert (fresh.status_code, left(fresh), left(alice.get("/tasks"))) == (200, 59, 58)
    assert connection.execute("SELECT day_count FROM usage").fetchone()["day_count"] == 2


@pytest.mark.usefixtures("starter")
def test_an_operator_can_change_a_limit_with_one_update(alice, connection):
    assert left(alice.get("/tasks")) == 59
    connection.execute("UPDATE plans SET per_minute = 2 WHERE name = 'Starter'")
    assert left(alice.get("/tasks")) == 0
    assert alice.get("/tasks").status_code == 429
    # Then the header says that 0 are left, and never a negative number.
    connection.execute("UPDATE usage SET minute_count = 75")
    assert left(alice.get("/tasks")) == 0
    assert alice.get("/tasks").headers["RateLimit"].startswith('"minute";r=0;t=')
    connection.execute("UPDATE plans SET per_minute = 80 WHERE name = 'Starter'")
    assert left(alice.get("/tasks")) == 4
    connection.execute("UPDATE workspaces SET plan = 'Pro' WHERE slug = 'acme'")
    assert alice.get("/tasks").headers["X-RateLimit-Limit"] == "300"


def test_the_plan_team_has_no_daily_limit(alice, connection):
    alice.get("/tasks")
    connection.execute("UPDATE usage SET day_count = 2000000000")
    response = alice.get("/tasks")
    assert response.status_code == 200
    assert (response.headers["X-RateLimit-Limit"], left(response)) == ("1000", 998)
    assert "day" not in response.headers["RateLimit"] + response.headers["RateLimit-Policy"]


def test_requests_count_per_user_and_workspace(app, alice, bob, browser, connection, cast):
    assert left(alice.get("/tasks")) == 999
    assert left(browser.get("/tasks")) == 998
    assert left(bob.get("/tasks")) == 999
    insert_member(connection, cast["globex"], cast["alice"])
    move = "UPDATE users SET active_workspace_id = %s WHERE name = 'Alice'"
    connection.execute(move, [cast["globex"]])
    assert left(alice.get("/tasks")) == 999
    connection.execute(move, [cast["acme"]])
    assert left(alice.get("/tasks")) == 997


def strangers(app, *addresses, **headers):
    """Return X-RateLimit-Remaining of a stranger's requests from these addresses, in order."""
    client = Client(app)
    return [
        left(client.get("/tasks", environ_base={"REMOTE_ADDR": address}, headers=headers))
        for address in addresses
    ]


def test_requests_without_a_credential_count_by_address_and_ipv6_by_the_first_64_bits(app):
    assert strangers(app, "192.0.2.1", "192.0.2.1", "192.0.2.2") == [59, 58, 59]
    assert strangers(app, "::ffff:192.0.2.1") == [57]
    assert strangers(app, "2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:0:9::") == [59, 58, 57]
    assert strangers(app, "2001:db8:0:1::1", "fe80::1%eth0", "fe80::2%eth1") == [59, 59, 58]
    # A Unix socket has no address.
    assert strangers(app, None, "", "what") == [59, 58, 57]


def test_a_stranger_over_the_limit_gets_429_and_alice_is_still_served(
    app, alice, stranger, connection
):
    stranger.get("/tasks")
    connection.execute("UPDATE usage SET minute_count = 60")
    assert stranger.get("/tasks").status_code == 429
    wrong = Client(app, "wrong").get("/tasks")
    assert wrong.status_code == 429
    assert alice.get("/tasks").status_code == 200


def test_forwarded_addresses_count_only_as_far_as_proxies_are_trusted(app, build):
    proxied = build(trusted_proxies=1)

    def forwarded(app, chain):
        return strangers(app, "127.0.0.9", **{"X-Forwarded-For": chain})[0]

    # Without trusted proxies, every request counts for the address that connects.
    assert [forwarded(app, chain) for chain in ("1.1.1.1", "2.2.2.2")] == [59, 58]
    # With one trusted proxy, the last entry counts, and entries that the client wrote do not.
    assert [forwarded(proxied, chain) for chain in ("1.1.1.1", "2.2.2.2")] == [59, 59]
    assert [forwarded(proxied, chain) for chain in ("9.9.9.9, 1.1.1.1", "1.1.1.1")] == [58, 57]
    assert [forwarded(proxied, chain) for chain in ("rubbish", "x" * 300)] == [59, 58]
    # The client cannot hide the entry of the proxy in a quoted string.
    assert forwarded(proxied, '", 1.1.1.1') == 56
    assert forwarded(proxied, '"9.9.9.9, 1.1.1.1') == 55
    # A header with fewer entries than there are trusted proxies does not come from the proxies.
    twice = build(trusted_proxies=2)
    assert [forwarded(twice, chain) for chain in ("1.1.1.1", "3.3.3.3, 1.1.1.1")] == [57, 59]


@pytest.mark.parametrize(("state", "status"), [("53300", 503), ("P0001", 500)])
def test_the_headers_of_a_request_that_cannot_be_counted_say_that_nothing_remains(
    alice, connection, state, status
):
    fails = f"RAISE EXCEPTION 'the count fails' USING ERRCODE = '{state}';"
    began = ceil(time.time())
    with trigger(connection, "BEFORE INSERT ON usage", fails):
        response = alice.get("/tasks")
    error_message(response, status)
    limit, left, reset = (response.headers[name] for name in RATE)
    assert (limit, left) == ("60", "0")
    assert began + 1 <= int(reset) <= ceil(time.time()) + 1
    assert "RateLimit" not in response.headers


def test_requests_for_public_documents_are_neither_authenticated_nor_counted(app, connection):
    headers = {}, {"Authorization": "Basic é".encode().decode("latin-1")}, {"X-Request-Id": "me"}
    for path, header in product(("/", "/openapi.json", "/healthz"), headers):
        response = app.test_client().get(path, headers=header)
        assert (response.status_code, response.is_json) == (200, True), (path, header)
        assert response.headers["X-Request-Id"]
        assert not {*RATE, "RateLimit", "WWW-Authenticate"} & {*response.headers.keys()}
    assert response.get_json() == {"status": "ok"}
    assert count(connection, "usage") == 0


def test_requests_for_unknown_paths_and_methods_are_authenticated_and_counted(app, connection):
    sent = ("GET", "/api"), ("GET", "/nothing"), ("POST", "/"), ("POST", "/healthz")
    for number, (method, path) in enumerate(sent, 1):
        assert is_unauthorized(app.test_client().open(path, method=method)), path
        (row,) = connection.execute("SELECT minute_count FROM usage")
        assert row["minute_count"] == number, path


@pytest.mark.usefixtures("starter")
def test_of_simultaneous_requests_exactly_as_many_as_the_limit_are_admitted(build, connection):
    """On a busy machine they may take longer than a minute, and so several windows."""
    # No request fails because it waits for one of the connections.
    app = build(statement_timeout=60, pool_timeout=60)
    admitted, rejected = defaultdict(list), defaultdict(list)

    def request(_):
        response = Client(app, TOKENS["alice"]).get("/tasks?limit=1")
        found = {200: admitted, 429: rejected}[response.status_code]
        found[int(response.headers["X-RateLimit-Reset"])].append(left(response))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(request, range(320)))
    for window, lefts in admitted.items():
        assert sorted(lefts, reverse=True) == list(range(59, 59 - len(lefts), -1)), window
    for window, lefts in rejected.items():
        assert (len(admitted[window]), {*lefts}) == (60, {0})
    assert rejected
    last = len(admitted[max(admitted)])
    assert connection.execute("SELECT minute_count FROM usage").fetchone()["minute_count"] == last


# The request's id


def test_a_valid_request_id_is_echoed_and_any_other_is_replaced_with_a_new_one(alice, stranger):
    for offered in ("a", "A.b_c-9", "x" * 64):
        header = {"X-Request-Id": offered}
        assert alice.get("/tasks", headers=header).headers["X-Request-Id"] == offered
        rejected = stranger.get("/tasks", headers=header)
        assert rejected.headers["X-Request-Id"] == rejected.get_json()["requestId"] == offered
    invalid = [text.encode().decode("latin-1") for text in ("", "x" * 65, "a b", "é", "\u2022")]
    made = []
    for header in ({}, *({"X-Request-Id": text} for text in (*invalid, '"', "a,b"))):
        rejected = stranger.get("/tasks", headers=header)
        made.append(rejected.get_json()["requestId"])
        assert rejected.headers["X-Request-Id"] == made[-1] != header.get("X-Request-Id")
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", made[-1]), header
    assert len({*made}) == len(made)


def test_the_headers_forbid_caches_to_give_a_response_to_another_user(alice, stranger):
    task = alice.post("/tasks", TASK)
    known = {"If-None-Match": task.headers["ETag"]}
    unchanged = alice.get(f"/tasks/{task.get_json()['id']}", headers=known)
    assert unchanged.status_code == 304
    paths = "/tasks", "/nothing", "/tasks/x", "/workspaces"
    for response in (unchanged, *(who.get(path) for who in (alice, stranger) for path in paths)):
        assert response.headers["Cache-Control"] == "private, no-cache"
        assert response.headers["Vary"] == "Authorization, Cookie, Workspace-Id"


def test_the_origin_null_is_another_origin_for_any_host(browser):
    headers = {"Origin": "null", "Host": ""}
    assert "another origin" in error_message(browser.post("/tasks", TASK, headers=headers), 403)


def test_a_forwarded_address_with_a_port_counts_without_the_port(build, connection):
    stranger = Client(build(trusted_proxies=1))
    for forwarded, subject in (
        ("192.0.2.7:4711", "192.0.2.7"),
        ("[2001:db8::7]:4711", "2001:db8::/64"),
        ("[2001:db8::7]", "2001:db8::/64"),
        ("2001:db8::7", "2001:db8::/64"),
        ("192.0.2.7:x", "unknown"),
    ):
        stranger.get("/tasks", headers={"X-Forwarded-For": forwarded})
        (row,) = connection.execute("DELETE FROM usage RETURNING subject").fetchall()
        assert row["subject"] == subject, forwarded


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    ("after", "left", "retry_after"),
    [(10.25, 11, 11), (10, 10, 10), (0.001, 1, 1), (0, 0, 1), (-5, 0, 1)],
)
def test_the_seconds_left_of_a_window_are_rounded_up_and_retry_after_is_at_least_1(
    after, left, retry_after
):
    now = 1_700_000_000.0
    limits = 60, 60, now + after, 10_000, 100, now + 5000
    usage = Usage(*[None] * 6, False, True, *limits, now)
    assert usage.windows[0].seconds_left == left
    error = rate_limit_error(usage)
    assert dict(error.headers)["Retry-After"] == str(retry_after)
    assert error.message == f"Rate limit exceeded: 60 per minute; retry in {retry_after} s"


# Renamed plans, and clocks that are set back


@pytest.fixture
def renamed_starter(connection, cast):
    connection.execute(
        "UPDATE plans SET name = 'Free', per_minute = 7, per_day = 70 WHERE name = 'Starter'"
    )


def test_a_renamed_starter_plan_keeps_its_workspaces_and_strangers_keep_the_old_limits(
    alice, stranger, connection, renamed_starter
):
    connection.execute("UPDATE workspaces SET plan = 'Free'")
    free, starter = (who.get("/tasks").headers["RateLimit-Policy"] for who in (alice, stranger))
    assert free == '"minute";q=7;w=60, "day";q=70;w=86400'
    assert starter == '"minute";q=60;w=60, "day";q=10000;w=86400'
    connection.execute("UPDATE workspaces SET plan = 'Team'")


@pytest.mark.parametrize(("window", "seconds"), [("minute", 60), ("day", 86400)])
def test_setting_the_clock_back_makes_no_window_longer(alice, connection, starter, window, seconds):
    alice.get("/tasks")
    limit = f"(SELECT per_{window} FROM plans WHERE name = 'Starter')"
    connection.execute(
        f"UPDATE usage SET {window}_started_at = now() + interval '1 hour',"
        f" {window}_count = {limit}"
    )
    rejected = alice.get("/tasks")
    assert rejected.status_code == 429
    assert seconds - 60 <= int(rejected.headers["Retry-After"]) <= seconds
    reset = int(rejected.headers["X-RateLimit-Reset"])
    assert reset <= time.time() + seconds + 1
    # The start and the count of the window do not change.
    assert alice.get("/tasks").headers["X-RateLimit-Reset"] == str(reset)
