-- A deleted workspace leaves no versions of its deleted objects.

-- sql/functions/versions.sql has the text.
CREATE FUNCTION forget_deleted_versions() RETURNS trigger
LANGUAGE plpgsql
AS 'BEGIN RETURN NULL; END';

CREATE TRIGGER forget_deleted_versions
    AFTER DELETE ON workspaces
    FOR EACH ROW
    EXECUTE FUNCTION forget_deleted_versions();
