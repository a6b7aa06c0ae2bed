-- End what unlimited/create began; the plans themselves were never changed.
DROP SCHEMA IF EXISTS unlimited CASCADE;
