-- Delete some rows of a workspace whose memberships have ended; return how many.
SELECT delete_rows(%(id)s, 5000) AS deleted;
