-- The response under an Idempotency-Key may show other workspaces than that of the key.

-- The ids of these workspaces; NULL if a release before 1.3.0 stored the response. When the user
-- leaves one of them, the key is deleted.
ALTER TABLE idempotency_keys ADD COLUMN shows uuid[];
