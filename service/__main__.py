"""``task-service``: all commands, from any folder; also ``python -m service``."""

import signal

# Ctrl-C during the imports below ends the process without a traceback.
ON_INTERRUPT = signal.getsignal(signal.SIGINT)
if ON_INTERRUPT is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import click  # noqa: E402

from service.commands import Commands  # noqa: E402

signal.signal(signal.SIGINT, ON_INTERRUPT)


@click.group(cls=Commands)
@click.version_option(package_name="task-meeting-workspace-service", message="%(version)s")
def main() -> None:
    """Run and manage the Task, Meeting and Workspace service.

    \b
    To try it:    task-service dev
    In production, with DATABASE_URL set:
                  task-service migrate
                  task-service check
                  task-service web
                  task-service worker
                  task-service status
    """


if __name__ == "__main__":
    main()
