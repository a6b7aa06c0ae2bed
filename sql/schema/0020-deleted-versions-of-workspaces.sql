-- A deleted workspace leaves no versions of its deleted objects.

CREATE FUNCTION forget_deleted_versions() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    DELETE FROM deleted_versions AS deleted
     WHERE deleted.workspace_id = OLD.id;
    RETURN NULL;
END
$$;

-- PostgreSQL runs the triggers of an event in the order of their names, and those of foreign keys,
-- RI_ConstraintTrigger_…, come before this one. They wait for each transaction that is deleting a
-- task or a meeting of the workspace, so this trigger finds the row that such a transaction stores.
CREATE TRIGGER forget_deleted_versions
    AFTER DELETE ON workspaces
    FOR EACH ROW
    EXECUTE FUNCTION forget_deleted_versions();
