-- Revoke a token; one that is revoked already keeps its timestamp.
UPDATE tokens AS token
   SET revoked_at = coalesce(token.revoked_at, now())
 WHERE token.id = %(id)s::uuid
RETURNING token.id;
