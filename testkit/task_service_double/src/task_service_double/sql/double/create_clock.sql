-- Create the table that stores how far the clock of a test double is ahead. double/set_clock writes
-- it, and clock.now() reads it.
CREATE SCHEMA clock
    CREATE TABLE ahead (
        by interval NOT NULL
    );
