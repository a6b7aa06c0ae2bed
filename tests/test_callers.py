"""Rate limits at the end of their windows."""

import pytest

from service.callers import Usage
from service.http.gate import rate_limit_error

NOW = 1_700_000_000.0
USAGE = Usage(
    token_id=None,
    user_id=None,
    workspace_id=None,
    token_workspace_id=None,
    scope=None,
    record_use=False,
    admitted=True,
    per_minute=60,
    minute_count=60,
    minute_ends=NOW + 10.25,
    per_day=10_000,
    day_count=100,
    day_ends=NOW + 5000.0,
    now=NOW,
)


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    ("ends", "left", "retry_after"),
    [(NOW + 10.25, 11, 11), (NOW + 10, 10, 10), (NOW + 0.001, 1, 1), (NOW, 0, 1), (NOW - 5, 0, 1)],
)
def test_a_window_s_seconds_are_rounded_up_and_a_retry_is_never_at_once(ends, left, retry_after):
    usage = USAGE._replace(minute_ends=ends)
    assert usage.windows[0].seconds_left == left
    error = rate_limit_error(usage)
    assert dict(error.get_headers())["Retry-After"] == str(retry_after)
    assert error.description == f"Rate limit exceeded: 60 per minute; retry in {retry_after} s"
