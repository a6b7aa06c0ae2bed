-- Workspaces.

-- A workspace in lists.
CREATE OR REPLACE FUNCTION workspace_json(workspace workspaces) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT row_to_json(
               ROW(
                   workspace.id,
                   workspace.name,
                   workspace.slug,
                   workspace.plan,
                   workspace.member_count,
                   iso(workspace.created_at)
               )::workspace_document
           )
$$;

-- A single workspace: the fields that a list shows, and the timezone.
CREATE OR REPLACE FUNCTION workspace_details(workspace workspaces) RETURNS json
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT json_join(
               workspace_json(workspace),
               row_to_json(ROW(workspace.timezone)::workspace_setting_document)
           )
$$;
