-- Drop the schema that unlimited/create has created. The table of plans was never changed.
DROP SCHEMA IF EXISTS unlimited CASCADE;
