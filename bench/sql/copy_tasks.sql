-- The bare COPY that loading is compared to.
COPY tasks (
         workspace_id, id, title, description, status, priority, due_date, project_id,
         created_by, created_at, updated_at
     )
FROM STDIN;
