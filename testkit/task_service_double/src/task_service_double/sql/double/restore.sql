-- Replace the rows of all tables with their copies in the snapshot of this name.
SELECT snapshot.restore(%(name)s);
