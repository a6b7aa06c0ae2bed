-- Revoke a live API token or session of the caller.
UPDATE tokens AS token
   SET revoked_at = now()
 WHERE token.id = %(id)s
   AND token.user_id = %(user_id)s
   AND token.kind = %(kind)s
   AND is_live(token)
RETURNING token.id;
