-- Write the seeded pages to the disk before the first measurement.
CHECKPOINT;
