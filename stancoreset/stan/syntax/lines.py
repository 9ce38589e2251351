"""Lines of the user's source on which the statements of a syntax tree stand.

stanc prints its tree without positions. The printed tree and the source are the same words
up to braces, parentheses, comments and deprecated spellings, so the two are aligned word by
word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.syntax import printer

__all__ = ["source_lines"]

_WORD = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/)
      | (?P<include>\#include[ \t]*(?P<file><[^>\n]*>|"[^"\n]*"|[^\s/]+))
      | (?P<word>"[^"]*"
          | \d+(?:\.(?!\*|/|\^|'))?\d*(?:[eE][+-]?\d+)?i? | \.\d+(?:[eE][+-]?\d+)?
          | \w+ | %/% | \.\*=? | \./=? | \.\^ | [-+*/<>=!]= | && | \|\| | [^\s])""",
    re.VERBOSE | re.DOTALL,
)
_FREE = set("{}();,")  # words that formatting adds or drops
_WINDOW = 60

Word = tuple[str, int]


def source_lines(draft: n.Program, source: str, include_paths: Sequence[str]) -> list[int]:
    """Lines of the statements of `draft`, in the order of their numbers."""
    printed: list[Word] = []  # (word, number of the statement that begins here, or -1)
    for text, statement in printer.program_lines(draft):
        starts = -1 if statement is None else statement.number
        for i, (word, _) in enumerate(_words(text, ())):
            printed.append((word, starts if i == 0 else -1))
    original = list(_words(source, tuple(include_paths)))
    lines: dict[int, int] = {}
    i = j = 0
    last = 1
    while i < len(printed):
        word, starts = printed[i]
        if j < len(original) and original[j][0] != word:
            i_skip, j_skip = _resynchronise(printed, i, original, j)
            for _, number in printed[i : i + i_skip]:
                if number >= 0:
                    lines[number] = original[min(j + j_skip, len(original) - 1)][1]
            i, j = i + i_skip, j + j_skip
            if i >= len(printed):
                break
            word, starts = printed[i]
        if j < len(original) and original[j][0] == word:
            last = original[j][1]
            j += 1
        if starts >= 0:
            lines[starts] = last
        i += 1
    count = max((s.number for s in n.find_all(draft, n.Statement)), default=-1) + 1
    # The braces around a loop's body are a statement too, on the line of the loop.
    found = [0] * count
    for k in range(count):
        found[k] = lines.get(k, found[k - 1] if k else 1)
    return found


def _resynchronise(a: list[Word], i: int, b: list[Word], j: int) -> tuple[int, int]:
    """Fewest words to skip in `a` and `b` until the next few agree (braces may differ)."""

    def agree(p: int, q: int, wanted: int) -> bool:
        matched = 0
        while matched < wanted and p < len(a) and q < len(b):
            if a[p][0] == b[q][0]:
                matched, p, q = matched + 1, p + 1, q + 1
            elif matched and a[p][0] in _FREE:
                p += 1
            elif matched and b[q][0] in _FREE:
                q += 1
            else:
                return False
        return matched > 0

    for wanted in (7, 3, 1):
        for total in range(1, _WINDOW):
            for skip in range(total + 1):
                if i + skip < len(a) and agree(i + skip, j + total - skip, wanted):
                    return skip, total - skip
    return 1, 1


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
        elif match["word"]:
            yield match["word"], here
