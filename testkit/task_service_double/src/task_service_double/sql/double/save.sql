-- Keep all rows as they are now, in place of an earlier snapshot.
SELECT snapshot.save();
