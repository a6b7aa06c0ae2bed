-- Put all rows back as they were at the snapshot.
SELECT snapshot.restore();
