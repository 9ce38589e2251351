"""Fresh variable names for the statements that weaving adds."""

from __future__ import annotations

import re

from stancoreset.stan.syntax import nodes as n

_RESERVED = (
    "for in while repeat until if then else true false target functions model data parameters "
    "quantities transformed generated profile return break continue int real complex vector "
    "row_vector matrix array tuple void lower upper offset multiplier"
)


class Names:
    """Names in use, and the two names every woven program needs.

    Every variable and function that the program declares anywhere is taken.
    """

    def __init__(self, program: n.Program) -> None:
        self.used = set(_RESERVED.split())
        kept = (
            *program.functions, *program.data, *program.transformed_data, *program.parameters,
            *program.transformed_parameters, *program.model,
        )  # fmt: skip
        for block in kept:
            for node in n.walk(block):
                name = getattr(node, "name", None)
                if isinstance(name, str):
                    self.used.add(name)
        self.weights = self._first("weights", "row_weights", "obs_weights")
        self.log_lik = self._first("log_lik", "row_log_lik", "obs_log_lik")

    def _first(self, *candidates: str) -> str:
        for name in candidates:
            if name not in self.used:
                self.used.add(name)
                return name
        return self.fresh(candidates[0])

    def fresh(self, stem: str) -> str:
        """`stem`, or `stem` with a number, not used anywhere in the program."""
        stem = re.sub(r"\W+", "_", stem).strip("_") or "value"
        stem = re.sub(r"__+", "_", stem)
        if stem[0].isdigit() or stem.startswith("_"):
            stem = "v_" + stem
        name, number = stem[:40].rstrip("_"), 2
        base = name
        while name in self.used:
            name, number = f"{base}_{number}", number + 1
        self.used.add(name)
        return name

    def loop(self) -> str:
        """A loop variable: ``n`` where it is free; separate loops may share it."""
        names = (name for name in ("n", "i", "row", "obs_n") if name not in self.used)
        return next(names, "n_row_")
