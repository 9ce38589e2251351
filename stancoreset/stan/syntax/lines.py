"""Lines of the user's source on which the statements of a syntax tree stand.

stanc prints its tree without positions. The printed tree and the source are the same words
up to braces, parentheses, comments and deprecated spellings, so the two are aligned word by
word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import printer

_WORD = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/)
      | (?P<include>\#include[ \t]*(?P<file><[^>\n]*>|"[^"\n]*"|[^\s/]+))
      | (?P<word>"[^"]*"
          | \d+(?:\.(?!\*|/|\^|'))?\d*(?:[eE][+-]?\d+)?i? | \.\d+(?:[eE][+-]?\d+)?
          | \w+ | %/% | \.\*=? | \./=? | \.\^ | [-+*/<>=!]= | && | \|\| | [^\s])""",
    re.VERBOSE | re.DOTALL,
)
_FREE = set("{}();,")  # words that formatting adds or drops

Word = tuple[str, int]


def source_lines(draft: n.Program, source: str, include_paths: Sequence[str]) -> list[int]:
    """Lines of the statements of `draft`, in the order of their numbers."""
    printed: list[str] = []
    begins: dict[int, int] = {}  # statements and the words with which they begin
    for text, statement in printer.program_lines(draft):
        if statement is not None:
            begins[statement.number] = len(printed)
        printed += (word for word, _ in _words(text, ()))
    original = list(_words(source, tuple(include_paths)))
    words = [word for word, _ in original]
    lines = [0] * len(printed)
    for i, j, size in SequenceMatcher(None, printed, words, autojunk=False).get_matching_blocks():
        lines[i : i + size] = (line for _, line in original[j : j + size])
    for i in reversed(range(len(lines) - 1)):  # what is spelled otherwise stands before the next
        lines[i] = lines[i] or lines[i + 1]
    count = max((s.number for s in n.find_all(draft, n.Statement)), default=-1) + 1
    # The braces around a loop's body are a statement too, on the line of the loop.
    found = [1] * count
    for k in range(count):
        at = begins.get(k, len(lines))
        found[k] = lines[at] if at < len(lines) else found[max(k - 1, 0)]
    return found


def _words(text: str, include_paths: Sequence[str], line: int | None = None) -> Iterator[Word]:
    """Words of Stan text, each with its line; an included file's carry the include's line."""
    at, seen = 1, 0
    for match in _WORD.finditer(text):
        at += text.count("\n", seen, match.start())
        seen = match.start()
        here = at if line is None else line
        if match["include"]:
            name = match["file"].strip('<>"')
            for folder in include_paths:
                path = Path(folder, name)
                if path.is_file():
                    yield from _words(path.read_text(encoding="utf-8"), include_paths, here)
                    break
        elif match["word"] and match["word"] not in _FREE:
            yield match["word"], here
