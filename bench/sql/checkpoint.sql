-- What seeding left in the buffers goes to the disk before the first figure is taken.
CHECKPOINT;
