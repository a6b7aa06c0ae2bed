-- Let time pass: move back whatever expires, ends or falls due. What the API shows stays as it is.
WITH token AS (
    UPDATE tokens
       SET expires_at = expires_at - %(by)s::interval,
           last_used_at = last_used_at - %(by)s::interval,
           revoked_at = revoked_at - %(by)s::interval
), counted AS (
    UPDATE usage
       SET minute_started_at = minute_started_at - %(by)s::interval,
           day_started_at = day_started_at - %(by)s::interval
), stored AS (
    UPDATE idempotency_keys
       SET created_at = created_at - %(by)s::interval
), webhook AS (
    UPDATE webhooks
       SET rotated_until = rotated_until - %(by)s::interval,
           failing_since = failing_since - %(by)s::interval,
           backoff_until = backoff_until - %(by)s::interval,
           disabled_at = disabled_at - %(by)s::interval
), secret AS (
    UPDATE previous_secrets
       SET expires_at = expires_at - %(by)s::interval
), event AS (
    UPDATE events
       SET created_at = created_at - %(by)s::interval
), delivery AS (
    UPDATE deliveries
       SET due_at = due_at - %(by)s::interval,
           finished_at = finished_at - %(by)s::interval
)
UPDATE attempts
   SET at = at - %(by)s::interval
RETURNING at;
