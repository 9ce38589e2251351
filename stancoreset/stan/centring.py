"""Effects of groups as NUTS may move them: centred where the program scales raw ones, or raw.

Effects are often written as r = s z with z ~ normal(0, 1). Where the rows know r well, s and z meet
on a narrow curved ridge z = r / s, along which NUTS goes in hundreds of steps. In c = s z it does
not exist; where the rows know little of r, s and c meet in a funnel, and something between the two
may be best. `centring` makes c = s^λ z a parameter in place of z, with exponents λ as data:

    parameters { vector[K] c; real<lower=0> s; }
    transformed parameters { vector[K] z = c; if (centred[1] > 0) z = c / s^centred[1]; … }
    model { … if (centred[1] > 0) target += -centred[1] * K * log(s); }

The program itself computes from z what it always did, so this is a change of variables and no
other model, whatever its prior of z; what it gains is for draws to say. For the factors s see
`stancoreset.stan.scaled`. Effects that are parameters themselves, a ~ normal(m, s), are moved the
other way, see `stancoreset.stan.located`.

Means of scaled effects may be swept into parameters beside which the rows see them, see
`stancoreset.stan.sweeping`; in what follows these are φ'.

Effects of both kinds, and vectors of parameters that are neither, may also be shifted by other
parameters, see `stancoreset.stan.shifts`: c = s^λ z + Σ_q A_q φ_q, and c = a + Σ_q A_q φ_q.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stancoreset.stan.located import Located, located
from stancoreset.stan.scaled import Effects, place_of, scaled_effects
from stancoreset.stan.shifts import (
    NOT_SHIFTED,
    Amount,
    Shift,
    Shifted,
    Shifts,
    Source,
    indexed,
    is_free,
    own_mean,
    regression,
    weights_of,
)
from stancoreset.stan.sweeping import Sweep, Sweeps, carriers, sweeps_of
from stancoreset.stan.syntax import Names, printer
from stancoreset.stan.syntax import nodes as n

Float = NDArray[np.float64]

# What the names of shifts and of their sizes begin with.
_NAMES = ("shift", "shift_rows", "shift_columns", "shift_weights", "shift_weighted")


Movable: TypeAlias = Effects | Located | Shifted


@dataclass(frozen=True)
class Centring:
    """A program that moves effects, by exponents in its data."""

    code: str = field(repr=False)
    # The program of the same data whose generated quantities are located effects as they are moved,
    # at its own parameters.
    there: str = field(repr=False)
    scaled: tuple[Effects, ...]
    located: tuple[Located, ...]
    # What can be moved: the last ones, vectors of parameters, by shifts alone.
    others: tuple[Shifted, ...]
    asked: str  # name of the exponents in the data, one for each of `effects`
    names: Mapping[str, str]  # the parameter that stands for each one whose effects can be moved
    # All that there are: of scaled effects as they are centred, of others as they are.
    shifts: tuple[Shift, ...] = ()
    sweeps: tuple[Sweep, ...] = ()

    @property
    def effects(self) -> tuple[Movable, ...]:
        """Effects that can be moved, in the order of their exponents."""
        return (*self.scaled, *self.located, *self.others)

    def data(
        self,
        exponents: Sequence[float],
        shifts: Shifts = MappingProxyType({}),
        sweeps: Sweeps = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Data that move `effects`; those with exponent 0 stay."""
        found: dict[str, Any] = {self.asked: np.array(exponents, dtype=np.float64)}
        for sweep in self.sweeps:
            found |= sweep.data(sweeps)
        for one in self.shifts:
            found |= one.data(shifts.get((one.number, one.by.name), NOT_SHIFTED))
        return found

    def sweeps_of(self, values: Mapping[str, Float]) -> Sweeps:
        """The sweeps of means that draws' `values` (S, *shape) by name ask for."""
        return sweeps_of(self.sweeps, values)

    def shift_of(
        self,
        number: int,
        values: Mapping[str, Float],
        exponents: Sequence[float],
        shifts: Shifts,
        there: Mapping[str, Float] = MappingProxyType({}),
        sweeps: Sweeps = MappingProxyType({}),
    ) -> Shifts:
        """Shifts of some effects by a regression on all φ, of draws (S, *shape).

        Only scaled effects are shifted as they are centred, and no others; others have none where
        they are centred. For the other arguments see `moved`.
        """
        own = [one for one in self.shifts if one.number == number]
        if not own or (number < len(self.scaled)) != bool(exponents[number]):
            return {}
        earlier = {key: amount for key, amount in shifts.items() if key[0] < number}
        found = self.moved(values, exponents, earlier, there, sweeps)
        here = self._centred(number, self._swept(values, sweeps), exponents[number], sweeps)
        flat, kind = here.reshape(len(here), -1), own[0].effects.kind(here.shape[1:])
        others = [one.by for one in own if not one.by_own_mean]
        weights = {by.name: self._weights(by, found) for by in others}
        sources = {by.name: self._source(by, found, weights[by.name]) for by in others}
        slopes = regression(flat, kind, sources)
        amounts = {name: Amount(matrix, weights[name]) for name, matrix in slopes.items()}
        left = flat + sum(sources[name] @ matrix.T for name, matrix in slopes.items())
        for one in own:
            if one.by_own_mean and (by := own_mean(left, kind)) is not None:
                amounts[one.by.name] = by
        return {(number, name): amount for name, amount in amounts.items()}

    def moved(
        self,
        values: Mapping[str, Float],
        exponents: Sequence[float],
        shifts: Shifts = MappingProxyType({}),
        there: Mapping[str, Float] = MappingProxyType({}),
        sweeps: Sweeps = MappingProxyType({}),
    ) -> dict[str, Float]:
        """Parameters (S, *shape) by name, with c of effects in place of z or a, and each φ'.

        Of located effects that are centred c is what the program `there` gives.
        """
        values = self._swept(values, sweeps)
        found = {**values, **there}
        for number, exponent in enumerate(exponents):
            own = [x for x in self.shifts if (number, x.by.name) in shifts and x.number == number]
            if own or (exponent and number < len(self.scaled)):
                place = self.effects[number].shifted
                assert place is not None
                if found[place.name] is values[place.name]:
                    found[place.name] = np.array(values[place.name])
                c = found[place.name][place_of(place.part)]
                c[...] = self._centred(number, values, exponent, sweeps)
                for one in reversed(own):  # the first of the program's statements is the last here
                    matrix, weights = shifts[number, one.by.name]
                    if one.by_own_mean:
                        matrix = matrix @ np.linalg.inv(np.eye(len(weights)) - weights @ matrix)
                    c += (self._source(one.by, found, weights) @ matrix.T).reshape(c.shape)
        return found

    def _source(self, by: Source, moved: Mapping[str, Float], weights: Float) -> Float:
        """Values of φ, (S, q), where effects that come before have moved."""
        if by.number is None:
            return moved[by.name].reshape(len(moved[by.name]), -1)
        return self._flat(by.number, moved)[0] @ weights.T

    def _weights(self, by: Source, moved: Mapping[str, Float]) -> Float:
        """The weights of effects in their means; of a parameter there are none."""
        if by.number is None:
            return np.empty((0, 0))
        return weights_of(*self._flat(by.number, moved))

    def _flat(self, number: int, moved: Mapping[str, Float]) -> tuple[Float, NDArray[np.intp]]:
        """Effects by their number, (S, d), and their kinds, (d,)."""
        effects = self.effects[number].shifted
        assert effects is not None
        value = moved[effects.name][place_of(effects.part)]
        return value.reshape(len(value), -1), effects.kind(value.shape[1:])

    def _centred(
        self, number: int, values: Mapping[str, Float], exponent: float, sweeps: Sweeps
    ) -> Float:
        """Scaled effects without shifts; others as they are."""
        if number >= len(self.scaled):
            return values[self.effects[number].name]
        if not exponent:
            return self.scaled[number].raw(values)
        own = next((one for one in self.sweeps if one.number == number), None)
        if own is None:
            return self.scaled[number].moved(values, exponent)
        return own.centred(values, exponent, sweeps)

    def _swept(self, values: Mapping[str, Float], sweeps: Sweeps) -> Mapping[str, Float]:
        """Values with φ' in place of each φ."""
        if not sweeps:
            return values
        found = dict(values)
        for one in self.sweeps:
            for name, more in one.swept(values, sweeps).items():
                found[name] = found[name] + more
        return found


