"""Standard output of commands: UTF-8 in every locale; a failed write is an error in one line."""

import errno
import io
import os
import sys
from typing import IO, Any

import click

DESCRIPTOR = 1


class OutputFailed(click.ClickException):
    """Standard output is closed, or its disk is full."""

    def __init__(self, error: OSError) -> None:
        reason = "it is closed" if error.errno == errno.EBADF else error.strerror
        super().__init__(f"cannot write to standard output: {reason}")
        self.is_pipe = error.errno == errno.EPIPE

    def show(self, file: IO[Any] | None = None) -> None:
        # By custom, a command is silent if the next command of a pipe has read enough.
        if not self.is_pipe:
            super().show(file)

    def format_message(self) -> str:
        return f"{self.message}; what the command has changed stays"


class Output(io.FileIO):
    """Standard output; raises OutputFailed instead of OSError."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except OSError as error:
            # Python writes the rest when it exits, and would print a second error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), DESCRIPTOR)
            raise OutputFailed(error) from None


def open_output() -> None:
    """Let the command write to standard output through Output.

    Changes nothing if the caller has replaced ``sys.stdout``, as a test does.
    """
    if sys.stdout is not sys.__stdout__:
        return
    if sys.stdout is None:
        # The parent has closed the descriptor. A file that can only be read takes its number, so
        # that each write fails, and no connection of the command gets the number.
        unwritable = os.open(os.devnull, os.O_RDONLY)
        if unwritable != DESCRIPTOR:
            os.dup2(unwritable, DESCRIPTOR)
    raw = Output(DESCRIPTOR, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8",
        # An argument that is not UTF-8 has surrogates.
        errors="backslashreplace",
        line_buffering=raw.isatty(),
    )


def echo_secret(secret: str, lost: str) -> None:
    """Print a secret that no command can print again; if that fails, say what is lost."""
    try:
        click.echo(secret)
    except OutputFailed as error:
        raise click.ClickException(f"{error.message}; {lost}") from None
