"""The Task, Meeting and Workspace service; ``app.py`` assembles its parts."""

import sys
from pathlib import Path

# In a checkout, service/sql is a symbolic link. Git with core.symlinks=false, and some programs
# that unpack zip files, write a small file instead of the link. setup.py also imports this package,
# so that nobody can build a wheel without the SQL.
if not Path(__file__).with_name("sql").is_dir():
    sys.exit(
        "Error: this copy of the service has lost its symbolic links: clone it with"
        " git -c core.symlinks=true, or unpack the .tar.gz"
    )
