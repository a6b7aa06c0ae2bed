-- Revoke the live sessions of all users that were created since this time.
UPDATE tokens AS token
   SET revoked_at = now()
 WHERE kind = 'session'
   AND created_at >= %(since)s
   AND is_live(token)
RETURNING id;
