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
    """Names in use, of all that a program declares, and the two that every woven program needs."""

    def __init__(self, program: n.Program) -> None:
        kept = (
            *program.functions, *program.data, *program.transformed_data, *program.parameters,
            *program.transformed_parameters, *program.model,
        )  # fmt: skip
        found = (getattr(node, "name", None) for node in n.walk(kept))
        self.used = {*_RESERVED.split(), *(name for name in found if isinstance(name, str))}
        self.weights = self._first("weights", "row_weights", "obs_weights")
        self.log_lik = self._first("log_lik", "row_log_lik", "obs_log_lik")

    def _first(self, *candidates: str) -> str:
        free = (name for name in candidates if name not in self.used)
        return self.fresh(next(free, candidates[0]))

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
