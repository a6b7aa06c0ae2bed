-- Revoke a live API token or session of the caller.
UPDATE tokens AS token
   SET revoked_at = now()
 WHERE id = %(id)s
   AND user_id = %(user_id)s
   AND kind = %(kind)s
   AND is_live(token)
RETURNING id;
