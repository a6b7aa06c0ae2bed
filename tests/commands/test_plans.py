"""The commands plan list and plan set: how many requests a user may make in a workspace."""

from support.commands import lines
from support.rows import restore_cast

BUILT_IN = [
    ["Starter", "60", "10000", "0"],
    ["Pro", "300", "100000", "0"],
    ["Team", "1000", "-", "2"],
]


def test_plan_list_prints_limits_and_the_number_of_workspaces_on_each_plan(cli):
    assert lines(cli("plan", "list")) == BUILT_IN


def test_plan_set_leaves_a_limit_unchanged_that_is_not_given(cli):
    change = "plan", "set", "Pro"
    assert lines(cli(*change, "--per-minute", "600")) == [["Pro", "600", "100000", "0"]]
    assert lines(cli(*change, "--per-day", "unlimited")) == [["Pro", "600", "-", "0"]]
    assert lines(cli(*change, "--per-day", "5000")) == [["Pro", "600", "5000", "0"]]


def test_a_new_plan_needs_both_limits(cli):
    new = "plan", "set", "Gold"
    assert lines(cli(*new, "--per-minute", "5000", "--per-day", "unlimited")) == [
        ["Gold", "5000", "-", "0"]
    ]
    assert cli("workspace", "plan", "acme", "Gold").exit_code == 0
    assert lines(cli("plan", "list"))[-1] == ["Gold", "5000", "-", "1"]


def test_a_limit_is_a_positive_integer_of_32_bits_in_ascii_digits(cli):
    for option in ("--per-minute", "--per-day"):
        for number in ("1", "2147483647"):
            changed = cli("plan", "set", "Pro", option, number)
            assert changed.exit_code == 0
            assert number in lines(changed)[0]
        before = lines(cli("plan", "list"))
        for number in ("0", "2147483648", "9" * 20):
            assert cli("plan", "set", "Pro", option, number).exit_code == 2
        for number in ("+5", "1_000", "\u0665", " 5", ""):
            assert cli("plan", "set", "Pro", "--per-day", number).exit_code == 2
        assert lines(cli("plan", "list")) == before


def test_a_test_may_change_the_plans_because_the_next_test_starts_with_the_first_ones(
    cli, connection
):
    assert cli("plan", "set", "Gold", "--per-minute", "1", "--per-day", "1").exit_code == 0
    connection.execute("DELETE FROM plans WHERE name = 'Pro'")
    connection.execute("UPDATE plans SET per_minute = 1 WHERE name = 'Starter'")
    restore_cast(connection)
    assert lines(cli("plan", "list")) == BUILT_IN
