-- The gate: counting requests.

-- Count a request of a subject in a workspace, if it is within both limits, and return the row.
-- The row has two windows: a minute and a day. A window begins with the first request after the end
-- of the previous window, and does not follow the clock. A request beyond a limit is rejected and
-- not counted, so that a client that keeps asking is admitted as soon as the next window begins.
-- For example, with 60 requests per minute, 60 requests from 12:00:20 on are admitted. The 61st is
-- rejected until 12:01:20, when the count begins at 0 again.
CREATE OR REPLACE FUNCTION count_request(
    workspace_id uuid, subject text, per_minute integer, per_day integer
) RETURNS usage
LANGUAGE plpgsql
AS $$
DECLARE
    hit usage;
BEGIN
    -- The commit of this count does not wait for the disk. The commit of a user's change does.
    SET LOCAL synchronous_commit = off;
    -- The lock on the row makes simultaneous requests of a subject count one after another. Another
    -- transaction may insert or delete the row meanwhile, so this repeats until it has the row.
    LOOP
        SELECT usage.workspace_id,
               usage.subject,
               -- least() keeps a window from getting longer if the clock was set back.
               least(minute_started_at, now()),
               minute_count,
               least(day_started_at, now()),
               day_count,
               admitted
          INTO hit
          FROM usage
         WHERE usage.workspace_id = count_request.workspace_id
           AND usage.subject = count_request.subject
           FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO usage (
                   workspace_id, subject,
                   minute_started_at, minute_count, day_started_at, day_count, admitted
               )
        VALUES (count_request.workspace_id, count_request.subject, now(), 0, now(), 0, true)
            ON CONFLICT DO NOTHING;
    END LOOP;
    IF now() >= hit.minute_started_at + interval '1 minute' THEN
        hit.minute_started_at := now();
        hit.minute_count := 0;
    END IF;
    IF now() >= hit.day_started_at + interval '24 hours' THEN
        hit.day_started_at := now();
        hit.day_count := 0;
    END IF;
    hit.admitted := hit.minute_count < per_minute
                    AND (per_day IS NULL OR hit.day_count < per_day);
    IF hit.admitted THEN
        hit.minute_count := hit.minute_count + 1;
        hit.day_count := hit.day_count + 1;
    END IF;
    UPDATE usage
       SET minute_started_at = hit.minute_started_at,
           minute_count = hit.minute_count,
           day_started_at = hit.day_started_at,
           day_count = hit.day_count,
           admitted = hit.admitted
     WHERE usage.workspace_id = hit.workspace_id
       AND usage.subject = hit.subject;
    RETURN hit;
END
$$;