def centring(program: n.Program) -> Centring | None:
    """The program that can move its effects; None if it has none.

    >>> from stancoreset.stan.syntax import parse
    >>> code = '''
    ... parameters { array[1] vector[3] z_1; vector<lower=0>[1] sd_1; }
    ... transformed parameters { vector[3] r = sd_1[1] * z_1[1]; }
    ... model { z_1[1] ~ std_normal(); }'''
    >>> [(e.name, e.part) for e in centring(parse(code)).effects]
    [('z_1', (1,))]
    """
    scaled = tuple(scaled_effects(program))
    around = located(program, {e.name for e in scaled})
    centred = {e.name for e in scaled} | {e.name for e in around}
    free = [d for d in program.parameters if d.name not in centred and is_free(d)]
    vectors = [d for d in free if d.size.base == "vector" and d.constraint.kind == "none"]
    # Numbers shift all, and vectors that numbers shift all but one another; the mean of effects
    # shifts these and those that come after, except vectors, by which it is shifted itself.
    numbers = [d for d in free if d not in vectors]
    others = tuple(Shifted(d.name, (), "vector") for d in vectors if numbers)
    effects: tuple[Movable, ...] = (*scaled, *around, *others)
    if not effects:
        return None
    names = Names(program)
    asked = names.fresh("centred")
    into = carriers(program, free)
    sweeps = [Sweep.of(i, e, into, names) for i, e in enumerate(scaled) if into and e.has_means]
    changing = {e.name for e in effects} | {d.name for one in sweeps for d in one.into}
    exponents = [indexed(asked, (i + 1,)) for i in range(len(effects))]
    moved = {d.name: d for d in program.parameters if d.name in changing}
    new = {name: names.fresh(f"{name}_centred") for name in moved}
    declared = [
        replace(d, constraint=n.Constraint(), value=n.Var(new[name])) for name, d in moved.items()
    ]
    pairs = [
        *(one.spread(exponents[one.number]) for one in sweeps),
        *(e.statements(x) for e, x in zip(scaled, exponents, strict=False)),
    ]
    behind = list(zip(around, exponents[len(scaled) :], strict=False))

    def prior(node: n.Node) -> n.Node | None:
        return next((e.moved_prior(x, new[e.name]) for e, x in behind if node == e.prior), None)

    shifts = [
        Shift(i, what, by, *(names.fresh(f"{part}_{i + 1}_{by.name}") for part in _NAMES))
        for i, one in reversed(list(enumerate(effects)))
        if (what := one.shifted) is not None
        for by in (
            *(() if one in others else _means(effects[: i + 1])),
            *(Source.parameter(d) for d in (*numbers, *(() if one in others else vectors))),
        )
    ]
    bounds = n.Constraint("bounds", n.IntLit("0"), n.IntLit("1"))
    size = n.SizedType("real", (n.IntLit(str(len(effects))),))
    data = (*program.data, n.Decl(asked, size, bounds))
    changed = replace(
        program,
        data=(
            *data,
            *(d for shift in shifts for d in shift.declarations),
            *(d for sweep in sweeps for d in sweep.declarations),
        ),
        parameters=tuple(replace(d, name=new.get(d.name, d.name)) for d in program.parameters),
        transformed_parameters=(
            *declared,
            *(shift.back for shift in shifts),
            *(back for back, _ in pairs),
            *(back for one in sweeps for back in one.back),
            *(e.back(x) for e, x in behind),
            *program.transformed_parameters,
        ),
        model=(
            *(n.transform(s, prior) for s in program.model),
            *(jacobian for _, jacobian in pairs),
        ),
    )
    there = replace(
        program,
        data=data,
        transformed_parameters=(),
        model=(),
        generated_quantities=(
            *(replace(moved[e.name], name=new[e.name], value=n.Var(e.name)) for e in around),
            *(e.there(x, new[e.name]) for e, x in behind),
        ),
    )
    return Centring(
        code=printer.program(changed),
        there=printer.program(there),
        scaled=scaled,
        located=around,
        others=others,
        asked=asked,
        names=new,
        shifts=tuple(shifts),
        sweeps=tuple(sweeps),
    )


def _means(effects: Sequence[Movable]) -> Iterator[Source]:
    """The means of each of some effects, the last ones' first; a vector of kinds has none."""
    for i, one in reversed(list(enumerate(effects))):
        if (what := one.shifted) is not None and (what.kinds is None or what.base == "matrix"):
            yield Source.mean(i, what)
