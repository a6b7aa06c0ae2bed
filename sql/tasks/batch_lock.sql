-- Take every lock that a batch needs, and return what its tasks are before it.
SELECT missing, matched, fits
  FROM lock_batch(
           %(workspace_id)s,
           %(ids)s,
           %(versions)s,
           %(deleted_ids)s,
           %(new_ids)s,
           %(parent_ids)s,
           %(assignee_ids)s
       );
