-- The first reader of a feed stores the transactions of older releases that may have missed the
-- feed.

-- Virtual transaction ids, as pg_locks shows them; NULL until the first reader has looked.
-- sql/functions/older_releases.sql has the function that uses them.
ALTER TABLE feeds ADD COLUMN awaited text[];
