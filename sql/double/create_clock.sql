-- How far the clock of a test double is ahead: read by clock.now(), written by double/set_clock.
CREATE SCHEMA clock
    CREATE TABLE ahead (
        by interval NOT NULL
    );
