"""The Task, Meeting and Workspace service; app.py is its table of contents."""
