"""The program that an engine compiles: a weighted program plus a quadratic term.

    log density += gᵀδ − ½ Σ_i d_i δ_i² − ½ Σ_j r_j h_j² b(t_j²/h_j²),      t = A δ − o
    b(u) = 1 − exp(−u − u²/2 − u³/3)

and with many groups, which meet only through the coordinates s that they share,

    log density −= δᵀ K δ_s + Σ_e v_e δ_a(e) δ_b(e)

with δ = ψ − ψ₀ and ψ the unconstrained coordinates of the parameters, or of what the rows see of
them (`stancoreset.stan.likelihood`); see `stancoreset.selection.control_variates`. All else are
data; of size zero, they leave the program as it was.

The rows' log likelihoods are generated only if the data ask for them. Compiling takes half a
minute, so one executable does everything; evaluating densities and sampling pay for no row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stancoreset.errors import ProgramError
from stancoreset.stan.labels import variable_of
from stancoreset.stan.likelihood import Likelihood, likelihood_of, parameters_read
from stancoreset.stan.syntax import Names, printer, without_comments
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.transforms import statements
from stancoreset.stan.weave import needed
from stancoreset.stan.weighted import WeightedProgram

Float = NDArray[np.float64]

# The term's data, in the order of their declarations.
_DATA = {
    "size": "int<lower=0>", "rank": "int<lower=0>", "start": "array[{count}] int",
    "centre": "vector[{size}]", "gradient": "vector[{size}]", "axes": "matrix[{rank}, {size}]",
    "curvature": "vector[{rank}]", "width": "vector[{rank}]", "offset": "vector[{rank}]",
    "diagonal": "vector[{size}]", "shared_size": "int<lower=0>", "pairs_size": "int<lower=0>",
    "shared": "array[{shared_size}] int", "cross": "matrix[{shared_size}, {size}]",
    "first": "array[{pairs_size}] int", "second": "array[{pairs_size}] int",
    "mixed": "vector[{pairs_size}]",
}  # fmt: skip

#: The length of a unit vector's coordinates is lost on the way to the vector: Stan gives back those
#: of length one, and NUTS, Laplace and the pilot's draws have others.
NOT_ONE_TO_ONE = ("unit_vector",)


@dataclass(frozen=True)
class Controlled:
    """Stan code with a quadratic term."""

    # Its only generated quantity is the rows' log likelihood; the lines of the original up to there
    # stay in place.
    code: str = field(repr=False)
    # Variables that ψ holds, and parameters whose coordinates cannot be written in Stan.
    covered: tuple[str, ...]
    left_out: tuple[str, ...]
    # Names of the term's data in the program: ``size``, ``rank``, ``centre``, ``gradient``,
    # ``axes`` (A), ``curvature`` (r), ``width`` (h), ``offset`` (o), ``diagonal`` (d), ``shared``
    # (s), ``cross`` (Kᵀ), ``first`` (a), ``second`` (b), ``mixed`` (v), and ``start``: how many
    # coordinates stand before those of each covered parameter; ``log_lik`` and ``seen``: whether
    # rows' log likelihoods, and ψ as ``values``, are generated.
    names: Mapping[str, str] = field(repr=False)
    seen: tuple[str, ...]  # those of `covered` that the rows see; the prior alone has the others
    # The program in what the rows see; None if ψ are the parameters' coordinates.
    likelihood: Likelihood | None = field(default=None, repr=False)

    @property
    def said(self) -> str:
        """ψ in words: its variables, and how those without a name in the program are computed."""
        if self.likelihood is None:
            return f"{', '.join(self.seen) or 'none'} (the parameters themselves)"
        lifts = "; ".join(map(str, self.likelihood.lifted))
        return ", ".join(self.seen) + (f" (where {lifts})" if lifts else "")

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
        shared: NDArray[np.intp] | None = None,
        cross: Float | None = None,
        pairs: NDArray[np.intp] | None = None,
        mixed: Float | None = None,
    ) -> dict[str, Any]:
        """The term's data: `centre`, `gradient`, `diagonal` (p,), `axes` (r, p), others (r,).

        `start` has one number for each covered parameter. Of many groups there are `shared` (G,),
        `cross` (p, G), `pairs` (e, 2) and `mixed` (e,), with numbers of coordinates from 0.
        """
        nowhere = np.zeros(0, dtype=np.int64)
        shared = nowhere if shared is None else shared
        pairs = nowhere.reshape(0, 2) if pairs is None else pairs
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
            "shared_size": len(shared),
            "pairs_size": len(pairs),
            "shared": shared + 1,
            "cross": np.zeros((0, len(centre))) if cross is None else cross.T,
            "first": pairs[:, 0] + 1,
            "second": pairs[:, 1] + 1,
            "mixed": np.zeros(0) if mixed is None else mixed,
        }
        return {self.names[key]: value for key, value in values.items()}

    def nothing(self) -> dict[str, Any]:
        """Data that switch off both the term and the rows' log likelihoods."""
        without = {self.names["log_lik"]: 0, self.names["seen"]: 0}
        if not self.covered:
            return without
        return {**without, **self._zero(0, np.zeros(len(self.covered), dtype=np.int64))}

    def values(self, param_names: Sequence[str]) -> dict[str, Any]:
        """Data that generate ψ, whose coordinates have these names, and switch off all else."""
        start = self.coordinates(param_names)[1]
        return {**self.nothing(), **self._zero(len(param_names), start), self.names["seen"]: 1}

    def _zero(self, size: int, start: NDArray[np.int64]) -> dict[str, Any]:
        """A quadratic of `size` coordinates that is zero."""
        zero, none = np.zeros(size), np.zeros(0)
        return self.data(start, zero, zero, np.zeros((0, size)), none, none, none, zero)

    def coordinates(self, param_names: Sequence[str]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Positions of the unconstrained coordinates in ψ, and where each parameter's begin."""
        owners = [variable_of(name) for name in param_names]
        columns = np.array([j for j, owner in enumerate(owners) if owner in self.covered], np.intp)
        held = [owners[j] for j in columns]
        start = [held.index(name) if name in held else 0 for name in self.covered]
        return columns, np.array(start, dtype=np.int64)


def add_control(
    weighted: WeightedProgram,
    *,
    ilr_simplex: bool,
    behind: frozenset[str] = frozenset(),
) -> Controlled:
    """Write the quadratic term into a weighted program, in the coordinates ψ that its rows see.

    With `ilr_simplex` the engine's simplices are isometric log-ratios (Stan 2.37 and later); see
    `likelihood_of` for variables `behind` the cut.

    >>> from stancoreset.stan import StanProgram, stan_model_path, weighted_program
    >>> program = weighted_program(StanProgram.from_file(stan_model_path("logistic")))
    >>> add_control(program, ilr_simplex=True).covered
    ('alpha', 'beta')
    """
    program = weighted.program
    likelihood = likelihood_of(weighted, behind)
    free = Names(program.tree)
    stems = (*_DATA, "psi", "bent", "log_lik", "seen", "values")
    names = {stem: free.fresh(f"control_{stem}") for stem in stems}
    written: dict[str, str] = {}
    for decl in program.parameters if likelihood is None else likelihood.seen:
        if decl.constraint.kind in NOT_ONE_TO_ONE:
            continue
        before = f"{names['start']}[{len(written) + 1}]"
        text = statements(decl, names["psi"], before, names["psi"], ilr_simplex=ilr_simplex)
        if text is not None:
            written[decl.name] = text
    left_out = tuple(d.name for d in program.parameters if d.name not in written)
    coordinates = "\n    ".join(written.values())
    code = weighted.density_code
    start = _block(code, r"(?<!transformed\s)\bdata\s*\{")
    end = _closing(code, _block(code, r"\bmodel\s*\{"))
    data, term = _ASKED.format(**names), ""
    if written:
        for stem, declared in _DATA.items():
            data += f" {declared.format(count=len(written), **names)} {names[stem]};"
        lifts = () if likelihood is None else likelihood.lifted
        computed = [s for lift in lifts for s in lift.statements]
        lifted = f"{printer.statements(computed, depth=2)}\n" if computed else ""
        term = _TERM.format(lifted=lifted, coordinates=coordinates, **names)
    generated = _generated(weighted, names["log_lik"])
    if likelihood is not None:
        left_out = ()
        local = printer.statements(likelihood.local)
        generated += _VALUES.format(local=local, coordinates=coordinates, **names)
    generated = f"generated quantities {{\n{generated}}}\n"
    parts = (code[:start], data, code[start:end], term, code[end:], generated)
    read = parameters_read(weighted) if likelihood is None else written.keys()
    seen_by_rows = tuple(name for name in written if name in read)
    return Controlled("".join(parts), tuple(written), left_out, names, seen_by_rows, likelihood)


def _generated(weighted: WeightedProgram, asked: str) -> str:
    """Generated quantities: log likelihoods if data `asked` for them, from unconstrained locals."""
    name, body = weighted.log_lik, []
    log_lik: n.Decl | None = None
    for s in needed(weighted.program.tree.generated_quantities, {name}):
        if not isinstance(s, n.Decl):
            body.append(s)
        elif s.name != name:
            body.append(replace(s, constraint=n.Constraint()))
        else:
            log_lik = s
            if s.value is not None:
                body.append(n.Assign(n.Var(name), "=", s.value))
    if log_lik is None:
        raise ProgramError(f"the program has no `{name}` in generated quantities")
    rows = (n.Ternary(n.Var(asked), log_lik.size.dims[0], n.IntLit("0")),)
    size = log_lik.size
    size = replace(size, array=rows) if size.array else replace(size, sizes=rows)
    declared = n.Decl(name, size)
    only = n.If(n.Var(asked), n.Block(tuple(body)))
    return f"{printer.statements((declared, only))}\n"


_ASKED = " int<lower=0, upper=1> {log_lik}; int<lower=0, upper=1> {seen};"
_VALUES = """\
  vector[{seen} ? {size} : 0] {values};
  if ({seen}) {{
    vector[{size}] {psi};
    {local}
    {coordinates}
    {values} = {psi};
  }}
"""
_TERM = """
  if ({size} > 0) {{
    // the control variate: what the rows lack of the log likelihood up to second order
{lifted}    vector[{size}] {psi};
    {coordinates}
    {psi} -= {centre};
    vector[{rank}] {bent} = square(({axes} * {psi} - {offset}) ./ {width});
    target += dot_product({gradient} - 0.5 * {diagonal} .* {psi}, {psi})
              + 0.5 * dot_product({curvature} .* square({width}),
                                  expm1(-{bent} .* (1 + {bent} .* (0.5 + {bent} / 3))));
    if ({shared_size} > 0) target += -dot_product({psi}[{shared}], {cross} * {psi});
    if ({pairs_size} > 0) target += -dot_product({mixed}, {psi}[{first}] .* {psi}[{second}]);
  }}
"""


def _block(code: str, pattern: str) -> int:
    """Position behind the opening brace of a block."""
    found = re.search(pattern, without_comments(code))
    if found is None:
        raise ProgramError("the program has no data or no model block to add a term to")
    return found.end()


def _closing(code: str, start: int) -> int:
    """Position of the brace that closes the block that opens at `start`."""
    depth = 1
    for brace in re.finditer(r"[{}]", without_comments(code)[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return start + brace.start()
    raise ProgramError("the braces of the model block do not match")
