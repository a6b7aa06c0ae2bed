-- Revoke a token; a token that was revoked earlier keeps its timestamp.
UPDATE tokens AS token
   SET revoked_at = coalesce(token.revoked_at, now())
 WHERE token.id = %(id)s::uuid
RETURNING token.id;
