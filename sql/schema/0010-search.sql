-- What a search looks for in the knowledge of one workspace; NULL, which finds nothing, if no word counts.
-- Immutable, so that the planner sees what it comes to, and how many entries have that.
CREATE FUNCTION knowledge_query(workspace_id uuid, search text) RETURNS tsquery
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
               WHEN numnode(wanted) > 0
               THEN wanted && quote_literal('workspace:' || workspace_id)::tsquery
           END
      FROM websearch_to_tsquery('english', search) AS wanted
$$;
