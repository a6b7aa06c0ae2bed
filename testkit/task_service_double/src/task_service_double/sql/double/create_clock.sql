-- Store how far the clock of a test double is ahead: clock.now() reads it, double/set_clock writes.
CREATE SCHEMA clock
    CREATE TABLE ahead (
        by interval NOT NULL
    );
