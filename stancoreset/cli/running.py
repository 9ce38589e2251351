"""A command from its arguments to its exit code: what ends it is one line, never a traceback."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from signal import SIGINT, Signals
from textwrap import fill
from types import FrameType

from stancoreset.errors import StancoresetError
from stancoreset.progress import process_start

# Windows has no SIGHUP.
_ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def run_command(
    name: str,
    make_parser: Callable[[], argparse.ArgumentParser],
    argv: Sequence[str] | None = None,
) -> int:
    """Parse arguments, call the command's handler, ``args.run(args)``, and return its exit code.

    `name` is the program, as its errors begin with it. `make_parser` may be slow: it can be
    interrupted like the command itself. The exit code is 2 after an error of ours, and 130, 143 or
    129 if Ctrl-C, SIGTERM or SIGHUP ended the command.

    >>> parser = argparse.ArgumentParser()
    >>> parser.set_defaults(run=lambda args: 0)
    >>> run_command("nothing", lambda: parser, [])
    0
    """
    args = argparse.Namespace()
    with _ending_in_order() as received:
        try:
            _print_anything()
            started = process_start() if argv is None else time.perf_counter()
            args = make_parser().parse_args(argv)
            args.started = started
            for library in ("cmdstanpy", "arviz", "matplotlib"):
                logging.getLogger(library).setLevel(logging.ERROR)  # which only a program may do
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


@contextlib.contextmanager
def _ending_in_order() -> Iterator[list[Signals]]:
    """Turn both signals into interrupts while the block runs; yield the signals received.

    Only commands, which own their process, use this. A library leaves signals to its program;
    `stancoreset.engines.cmdstan.process` describes how its processes end then. A signal that is
    ignored (``nohup``) or has a handler is left alone.
    """
    received: list[Signals] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(Signals(number))
        # While stanli runs, Ctrl-C has a handler that stops it; an exception would be lost.
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):
            interrupt(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    ours = []
    if threading.current_thread() is threading.main_thread():
        ours = [s for s in _ENDINGS if signal.getsignal(s) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield received
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
