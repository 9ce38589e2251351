"""A parser whose errors are one line."""

from __future__ import annotations

import argparse
from typing import Any, Never

from stancoreset.checks import check_choice, suggest
from stancoreset.errors import OptionError


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: option, value, what is expected, a similar name."""

    def error(self, message: str) -> Never:
        """End with exit code 2 and one line."""
        self.exit(2, f"{self.prog}: error: {message}; {self.prog} --help lists what there is\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, and suggest a similar option for the first that a command does not have."""
        parsed, rest = super().parse_known_args(args, namespace)
        unknown = next((word.partition("=")[0] for word in rest if word.startswith("--")), "")
        if unknown:
            similar = suggest(unknown, self._option_string_actions)
            self.error(f"there is no option {unknown}{similar}")
        return parsed, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is not in an option's closed list, which may be named similarly."""
        if action.choices is not None:
            try:
                name = "/".join(action.option_strings) or str(action.metavar or action.dest)
                check_choice(name, value, [str(choice) for choice in action.choices])
            except OptionError as error:
                raise argparse.ArgumentError(None, str(error)) from None
