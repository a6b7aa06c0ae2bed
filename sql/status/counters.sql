-- What all processes have counted since the database was made, and how long ago each grew.
SELECT series,
       value,
       extract(epoch FROM clock_timestamp() - updated_at)::float8 AS seconds
  FROM counters
 ORDER BY series;
