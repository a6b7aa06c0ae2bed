-- Make a token useless from now on; one that is revoked already stays as it is.
UPDATE tokens AS token
   SET revoked_at = coalesce(token.revoked_at, now())
 WHERE token.id = %(id)s::uuid
RETURNING token.id;
