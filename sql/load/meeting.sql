-- Insert meetings, scheduled or completed, in the order of their lines.
SELECT load_meetings(%(rows)s);
