-- API tokens and sessions.

-- Return whether a credential is neither revoked nor expired.
CREATE OR REPLACE FUNCTION is_live(token tokens) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT token.revoked_at IS NULL AND (token.expires_at IS NULL OR token.expires_at > now())
$$;

-- Return the number of live API tokens of a user, or NULL if the user's session has ended.
-- Until the transaction ends, no other transaction can create a token for the user or end the
-- session. So a session that is being revoked cannot create a token that survives the revocation.
CREATE OR REPLACE FUNCTION lock_and_count_tokens(user_id uuid, session_id uuid) RETURNS bigint
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM users
      WHERE id = lock_and_count_tokens.user_id
        AND deactivated_at IS NULL
        FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM tokens AS session
      WHERE id = session_id
        AND session.user_id = lock_and_count_tokens.user_id
        AND kind = 'session'
        AND is_live(session)
        FOR SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT count(*)
          FROM tokens AS token
         WHERE token.user_id = lock_and_count_tokens.user_id
           AND kind = 'api'
           AND is_live(token)
    );
END
$$;

-- Revoke all tokens and sessions of a user that are not revoked yet. The lock on the user waits for
-- a transaction that is creating one, so that it is revoked as well.
CREATE OR REPLACE FUNCTION revoke_tokens(user_id uuid) RETURNS SETOF uuid
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM users
      WHERE id = revoke_tokens.user_id
        FOR NO KEY UPDATE;
    RETURN QUERY
    UPDATE tokens
       SET revoked_at = now()
     WHERE tokens.user_id = revoke_tokens.user_id
       AND revoked_at IS NULL
 RETURNING id;
END
$$;

-- An API token, without the token itself.
CREATE OR REPLACE FUNCTION token_json(token tokens) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   token.id,
                   token.name,
                   token.scope,
                   iso(token.created_at),
                   iso(token.expires_at),
                   iso(token.last_used_at),
                   token.workspace_id
               )::token_document
           )
$$;
