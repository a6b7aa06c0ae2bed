-- Users who have left: a deactivated user keeps everything but access, a deleted one leaves an id.

-- The ids of users who were deleted, so that an id in createdBy can be explained. It has no name.
CREATE TABLE deleted_users (
    id uuid PRIMARY KEY,
    -- NULL: not known, because the user was deleted in another database or before this migration.
    deleted_at timestamp_ms
);

-- Assign nothing new to a deactivated user. A task that was created before may be loaded with this
-- assignee. A user outside of the workspace is rejected by the foreign key, in any state.
CREATE FUNCTION check_assignee() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM members AS member
       JOIN users AS person ON person.id = member.user_id
      WHERE member.workspace_id = NEW.workspace_id
        AND member.user_id = NEW.assignee_id
        AND person.deactivated_at IS NOT NULL
        AND (TG_OP = 'UPDATE' OR NEW.created_at > person.deactivated_at);
    IF FOUND THEN
        RAISE check_violation
              USING CONSTRAINT = 'assigneeId must not be the id of a deactivated user';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER check_assignee_of_new
    BEFORE INSERT ON tasks
    FOR EACH ROW
    WHEN (NEW.assignee_id IS NOT NULL)
    EXECUTE FUNCTION check_assignee();

CREATE TRIGGER check_assignee_of_changed
    BEFORE UPDATE OF assignee_id ON tasks
    FOR EACH ROW
    WHEN (NEW.assignee_id IS NOT NULL AND NEW.assignee_id IS DISTINCT FROM OLD.assignee_id)
    EXECUTE FUNCTION check_assignee();

-- The time since which no credential of the user works and nothing new is assigned to the user.
-- This is the last statement, because every request waits for its lock. The type is no domain: for
-- that PostgreSQL would write the whole table anew.
ALTER TABLE users ADD COLUMN deactivated_at timestamp_ms;
