"""The pool that keeps the connection used last."""

from support.database import open_pool


def test_the_pool_hands_out_the_connection_that_was_used_last(build):
    pool = open_pool(build(web_threads=3))
    first, second, third = (pool.getconn() for _ in range(3))
    for connection in (first, third, second):
        pool.putconn(connection)
    for _ in range(3):
        with pool.connection() as connection:
            assert connection is second
    assert [pool.getconn() for _ in range(3)] == [second, third, first]
    for connection in (first, second, third):
        pool.putconn(connection)


def test_a_connection_returns_to_psycopg_pool_after_a_long_time_or_when_the_pool_is_drained(build):
    pool = open_pool(build(web_threads=2))
    kept, idle = pool.getconn(), pool.getconn()
    for connection in (idle, kept):
        pool.putconn(connection)
    assert pool.get_stats()["pool_available"] == 0
    # psycopg_pool closes old connections, and connections that were not used for ten minutes.
    idle.taken_at -= pool.MAX_WARM_SECONDS
    with pool.connection():
        pass
    assert pool.get_stats()["pool_available"] == 1
    with pool.connection() as used:
        pool.drain()
        # This connection is returned before ``used`` is.
        with pool.connection() as new:
            assert new not in (kept, idle)
    assert used.closed
    assert not new.closed
