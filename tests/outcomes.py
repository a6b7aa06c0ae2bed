"""The output of a command in a test, and its failure."""

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TIMESTAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def value(outcome):
    """Return the one line that a command printed."""
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout.endswith("\n")
    (line,) = outcome.stdout.splitlines()
    return line


def lines(outcome):
    """Return the lines that a command printed, as lists of columns."""
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    return [line.split("\t") for line in outcome.stdout.splitlines()]


def assert_failed(outcome, message, code=1):
    assert (outcome.exit_code, outcome.stdout) == (code, "")
    assert "Traceback" not in outcome.stderr
    assert message in outcome.stderr
    if code == 1:
        (line,) = outcome.stderr.splitlines()
        assert line.startswith("Error: ")


def rows(connection, sql, *values):
    return connection.execute(sql, values).fetchall()
