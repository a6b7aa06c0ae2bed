-- Count the tasks of this long transaction in a slot of its own, so that it blocks no request.
SELECT set_config('service.slot', '-1', true) AS slot;
