-- Count the tasks of this long transaction apart, so that no request waits for its end.
SELECT set_config('service.slot', '-1', true) AS slot;
