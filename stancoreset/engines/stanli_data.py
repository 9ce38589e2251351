"""Data that a program does not read, which stanli need not hold.

A woven program declares all of the author's data, and reads centred predictors in place of the
predictors. stanli reads data from text, and keeps a number of every row several times over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stancoreset.errors import StancoresetError
from stancoreset.stan.syntax import names_in, parse, printer, sources
from stancoreset.stan.syntax import nodes as n


def without_unread_data(code: str) -> tuple[str, frozenset[str]]:
    """Remove the containers that a program does not read from its data; return their names too.

    >>> code = "data { int N; vector[N] x; vector[N] y; } model { target += sum(x); }"
    >>> print(without_unread_data(code)[0])
    data {
      int N;
      vector[N] x;
    }
    model {
      target += sum(x);
    }
    <BLANKLINE>
    """
    try:
        program = parse(code)
    except StancoresetError:  # which stanli says of the text as it is
        return code, frozenset()
    wanted = names_in(replace(program, data=())) | {d.name for d in program.data if not d.type.rank}
    live = sources((pair for d in program.data for pair in _reads(d)), wanted)
    unread = frozenset(d.name for d in program.data if d.name not in live)
    if not unread:
        return code, unread
    kept = tuple(d for d in program.data if d.name in live)
    return printer.program(replace(program, data=kept)), unread


def _reads(declared: n.Decl) -> Iterator[tuple[str, set[str]]]:
    """A variable, and the names that its sizes and bounds depend on."""
    yield declared.name, names_in(declared.size) | names_in(declared.constraint)
