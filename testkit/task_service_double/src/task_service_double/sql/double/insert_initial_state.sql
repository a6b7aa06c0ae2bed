-- Insert the initial state: workspaces, their members, each with a token and a session, and one
-- webhook.
WITH person AS MATERIALIZED (
    SELECT *
      FROM jsonb_to_recordset(%(users)s)
           AS person (
               id uuid, name text, email text, role text, workspace_id uuid,
               token_hash bytea, cookie_hash bytea
           )
), workspace AS (
    INSERT INTO workspaces (id, name, slug, plan)
    SELECT id, name, slug, plan
      FROM jsonb_populate_recordset(NULL::workspaces, %(workspaces)s)
), inserted AS (
    INSERT INTO users (id, name, email, active_workspace_id)
    SELECT id, name, email, workspace_id
      FROM person
), member AS (
    INSERT INTO members (workspace_id, user_id, role)
    SELECT workspace_id, id, role
      FROM person
), token AS (
    INSERT INTO tokens (user_id, kind, hash, expires_at)
    SELECT id, 'api', token_hash, NULL
      FROM person
     UNION ALL
    SELECT id, 'session', cookie_hash, now_ms() + interval '30 days'
      FROM person
)
INSERT INTO webhooks (workspace_id, id, url, key_fingerprint)
VALUES (%(webhook_workspace_id)s, %(webhook_id)s, %(webhook_url)s, %(key_fingerprint)s)
RETURNING id;
