-- Revoke a token. A token that was revoked earlier keeps that time.
UPDATE tokens
   SET revoked_at = coalesce(revoked_at, now())
 WHERE id = %(id)s
RETURNING id;
