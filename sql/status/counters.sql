-- What all processes have counted since the database was created, and how long ago each counter
-- grew.
SELECT series,
       value,
       extract(epoch FROM clock_timestamp() - updated_at)::float8 AS seconds
  FROM counters
 ORDER BY series;
