-- Copy all tables of the service, and the clock, as the snapshot of this name.
SELECT snapshot.save(%(name)s);
