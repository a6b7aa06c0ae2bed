-- Return the time of the test double's clock.
SELECT iso(now()) AS now;
