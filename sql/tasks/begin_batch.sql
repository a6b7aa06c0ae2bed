-- Lock what a batch needs, and return what its tasks are before it.
SELECT missing, fits
  FROM begin_batch(
           %(workspace_id)s,
           %(ids)s,
           %(deleted_ids)s,
           %(is_alone)s,
           %(token_id)s
       );
