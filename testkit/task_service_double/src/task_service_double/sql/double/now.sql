-- The time by the clock of the test double.
SELECT iso(now()) AS now;
