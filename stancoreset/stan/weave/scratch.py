"""Values that a pass of the loop over rows finds in variables declared outside the loop.

A variable that the loop assigns holds a value of the previous row until the pass has written it:
reading it before that makes rows depend on each other. A container declared outside
``for (n in 1:N)`` is scratch paper if every pass writes the same elements of it before it reads
them: one by one, in a loop with the same passes for every row, or in both branches of a condition.
Then nothing of an earlier observation is left in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from zlib import crc32

from stancoreset.stan.data import Scope, evaluate_int
from stancoreset.stan.syntax import (
    assigned_names,
    bare,
    declarations,
    index_name,
    name_of,
    names_in,
    single,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.accumulators import added
from stancoreset.stan.weave.domain import UNSET, Dep, coupled, rowwise

_ALL, _SOME = "all of it", "some of it"
Parts = frozenset[str]


def found_by_rows(
    body: n.Stmt, env: Mapping[str, Dep], program: n.Program
) -> tuple[dict[str, Dep], frozenset[str]]:
    """Dependences that a pass of the loop over rows finds in variables set outside.

    They are dependences of variables that the loop assigns, until the pass has written them, and
    the variables that the loop does nothing to but add.
    """
    found: dict[str, Dep] = {}
    adding = set()
    for name in sorted(assigned_names(body) & env.keys()):
        writes = [s for s in n.find_all(body, n.Assign) if name in assigned_names(s)]
        axes = [_row_axis(s, env) for s in writes]
        if None not in axes:  # each row has its entry, and must not read those of others
            if env[name].kind == "unset" or (env[name].kind == "free" and env[name].axis < 0):
                found[name] = rowwise(axes[0] or 0)
            continue
        # `lp += f(row)` only adds up, unless what it adds up is read in the loop too.
        own = sum(_mentions(s, name) for s in writes)
        if all(added(s) is not None for s in writes) and _mentions(body, name) == own:
            adding.add(name)
            continue
        stale = coupled(
            f"`{name}` keeps a value of the previous observation for the next one, like the "
            "state of a time series or a hidden Markov model: rows depend on each other",
            f"if each row has a state of its own, declare `{name}` inside the loop over rows and "
            "set it there before it is read; if there are many series, make each series one row",
        )
        if any(_ahead(s, env) for s in writes):
            stale = coupled(
                f"`{name}` is given to the next observation by this one, which has it from those "
                "before, as in a moving average: rows depend on all rows before them",
                "a moving average (brms: `ma()`, `arma()`) cannot be weighted by rows, an "
                "autoregression (`ar()`) can; if there are many series, make each series one row",
            )
        parts = any(isinstance(s.target, n.Index) for s in writes)
        left_over = parts and _leaves_part(body, name, env, program)
        found[name] = replace(stale, stale=not left_over)
    return found, frozenset(adding)


def _mentions(node: n.Node, name: str) -> int:
    return sum(v.name == name for v in n.find_all(node, n.Var))


def _row_axis(s: n.Assign, env: Mapping[str, Dep]) -> int | None:
    """Which index of ``mu[k, n] = …`` is the row; None if none is."""
    for axis, i in enumerate(getattr(s.target, "indices", ())):
        if env.get(index_name(i), UNSET).number:
            return axis
    return None


def _ahead(s: n.Assign, env: Mapping[str, Dep]) -> bool:
    """Whether an assignment is to a row after, ``h[n + 1, i] = …``."""
    places = (single(i) for i in getattr(s.target, "indices", ()))
    return any(
        isinstance(place, n.Binary)
        and place.op == "+"
        and env.get(name_of(bare(place.left)), UNSET).number
        for place in places
    )


def _leaves_part(body: n.Stmt, name: str, env: Mapping[str, Dep], program: n.Program) -> bool:
    """Whether a row may read what earlier rows wrote into a container declared outside.

    `h[k[n]] = …`, or `h[j] = …` in a loop to `k[n]`: what earlier observations wrote
    elsewhere in it stays. Writing all of it first is another matter.
    """
    changing = assigned_names(body)
    fixed = {v for v, dep in env.items() if dep.kind == "free" and v not in changing}
    sizes = {
        d.size.dims
        for d in declarations(program.transformed_parameters, program.model)
        if d.name == name
    }
    return carries_over(body, name, fixed, sizes.pop() if len(sizes) == 1 else ())


def carries_over(body: n.Stmt, name: str, fixed: set[str], sizes: tuple[n.Expr, ...] = ()) -> bool:
    """Whether a pass through `body` may read an element of `name` that an earlier pass wrote.

    Variables that are `fixed` have the same value in every pass; `sizes` are the container's own.
    """
    first = _Passes(name, sizes, _targets(body, name))
    surely = first.run(body, frozenset(), fixed)
    all_of_it = _ALL in surely or first.written <= surely
    second = _Passes(name, sizes, first.targets, first.written, all_of_it)
    second.run(body, frozenset(), fixed)
    return second.carried


@dataclass
class _Passes:
    """Elements that passes write and read, known by the text of their index, ``[1]``."""

    name: str
    sizes: tuple[n.Expr, ...]
    targets: list[tuple[n.Indexing, ...]]  # the indices of all that the body writes
    every: Parts | None = None  # all that the body writes, if that is known already
    surely: bool = False  # whether every pass writes all of that
    written: Parts = frozenset()
    carried: bool = False
    loops: tuple[str, ...] = ()  # variables of the loops around

    def run(self, s: n.Stmt | None, done: Parts, fixed: set[str], looped: bool = False) -> Parts:
        """Elements that are surely written after `s`, if `done` were before it."""
        match s:
            case n.Block(body=statements) | n.Profile(body=statements):
                for x in statements:
                    done = self.run(x, done, fixed, looped)
            case n.If(condition=condition, yes=yes, no=no):
                self.read(condition, done, looped)
                one, other = (self.run(x, done, fixed, looped) for x in (yes, no))
                done = one if _ALL in other else other if _ALL in one else one & other
            case n.For(name=k, lower=lower, upper=upper, body=body):
                self.read(lower, done, looped)
                self.read(upper, done, looped)
                leaves = any(n.find_all(body, n.Break, n.Continue))
                steady = names_in(lower) | names_in(upper) <= fixed and not leaves
                before, self.written = self.written, frozenset()
                writes = self.name in assigned_names(body)
                self.loops = (*self.loops, k)
                inside = self.run(body, done, fixed | {k} if steady else fixed, looped or writes)
                self.loops = self.loops[:-1]
                span = f"{text(lower)}:{text(upper)}"
                self.written = before | _over(self.written, k, span)
                done = self.whole(done | _over(inside, k, span)) if steady else done
            case n.ForEach(sequence=e, body=body) | n.While(condition=e, body=body):
                self.read(e, done, looped)
                self.run(body, done, fixed, looped)
            case n.Assign(target=target, op=op, value=value):
                self.read(value, done, looped)
                mine = self.name in assigned_names(s)
                for part in n.children(target) if mine and op == "=" else (target,):
                    if not (isinstance(part, n.Var) and part.name == self.name):
                        self.read(part, done, looped)
                if mine:
                    written = _part(target, fixed)
                    self.written |= {written}
                    done = self.whole(done | {written} - {_SOME})
            case None:
                pass
            case _:
                self.read(s, done, looped)
        return done

    def whole(self, done: Parts) -> Parts:
        """`done`, marked as the whole container if it has every element."""
        sizes = [text(size) for size in self.sizes]
        elements = {f"[{', '.join(f'1:{size}' for size in sizes)}]"}
        if len(sizes) == 1 and sizes[0].isdigit() and not elements <= done:
            elements = {f"[{k + 1}]" for k in range(int(sizes[0]))}
        return done | {_ALL} if sizes and elements <= done else done

    def read(self, e: n.Node, done: Parts, looped: bool) -> None:
        """Note whether `e` reads what may not have been written."""
        if self.every is None or _ALL in done or self.every <= done:
            return
        base, indices = _indexed(e)
        if indices and isinstance(base, n.Var) and base.name == self.name:
            for i in indices:
                self.read(i, done, looped)
            # A recursion over elements, `h[t] = f(h[t - 1])`, starts from one that is written.
            # After a loop, which of the elements that it wrote is read is not told apart.
            loops = (looped and done and self.earlier(indices)) or any(":" in p for p in done)
            if _text(indices) not in done and not (self.surely and loops):
                self.carried = True
        elif isinstance(e, n.Var):
            self.carried |= e.name == self.name
        else:
            for child in n.children(e):
                self.read(child, done, looped)

    def earlier(self, indices: tuple[n.Indexing, ...]) -> bool:
        """Whether a loop around wrote the element at `indices` some passes ago."""
        return any(
            _places(read, k, 0) & {x for ago in (1, 2, 3) for x in _places(wrote, k, -ago)}
            for target in self.targets
            for read, wrote in zip(indices, target, strict=False)
            for k in names_in(wrote) & set(self.loops)
        )


def _places(index: n.Indexing, loop: str, shift: int) -> set[int]:
    """The last element that an index picks, in pass 50 of a loop or `shift` passes from it."""
    last = getattr(index, "index", None) or getattr(index, "upper", None)
    if last is None:
        return set()
    values = {name: crc32(name.encode()) for name in names_in(last)} | {loop: 50 + shift}
    found = evaluate_int(Scope(values), last)
    return set() if found is None else {found}


def _targets(body: n.Stmt, name: str) -> list[tuple[n.Indexing, ...]]:
    """The indices of all elements of `name` that `body` assigns to."""
    found = [_indexed(s.target) for s in n.find_all(body, n.Assign)]
    return [indices for base, indices in found if isinstance(base, n.Var) and base.name == name]


def _indexed(e: n.Node) -> tuple[n.Node, tuple[n.Indexing, ...]]:
    """`h` and all the indices of ``h[t][k]``."""
    indices: tuple[n.Indexing, ...] = ()
    while isinstance(e, n.Index):
        indices = (*e.indices, *indices)
        e = e.base
    return e, indices


def _part(target: n.Expr, fixed: set[str]) -> str:
    base, indices = _indexed(target)
    if not isinstance(base, n.Var) or not all(names_in(i) <= fixed for i in indices):
        return _SOME
    return _text(indices) if indices else _ALL


def _text(indices: tuple[n.Indexing, ...]) -> str:
    return text(n.Index(n.Var(""), tuple(indices)))


def _over(parts: Parts, k: str, span: str) -> Parts:
    """The parts that a loop over `k` wrote in all of its passes."""
    return frozenset(p if p in (_ALL, _SOME) else re.sub(rf"\b{k}\b", span, p) for p in parts)
