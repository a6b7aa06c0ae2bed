"""``task-service``: all commands, from any folder; also ``python -m service``."""

import click

from service.commands import Commands


@click.group(cls=Commands)
@click.version_option(package_name="task-meeting-workspace-service", message="%(version)s")
def main() -> None:
    """Run and manage the Task, Meeting and Workspace service.

    \b
    To try it:    task-service dev
    In production, with DATABASE_URL set:
                  task-service migrate
                  task-service web
                  task-service worker
                  task-service status
    """


if __name__ == "__main__":
    main()
