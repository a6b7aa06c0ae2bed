-- Take every lock that a batch needs, and return what its tasks are before it.
SELECT missing, fits
  FROM lock_batch(
           %(workspace_id)s,
           %(ids)s,
           %(deleted_ids)s,
           %(new_ids)s,
           %(parent_ids)s,
           %(assignee_ids)s
       );
