-- Record that a token is being used, at most once a minute. The commit does not wait for the disk.
UPDATE tokens AS token
   SET last_used_at = now()
 WHERE token.id = %(token_id)s
   AND (token.last_used_at IS NULL OR token.last_used_at < now() - interval '1 minute')
RETURNING set_config('synchronous_commit', 'off', true);
