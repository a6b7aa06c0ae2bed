-- End all memberships of a workspace that is to be deleted.
SELECT end_memberships(%(id)s);
