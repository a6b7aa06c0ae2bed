-- Keep the last versions of deleted meetings, as those of tasks.
CREATE TRIGGER keep_deleted_version
    BEFORE DELETE ON meetings
    FOR EACH ROW
    EXECUTE FUNCTION keep_deleted_version();
