"""Functions that add to the log density, written out where they are called.

``reduce_sum(f, x, grainsize, s…)`` adds up ``f(x[start:end], start, end, s…)`` over slices of x.
One slice may hold all of x, so the call is worth ``f(x, 1, size(x), s…)``. The statements of f
stand in place of the call here, as if no thread had been asked for. brms writes such programs for
``threads``:

    real partial_log_lik_lpmf(array[] int seq, int start, int end, data vector Y, …) {
      int N = end - start + 1;                                     // the number of all rows
      vector[N] mu = rep_vector(0.0, N);
      for (n in 1:N) { int nn = n + start - 1; mu[n] += r_1[J_1[nn]]; }      // nn is n
      return normal_lpdf(Y[start:end] | mu, sigma);                          // Y[start:end] is Y
    }

A function that is given all rows, and increments the target or returns a sum of log densities, can
be written out in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from stancoreset.stan.syntax import (
    Names,
    assigned_names,
    bare,
    constants,
    names_in,
    renamed,
    sizes_of,
    substituted,
    without_declarations,
)
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft
from stancoreset.stan.weave.integers import plain_sum
from stancoreset.stan.weave.library import DENSITIES, THREADED, normalised_name, suffix
from stancoreset.stan.weave.sampling import density_call

_Call = n.Call | n.VoidCall


def without_partial_sums(draft: Draft) -> Draft:
    """Partial sums stand for ``reduce_sum``, unless its function returns from several places."""
    return draft.of(_written_out(draft.program, lambda call: call.name in THREADED))


def without_densities(draft: Draft, *, in_loops: bool = True, deepest: int = 5) -> Draft:
    """The program's own functions of log densities and increments are written out.

    A call stays where its function returns from more than one place; so does one that is reached
    through more than `deepest` calls, as a recursion is; and one in a loop, unless `in_loops`.
    """
    adding = {
        f.name
        for f in draft.program.functions
        if f.body is not None and (_adds(f.body) or _of_containers(f))
    }
    program = _with_calls(draft.program, adding)
    for _ in range(deepest):
        found = _written_out(program, lambda call: call.name in adding, in_loops=in_loops)
        if found is program:
            break
        program = found
    return draft.of(program)


def _with_calls(program: n.Program, functions: Container[str]) -> n.Program:
    """The program with ``y ~ f(s)`` as ``target += f_lpdf(y | s)``, for `functions` of its own."""

    def change(s: n.Node) -> n.Node | None:
        if not isinstance(s, n.Tilde) or s.truncated:
            return None
        value = density_call(s, functions)
        return n.TargetAdd(value, line=s.line, origin=s.as_written) if value.user else None

    model = tuple(n.transform(s, change) for s in program.model)
    return program if model == program.model else replace(program, model=model)


def called(name: str, types: Sequence[n.Type], functions: Sequence[n.FunDef]) -> n.FunDef | None:
    """The function that `name` means for arguments of these types; None if that is not clear."""
    found = [f for f in functions if f.name == name and f.body is not None]
    exact = [f for f in found if [p.type for p in f.parameters] == [*types]]
    found = exact if len(found) > 1 else found
    return found[0] if len(found) == 1 else None


def _written_out(
    program: n.Program, wanted: Callable[[_Call], bool], *, in_loops: bool = True
) -> n.Program:
    blocks = (program.transformed_parameters, program.model)
    if not any(map(wanted, n.find_all((*blocks[0], *blocks[1]), n.Call, n.VoidCall))):
        return program
    # The target may be incremented in the model block alone, but for functions that do so.
    inline = _Inline(program, lambda call: wanted(call) and call.name[-3:] != "_lp", in_loops)
    parameters = inline.statements(blocks[0])
    inline.wanted = wanted
    model = inline.statements(blocks[1])
    if not inline.done:
        return program
    written = replace(program, transformed_parameters=parameters, model=model)
    return _without_unused(written, inline.done)


def _of_containers(f: n.FunDef) -> bool:
    """Whether a function is the density of a container, computed by hand."""
    return suffix(f.name)[1] in DENSITIES and f.parameters[0].type.rank > 0


def _adds(body: n.Stmt) -> bool:
    """Whether a function increments the target, or computes with log densities."""
    return any(
        isinstance(x, n.Increment)
        or (isinstance(x, _Call) and (suffix(x.name)[1] in DENSITIES or x.name.endswith("_lp")))
        for x in n.walk(body)
    )


class _Inline:
    """Writes the statements of functions where the calls that are `wanted` stand."""

    def __init__(self, program: n.Program, wanted: Callable[[_Call], bool], in_loops: bool) -> None:
        self.wanted = wanted
        self.in_loops = in_loops
        self.functions = [f for f in program.functions if f.body is not None]
        self.names = Names(replace(program, functions=()))
        self.done: list[n.FunDef] = []
        top = (*program.known, *program.parameters, *program.transformed_parameters)
        self.declared = {d.name: d for d in top if isinstance(d, n.Decl)}
        numbers = (s.number for s in n.find_all(program, n.Statement))
        self.numbers = count(1 + max(numbers, default=0))

    def calls(self, node: n.Node) -> list[n.Call]:
        """Calls below `node` that are evaluated whenever it is."""
        if isinstance(node, n.Ternary) or (isinstance(node, n.Binary) and node.op in ("&&", "||")):
            return []
        own = [node] if isinstance(node, n.Call) and self.wanted(node) else []
        return own + [call for child in n.children(node) for call in self.calls(child)]

    def statements(self, body: Iterable[n.Stmt]) -> tuple[n.Stmt, ...]:
        """Write out the calls in several statements."""
        return tuple(new for s in body for new in self.statement(s))

    def statement(self, s: n.Stmt) -> tuple[n.Stmt, ...]:
        """Write out the calls in one statement; return the statements that replace it."""
        match s:
            case n.For() | n.ForEach() | n.While() if not self.in_loops:
                return (s,)
            case _ if n.parts(s):
                return (n.with_parts(s, self.statements),)
            case n.Decl(value=value) if value is not None and self.calls(value):
                later = n.Assign(n.Var(s.name, type=s.type), "=", value, line=s.line)
                return (replace(s, value=None), *self.statement(later))
            case n.VoidCall() if self.wanted(s):
                written = self.written(s)
                return (s,) if written is None else (n.Block(written[0], line=s.line),)
        before: list[n.Stmt] = []
        for call in self.calls(s):
            written = self.written(call)
            if written is not None:
                before += written[0]
                value = written[1]
                assert value is not None  # of a function that is called for its value
                s = _with(s, call, value)
        return (n.Block(_added_at_once((*before, s)), line=s.line),) if before else (s,)

    def written(self, call: _Call) -> tuple[tuple[n.Stmt, ...], n.Expr | None] | None:
        """The statements of a call's function, and the value that it returns."""
        given: tuple[n.Expr, ...] = call.args
        name = call.name
        if call.name in THREADED:  # one slice that is all rows
            first, rows, _, *shared = call.args
            assert isinstance(first, n.Var)
            given, name = (rows, n.ONE, self.length(rows), *shared), first.name
        function = called(normalised_name(name), [a.type for a in given], self.functions)
        if function is None or not isinstance(function.body, n.Block):
            return None
        body = function.body.body
        returns = [*n.find_all(function.body, n.Return)]
        if returns != [s for s in body[-1:] if isinstance(s, n.Return)]:
            return None
        self.done.append(function)
        names: dict[str, n.Expr] = {}
        held: list[n.Stmt] = []  # vectors that each pass of a loop would compute again
        again = names_in(n.find_all(function.body, n.For, n.ForEach, n.While))
        for p, a in zip(function.parameters, given, strict=True):
            names[p.name] = a
            if (
                p.name in again
                and a.type.rank == 1
                and not a.type.array
                and not isinstance(bare(a), n.Var)
            ):
                own = n.Var(self.names.fresh(p.name), type=a.type)
                size = n.transform(n.SizedType(a.type.base, sizes=(_length(a),)), self.shorter)
                held.append(n.Decl(own.name, size, value=a))
                names[p.name] = own
        taken = {s.name for s in n.find_all(body, n.Decl, n.For, n.ForEach)} & self.names.used
        body = renamed(body, {name: self.names.fresh(name) for name in sorted(taken)})
        inner = (*held, *self.settled(body, names))
        value = inner[-1].value if returns and isinstance(inner[-1], n.Return) else None
        kept = inner[:-1] if returns else inner
        return tuple(map(self.numbered, kept)), value

    def length(self, rows: n.Expr) -> n.Expr:
        """The number of rows: the declared one where `rows` is a variable."""
        if isinstance(rows, n.Var) and rows.name in self.declared:
            return self.declared[rows.name].size.dims[0]
        return n.Call("size", (rows,), type=n.INT)

    def settled(self, body: Sequence[n.Stmt], names: Mapping[str, n.Expr]) -> tuple[n.Stmt, ...]:
        """`body` with values for `names`, and for integers that are then the same as another."""
        body = tuple(substituted(s, names) for s in body)
        body = tuple(n.transform(s, self.shorter) for s in body)
        aliases = _aliases(body)
        if not aliases:
            return body
        return self.settled(without_declarations(body, aliases), aliases)

    def shorter(self, node: n.Node) -> n.Node | None:
        """``n + 1 - 1`` as n, and ``Y[1:N]`` as Y where Y has N rows."""
        if isinstance(node, n.Binary) and node.type == n.INT:
            return plain_sum(node)
        if isinstance(node, n.Call) and node.name in ("size", "num_elements", "rows"):
            return self.declared_size(node)
        if not (isinstance(node, n.Index) and isinstance(node.base, n.Var)):
            return None
        declaration = self.declared.get(node.base.name)
        if declaration is None:
            return None
        sizes = declaration.size.dims
        indices = tuple(
            n.All() if _is_all(i, size) else i for i, size in zip(node.indices, sizes, strict=False)
        )
        if all(isinstance(i, n.All) for i in indices):
            return node.base
        if indices == node.indices:
            return None
        return n.transform(replace(node, indices=indices), self.shorter)

    def declared_size(self, e: n.Call) -> n.Expr | None:
        """``size(y)`` as it is declared."""
        y = bare(e.args[0])
        sizes = sizes_of(y, self.declared) if isinstance(y, n.Var) else ()
        whole = e.name == "size" or y.type.rank == 1 or (e.name == "rows" and not y.type.array)
        known = sizes and whole and not (e.name == "rows" and y.type.base == "row_vector")
        return sizes[0] if known else None

    def numbered(self, s: n.Stmt) -> n.Stmt:
        """`s` with numbers of its own: a function may be called twice."""

        def below(x: n.Node) -> n.Node:
            return self.numbered(x) if isinstance(x, n.Statement) else x

        return n.with_children(replace(s, number=next(self.numbers)), below)


