-- Revoke a token. A token that was revoked earlier keeps that time.
UPDATE tokens AS token
   SET revoked_at = coalesce(token.revoked_at, now())
 WHERE token.id = %(id)s
RETURNING token.id;
