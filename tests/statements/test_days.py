"""The days of every timezone that the service accepts, compared with zoneinfo and PostgreSQL."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from service.values.types import timezones

MS = timedelta(milliseconds=1)
DAY = timedelta(days=1)
# Every offset from UTC lasts longer than this, even where summer time is suspended for Ramadan.
STEP = 10 * DAY
# Only past years: rules for the future can still change, so the timezone data of Python and of
# PostgreSQL may differ there.
YEARS = 2010, 2018, 2025


def changes(zone, year):
    """Return the moments in a year at which the offset of the zone changes, to a millisecond."""
    found, at = [], datetime(year, 1, 1, tzinfo=UTC)
    offset = at.astimezone(zone).utcoffset()
    while at.year == year:
        later = at + STEP
        new = later.astimezone(zone).utcoffset()
        if new != offset:
            before, after = at, later
            while after - before > MS:
                middle = before + (after - before) // MS // 2 * MS
                same = middle.astimezone(zone).utcoffset() == offset
                before, after = (middle, after) if same else (before, middle)
            found.append(after)
        at, offset = later, new
    return found


def last_moment(day, zone, known):
    """Return the last moment at which clocks in the zone show this day or an earlier day."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC) + DAY
    # The clocks run evenly between two changes, so the end is at one of these moments.
    offsets = {(midnight + n * DAY).astimezone(zone).utcoffset() for n in (-2, 2)}
    offsets |= {(at + n * MS).astimezone(zone).utcoffset() for at in known for n in (-1, 0)}
    ends = [midnight - offset - MS for offset in offsets] + [at - MS for at in known]
    return max(
        at for at in ends if at.astimezone(zone).date() <= day and abs(at - midnight) < 2 * DAY
    )


@pytest.fixture(scope="module")
def ends():
    """Return the ends of days around each change of the clocks, as zoneinfo computes them.

    Some ordinary days of each year are among them. The keys are pairs of a timezone and a day.
    """
    found = {}
    for name in timezones():
        zone = ZoneInfo(name)
        for year in YEARS:
            known = changes(zone, year)
            for at in [
                *known,
                datetime(year, 1, 15, tzinfo=UTC),
                datetime(year, 7, 15, tzinfo=UTC),
            ]:
                for days in (-1, 0, 1):
                    day = at.astimezone(zone).date() + days * DAY
                    found[name, day] = last_moment(day, zone, known)
    return found


@pytest.mark.slow
def test_in_each_timezone_days_end_where_zoneinfo_and_postgresql_say(connection, ends):
    """Moments for which the data of Python and of PostgreSQL differ are left out.

    For each moment, PostgreSQL is asked for the local time after ``SET timezone``, which does not
    mistake a name for an abbreviation.
    """
    query = (
        "SELECT item.name, day, beginning_of_day(day + 1, item.name) - interval '1 ms' AS at"
        "  FROM unnest(%s::text[], %s::date[]) AS item (name, day)"
        "  JOIN pg_timezone_names USING (name)"
    )
    ours = connection.execute(query, ([name for name, _ in ends], [day for _, day in ends]))
    wrong, compared = [], set()
    by_name = {}
    for row in ours.fetchall():
        by_name.setdefault(row["name"], []).append((row["day"], row["at"]))
    query = (
        "SELECT array_agg(at::timestamp ORDER BY number) AS shown"
        "  FROM (SELECT set_config('timezone', %s, true) OFFSET 0) AS done"
        " CROSS JOIN unnest(%s::timestamptz[]) WITH ORDINALITY AS item (at, number)"
    )
    with connection.transaction():
        for name, days in by_name.items():
            expected = [ends[name, day] for day, _ in days]
            around = [at + n * MS for at in expected for n in (0, 1)]
            (local,) = connection.execute(query, (name, around)).fetchall()
            theirs = [at.astimezone(ZoneInfo(name)).replace(tzinfo=None) for at in around]
            for number, (day, at) in enumerate(days):
                pair = slice(2 * number, 2 * number + 2)
                if local["shown"][pair] != theirs[pair]:
                    continue
                compared.add(name)
                if at != expected[number]:
                    wrong.append((name, day, at.astimezone(UTC), expected[number]))
    assert wrong == []
    # PostgreSQL may not know a new timezone yet. Then no workspace can have it either.
    assert len(compared) > 0.95 * len(timezones())


def test_a_day_that_the_clocks_skip_is_empty_and_its_neighbours_are_whole(connection):
    """A day that the clocks skip has no moment, and the days beside it keep all of theirs."""
    samoa = date(2011, 12, 29)
    query = (
        "SELECT beginning_of_day(%s::date + n, 'Pacific/Apia') AS at FROM generate_series(0, 3) n"
    )
    moments = [row["at"] for row in connection.execute(query, (samoa,)).fetchall()]
    assert moments == sorted(moments)
    # Clocks in Samoa never showed the 30th.
    assert moments[1] == moments[2]
