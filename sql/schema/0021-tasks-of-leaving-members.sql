-- Lock the tasks of a member who leaves in the order of their ids, before a foreign key changes
-- them.

-- sql/functions/members.sql has the text.
CREATE FUNCTION lock_assigned_tasks() RETURNS trigger
LANGUAGE plpgsql
AS 'BEGIN RETURN OLD; END';

CREATE TRIGGER lock_assigned_tasks
    BEFORE DELETE ON members
    FOR EACH ROW
    EXECUTE FUNCTION lock_assigned_tasks();
