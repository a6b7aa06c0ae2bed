"""The program ``task-service``, which runs the package ``service`` beside this module.

The current folder or PYTHONPATH may have another package ``service``, which Python would import
instead. Nothing else has the name of this module.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def load_service() -> None:
    """Import the package ``service`` again and forget its modules, which are imported on demand."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == "service":
            del sys.modules[name]
    spec = PathFinder.find_spec("service", [str(Path(__file__).parent)])
    if not spec or not spec.loader:
        sys.exit(f"Error: {Path(__file__).parent} has no package service: install it again")
    sys.modules["service"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["service"])


def main() -> None:
    load_service()
    from service.__main__ import main

    main()


if __name__ == "__main__":
    main()
