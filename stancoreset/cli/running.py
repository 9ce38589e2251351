"""A command from its arguments to its exit code: what ends it is one line, never a traceback."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from signal import SIGINT, Signals
from textwrap import fill

from stancoreset.cli.signals import ending_in_order
from stancoreset.errors import StancoresetError
from stancoreset.progress import process_start


def run_command(
    name: str,
    make_parser: Callable[[], argparse.ArgumentParser],
    argv: Sequence[str] | None = None,
) -> int:
    """Parse arguments and call ``args.run(args)``, the command's handler; return the exit code.

    Parameters
    ----------
    name : str
        The program, as its errors begin with it.
    make_parser : callable
        Makes the parser, whose defaults have the handler as ``run``. What it imports may be slow:
        it can be interrupted like the command itself.
    argv : sequence of str, optional
        Arguments; default: those of the process.

    Returns
    -------
    int
        The handler's own exit code; 2 after an error of ours; 130, 143 or 129 if Ctrl-C, SIGTERM
        or SIGHUP ended it.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> parser.set_defaults(run=lambda args: 0)
    >>> run_command("nothing", lambda: parser, [])
    0
    """
    with ending_in_order() as received:
        return _run(name, make_parser, argv, received)


def _run(
    name: str,
    make_parser: Callable[[], argparse.ArgumentParser],
    argv: Sequence[str] | None,
    received: Sequence[Signals],
) -> int:
    args = argparse.Namespace()
    _print_anything()
    try:
        started = process_start() if argv is None else time.perf_counter()
        args = make_parser().parse_args(argv)
        args.started = started
        _quiet_libraries()
        return int(args.run(args))
    except StancoresetError as error:
        print(_told(f"{name}: error: {error}"), file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"{name}: error: not enough memory: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        where = getattr(args, "out", None)
        hint = f"; finished stages are in {where}, continue with --resume" if where else ""
        how = f"ended by {received[0].name}" if received else "interrupted"
        with contextlib.suppress(OSError):  # the terminal may be gone after a SIGHUP
            print(f"\n{name}: {how}{hint}", file=sys.stderr)
        return 128 + int(received[0] if received else SIGINT)
    except BrokenPipeError:  # the reader of a pipe has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _told(message: str) -> str:
    """A message in lines of the terminal's width; in pipes and files it stays as it is."""
    if not sys.stderr.isatty():
        return message
    width = shutil.get_terminal_size().columns
    return "\n".join(_wrapped(line, width) for line in message.splitlines())


def _wrapped(line: str, width: int) -> str:
    """A line, and where it is too long, its words in several that are indented as it was."""
    if len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _print_anything() -> None:
    """Escape characters that the terminal cannot print, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _quiet_libraries() -> None:
    # A program may configure logging; the library never does.
    for name in ("cmdstanpy", "arviz", "matplotlib"):
        logging.getLogger(name).setLevel(logging.ERROR)
