-- Delete all workspaces and users with everything that belongs to them, and reset the plans.
WITH gone AS (
    DELETE FROM workspaces
), uncounted AS (
    DELETE FROM usage
), forgotten AS (
    DELETE FROM idempotency_keys
), unremembered AS (
    DELETE FROM deleted_users
), unplanned AS (
    -- docs/specification.md, section 8.
    UPDATE plans AS plan
       SET (per_minute, per_day) = (specified.per_minute, specified.per_day)
      FROM (VALUES ('Starter', 60, 10000), ('Pro', 300, 100000), ('Team', 1000, NULL))
           AS specified (name, per_minute, per_day)
     WHERE plan.name = specified.name
)
DELETE FROM users
RETURNING id;
