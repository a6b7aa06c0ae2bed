-- Drop the copies of the snapshot of this name.
SELECT snapshot.forget(%(name)s);
