-- Record that a token is being used, at most once a minute. The commit does not wait for the disk.
UPDATE tokens
   SET last_used_at = now()
 WHERE id = %(token_id)s
   AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
RETURNING set_config('synchronous_commit', 'off', true);
