-- Keep the versions and times of the objects that this transaction changes.
SELECT set_config('service.keeps_versions', 'on', true);
