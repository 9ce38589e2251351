"""Rows of several blocks as one table: which column has which of the user's data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stancoreset.stan.data import Scope, evaluate_int
from stancoreset.stan.syntax import nodes as n


@dataclass(frozen=True)
class Column:
    """Data by rows of one block."""

    given: str  # the user's name
    name: str  # that of the column, which has an entry for the other blocks' rows too
    block: int  # which block it belongs to, from 0
    axis: int  # its dimension that counts rows


@dataclass(frozen=True)
class Table:
    """Several blocks of rows as one table.

    Attributes
    ----------
    obs, block : str
        The number of rows of all, and the array that tells which block a row belongs to.
    counts : tuple of str
        The user's numbers of rows of the blocks.
    columns : tuple of Column
    data : tuple of Decl
        The user's data block.
    program : Program
        The user's program with the table as data.
    computed_sizes : mapping of str to Expr
        Integers that are elements, or lengths, of the user's arrays.
    """

    obs: str
    block: str
    counts: tuple[str, ...]
    columns: tuple[Column, ...]
    data: tuple[n.Decl, ...]
    program: n.Program = field(repr=False)
    computed_sizes: Mapping[str, n.Expr] = field(default_factory=dict)

    def joined(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The user's data with a table in place of the blocks, the first block's rows first."""
        scope = Scope(data)
        data = {**data, **{k: evaluate_int(scope, e) for k, e in self.computed_sizes.items()}}
        sizes = [int(data[count]) for count in self.counts]
        out = {d.name: data[d.name] for d in self.program.data if d.name in data}
        blocks = np.repeat(np.arange(1, len(sizes) + 1), sizes)
        out |= {self.obs: len(blocks), self.block: blocks}
        for c in self.columns:
            value = np.asarray(data[c.given])
            if value.ndim > c.axis and value.shape[c.axis] == sizes[c.block]:
                widths = [(0, 0)] * value.ndim
                widths[c.axis] = sum(sizes[: c.block]), sum(sizes[c.block + 1 :])
                value = np.pad(value, widths)
            out[c.name] = value
        return out
