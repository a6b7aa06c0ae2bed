"""The Task, Meeting and Workspace service; ``app.py`` assembles its parts."""
