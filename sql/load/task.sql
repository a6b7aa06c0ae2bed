-- Insert tasks, in the order of their lines; a subtask comes after its parent.
SELECT load_tasks(%(rows)s);
