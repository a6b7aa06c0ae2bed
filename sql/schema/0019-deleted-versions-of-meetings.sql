-- Keep the last versions of deleted meetings, as those of tasks.
CREATE TRIGGER keep_deleted_versions
    AFTER DELETE ON meetings
    REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT
    WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION keep_deleted_versions();
