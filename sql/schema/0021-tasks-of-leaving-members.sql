-- Lock the tasks of a member who leaves in the order of their ids, as all requests do. The foreign
-- key that clears their assignee locks them in the order in which it finds them, and so could wait
-- in a circle with a batch or the deletion of a task.

-- PostgreSQL has locked the member before it runs this trigger, so no other transaction can assign
-- a task to the member any more.
CREATE FUNCTION lock_assigned_tasks() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM tasks AS task
      WHERE task.workspace_id = OLD.workspace_id
        AND task.assignee_id = OLD.user_id
      ORDER BY task.id
        FOR NO KEY UPDATE;
    RETURN OLD;
END
$$;

CREATE TRIGGER lock_assigned_tasks
    BEFORE DELETE ON members
    FOR EACH ROW
    EXECUTE FUNCTION lock_assigned_tasks();