def _aliases(body: Sequence[n.Stmt]) -> dict[str, n.Expr]:
    """Integers that are another name or a number wherever they are declared, and stay so."""
    changed = assigned_names(body)
    return {
        name: d.value
        for name, d in constants(body).items()
        if d.type == n.INT and isinstance(d.value, n.Var | n.IntLit)
        if not names_in(d.value) & changed
    }


def _length(e: n.Expr) -> n.Expr:
    """The size of a vector, without computing it."""
    match bare(e):
        case n.Binary(left=left, op="*", right=right) if left.type.rank == 2:
            return n.call("rows", left, kind=n.INT)
        case n.Binary(left=left, right=right):
            return _length(left if left.type.rank else right)
        case n.Unary(arg=arg):
            return _length(arg)
    return n.call("num_elements", e, kind=n.INT)


def _with(s: n.Stmt, old: n.Expr, new: n.Expr) -> n.Stmt:
    return n.transform(s, lambda node: new if node is old else None)  # type: ignore[no-any-return]


def _added_at_once(body: tuple[n.Stmt, ...]) -> tuple[n.Stmt, ...]:
    """`body` with each part of a sum, ``lp += part;``, added to the target where it is computed.

    So it is if the sum is read only where it is added to the target, last of all.
    """
    *inner, last = body
    total = bare(last.value) if isinstance(last, n.TargetAdd) else None
    if not isinstance(total, n.Var):
        return body
    nodes = [*n.walk(inner)]
    mentions = [x for x in nodes if isinstance(x, n.Var) and x.name == total.name]
    parts: list[n.Decl | n.Assign] = [
        x for x in nodes
        if isinstance(x, n.Assign) and x.op == "+=" and any(x.target is v for v in mentions)
    ]  # fmt: skip
    start = [s for s in inner if isinstance(s, n.Decl) and s.name == total.name and s.value]
    if not start or len(mentions) != len(parts):
        return body
    if text(start[0].value or total) in ("0", "0.0"):
        inner = [s for s in inner if s is not start[0]]
    parts += start

    def change(node: n.Node) -> n.Node | None:
        for part in parts:
            if node is part and part.value is not None:
                return n.TargetAdd(part.value, line=part.line, number=part.number)
        return None

    return tuple(n.transform(s, change) for s in inner)


def _is_all(index: n.Indexing, size: n.Expr) -> bool:
    match index:
        case n.Between(lower, upper):
            return text(bare(lower)) == "1" and text(bare(upper)) == text(bare(size))
    return isinstance(index, n.All)


def _without_unused(program: n.Program, done: Sequence[n.FunDef]) -> n.Program:
    """`program` without those of the functions `done` that nothing calls any more."""
    left = [f for f in program.functions if not any(f is d for d in done)]
    kept = replace(program, functions=tuple(left))
    used = {x.name for x in n.find_all(kept, n.Call, n.Var, n.VoidCall)}
    return program if used & {f.name for f in done} else kept
