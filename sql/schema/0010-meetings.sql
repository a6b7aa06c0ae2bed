-- The id of a meeting is unique across all workspaces, and a completed meeting stays completed.

-- The API finds a meeting by its id alone, in all workspaces of the caller.
DROP INDEX meetings_by_id;
ALTER TABLE meetings
    ADD CONSTRAINT "id is taken by another meeting"
    UNIQUE (id);

CREATE FUNCTION keep_completed() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE check_violation USING CONSTRAINT = 'status must stay completed';
END
$$;

CREATE TRIGGER keep_completed
    BEFORE UPDATE ON meetings
    FOR EACH ROW
    WHEN (OLD.status = 'completed' AND NEW.status <> 'completed')
    EXECUTE FUNCTION keep_completed();
