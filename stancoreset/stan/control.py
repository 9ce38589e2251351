"""A weighted program with room for a quadratic: the control variate, written into Stan.

    log density += gᵀδ − ½ Σ_i d_i δ_i² − ½ Σ_j r_j h_j² (1 − exp(−t_j²/h_j²)),   t = A δ − o

with δ = ψ − ψ₀ and ψ the parameters' unconstrained coordinates; see
`stancoreset.control_variate`. ψ₀, g, d, A, r, h and o are data; of size zero, they leave the
program as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stancoreset.engines.base import BoundModel, Compiled, Density, Float, StanData
from stancoreset.errors import ProgramError
from stancoreset.stan.coordinates import statements
from stancoreset.stan.names import Names
from stancoreset.stan.program import WeightedProgram, without_comments

__all__ = ["NOT_ONE_TO_ONE", "CompiledWithControl", "Controlled", "add_control"]

_STEMS = (
    "size", "rank", "start", "centre", "gradient", "axes", "curvature", "width", "offset",
    "diagonal", "psi",
)  # fmt: skip

#: The length of a unit vector's coordinates is lost on the way to the vector: Stan gives back those
#: of length one, and NUTS, Laplace and the pilot's draws have others.
NOT_ONE_TO_ONE = ("unit_vector",)


@dataclass(frozen=True)
class Controlled:
    """Stan code with a quadratic term.

    Attributes
    ----------
    code : str
        Without generated quantities; the lines of the original stay in place.
    covered, left_out : tuple of str
        Parameters that ψ holds, and those whose coordinates cannot be written in Stan.
    names : mapping of str to str
        What the term's data are called in the program: ``size``, ``rank``, ``centre``,
        ``gradient``, ``axes`` (A), ``curvature`` (r), ``width`` (h), ``offset`` (o),
        ``diagonal`` (d), and ``start``: how many coordinates stand before those of each
        covered parameter.
    """

    code: str = field(repr=False)
    covered: tuple[str, ...]
    left_out: tuple[str, ...]
    names: Mapping[str, str] = field(repr=False)

    def data(
        self,
        start: NDArray[np.int64],
        centre: Float,
        gradient: Float,
        axes: Float,
        curvature: Float,
        width: Float,
        offset: Float,
        diagonal: Float,
    ) -> StanData:
        """The term's data.

        Parameters
        ----------
        start : ndarray of int, one for each covered parameter
        centre, gradient, diagonal : ndarray, shape (p,)
        axes : ndarray, shape (r, p)
        curvature, width, offset : ndarray, shape (r,)
        """
        values = {
            "size": len(centre),
            "rank": len(curvature),
            "start": start,
            "centre": centre,
            "gradient": gradient,
            "axes": axes,
            "curvature": curvature,
            "width": width,
            "offset": offset,
            "diagonal": diagonal,
        }
        return {self.names[key]: value for key, value in values.items()}

    def nothing(self) -> StanData:
        """Data with which the term is not there."""
        none, start = np.zeros(0), np.zeros(len(self.covered), dtype=np.int64)
        return self.data(start, none, none, np.zeros((0, 0)), none, none, none, none)

    def coordinates(self, param_names: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Which of the unconstrained coordinates ψ holds, and where each parameter's begin.

        Parameters
        ----------
        param_names : sequence of str
            Names of all unconstrained coordinates: ``alpha``, ``beta.1``, …
        """
        owners = [re.split(r"[.\[]", name)[0] for name in param_names]
        columns = np.array([j for j, owner in enumerate(owners) if owner in self.covered], np.intp)
        held = [owners[j] for j in columns]
        start = [held.index(name) if name in held else 0 for name in self.covered]
        return columns, np.array(start, dtype=np.int64)


def add_control(weighted: WeightedProgram, *, ilr_simplex: bool) -> Controlled:
    """Write the quadratic term into a weighted program.

    Parameters
    ----------
    weighted : WeightedProgram
    ilr_simplex : bool
        Whether the engine's simplices are isometric log-ratios (Stan 2.37 and later).

    Examples
    --------
    >>> from stancoreset.stan.program import StanProgram, stan_model_path, weighted_program
    >>> program = weighted_program(StanProgram.from_file(stan_model_path("logistic")))
    >>> add_control(program, ilr_simplex=True).covered
    ('alpha', 'beta')
    """
    program = weighted.program
    free = Names(program.tree)
    names = {stem: free.fresh(f"control_{stem}") for stem in _STEMS}
    written: dict[str, str] = {}
    for decl in program.parameters:
        if decl.constraint.kind in NOT_ONE_TO_ONE:
            continue
        before = f"{names['start']}[{len(written) + 1}]"
        text = statements(decl, names["psi"], before, names["psi"], ilr_simplex=ilr_simplex)
        if text is not None:
            written[decl.name] = text
    left_out = tuple(d.name for d in program.parameters if d.name not in written)
    code = weighted.density_code
    if not written:
        return Controlled(code, (), left_out, names)
    term = _TERM.format(coordinates="\n    ".join(written.values()), **names)
    start = _block(code, r"(?<!transformed\s)\bdata\s*\{")
    end = _closing(code, _block(code, r"\bmodel\s*\{"))
    data = _DATA.format(count=len(written), **names)
    parts = (code[:start], data, code[start:end], term, code[end:])
    return Controlled("".join(parts), tuple(written), left_out, names)


_DATA = (
    " int<lower=0> {size}; int<lower=0> {rank}; array[{count}] int {start};"
    " vector[{size}] {centre}; vector[{size}] {gradient};"
    " matrix[{rank}, {size}] {axes}; vector[{rank}] {curvature}; vector[{rank}] {width};"
    " vector[{rank}] {offset}; vector[{size}] {diagonal};"
)
_TERM = """
  if ({size} > 0) {{
    // the control variate: what the rows lack of the log likelihood up to second order
    vector[{size}] {psi};
    {coordinates}
    {psi} -= {centre};
    target += dot_product({gradient} - 0.5 * {diagonal} .* {psi}, {psi})
              + 0.5 * dot_product({curvature} .* square({width}),
                                  expm1(-square(({axes} * {psi} - {offset}) ./ {width})));
  }}
"""


def _block(code: str, pattern: str) -> int:
    """Position behind the opening brace of a block."""
    found = re.search(pattern, without_comments(code))
    if found is None:
        raise ProgramError("the program has no data and model block to write a term into")
    return found.end()


def _closing(code: str, start: int) -> int:
    """Position of the brace that closes the block that opens at `start`."""
    depth = 1
    for brace in re.finditer(r"[{}]", without_comments(code)[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.start()
    raise ProgramError("the braces of the model block do not match")


@dataclass(frozen=True)
class CompiledWithControl:
    """A compiled program with a quadratic term, which is absent unless data for it are given."""

    compiled: Compiled
    controlled: Controlled

    @property
    def code(self) -> str:
        """The Stan program."""
        return self.compiled.code

    @property
    def name(self) -> str:
        """The program's name, for messages."""
        return self.compiled.name

    def bind(self, data: StanData, *, seed: int = 0, threads: int | None = None) -> BoundModel:
        """Join the program to its data."""
        return self.compiled.bind(self._filled(data), seed=seed, threads=threads)

    def bind_density(self, data: StanData) -> Density:
        """The same for a few log densities; see `Compiled.bind_density`."""
        return self.compiled.bind_density(self._filled(data))

    def _filled(self, data: StanData) -> StanData:
        if self.controlled.covered and self.controlled.names["size"] not in data:
            return {**data, **self.controlled.nothing()}
        return data
