"""How a command ends: an exit code, and one message for people.

0 done, 1 an error of ours or a stream table that failed, 2 wrong use of the command, 130
interrupted, 141 nobody reads the output any more.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import typer

from spark_trickle.cli import output
from spark_trickle.errors import TrickleError

INTERRUPTED, UNREAD = 130, 141


def ending(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with every way to fail told here and not by a stack trace."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except TrickleError as error:
            output.error(error)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            output.note("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Python would complain when it closes a standard output that nobody reads.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(UNREAD) from None

    return run
