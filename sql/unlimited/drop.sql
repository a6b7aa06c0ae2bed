-- Drop the schema of unlimited/create; the table of plans was never changed.
DROP SCHEMA IF EXISTS unlimited CASCADE;
