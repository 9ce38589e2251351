"""Calls of ``reduce_sum``, undone: the sum of all rows that its threads share out.

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
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from stancoreset.stan.syntax import Names, assigned_names, bare, names_in
from stancoreset.stan.syntax import expression as text
from stancoreset.stan.syntax import nodes as n

__all__ = ["THREADED", "without_partial_sums"]

THREADED = ("reduce_sum", "reduce_sum_static")
_INT = n.Type("int")
_ONE = n.IntLit("1", type=_INT, data_only=True)


def without_partial_sums(program: n.Program) -> n.Program:
    """The program with the statements of partial sums in place of calls of ``reduce_sum``.

    A call stays where its function returns from more than one place.
    """
    blocks = (program.transformed_parameters, program.model)
    if not any(_calls(s) for block in blocks for s in block):
        return program
    undo = _Undo(program)
    parameters, model = (tuple(new for s in block for new in undo.statement(s)) for block in blocks)
    undone = replace(program, transformed_parameters=parameters, model=model)
    return _without_unused(undone, undo.done)


def _calls(node: n.Node) -> list[n.Call]:
    return [e for e in n.walk(node) if isinstance(e, n.Call) and e.name in THREADED]


class _Undo:
    """Puts the statements of partial sums where they are called."""

    def __init__(self, program: n.Program) -> None:
        self.functions = [f for f in program.functions if f.body is not None]
        self.names = Names(replace(program, functions=()))
        self.done: list[n.FunDef] = []
        top = (*program.data, *program.transformed_data, *program.parameters,
               *program.transformed_parameters)  # fmt: skip
        self.declared = {d.name: d for d in top if isinstance(d, n.Decl)}
        self.numbers = count(1 + max((s.number for s in _statements(program)), default=0))

    def statement(self, s: n.Stmt) -> tuple[n.Stmt, ...]:
        """What stands for one statement."""
        match s:
            case n.Block(body=body) | n.Profile(body=body):
                return (replace(s, body=tuple(new for x in body for new in self.statement(x))),)
            case n.If(yes=yes, no=no):
                return (replace(s, yes=self.branch(yes), no=no and self.branch(no)),)
            case n.For(body=body) | n.ForEach(body=body) | n.While(body=body):
                return (replace(s, body=self.branch(body)),)
            case n.Decl(value=value) if value is not None and _calls(value):
                later = n.Assign(n.Var(s.name, type=s.type), "=", value, line=s.line)
                return (replace(s, value=None), *self.statement(later))
        before: list[n.Stmt] = []
        for call in _calls(s):
            undone = self.undone(call)
            if undone is not None:
                statements, value = undone
                before += statements
                s = _with(s, call, n.Paren(value, type=value.type))
        return (n.Block(_added_at_once((*before, s)), line=s.line),) if before else (s,)

    def branch(self, s: n.Stmt) -> n.Stmt:
        found = self.statement(s)
        return found[0] if len(found) == 1 else n.Block(found, line=s.line)

    def undone(self, call: n.Call) -> tuple[list[n.Stmt], n.Expr] | None:
        """Statements of the one slice that is all rows, and the value that they return."""
        function = self.function(call)
        if function is None or not isinstance(function.body, n.Block):
            return None
        *body, last = function.body.body
        returns = [s for x in body for s in n.walk(x) if isinstance(s, n.Return)]
        if returns or not isinstance(last, n.Return) or last.value is None:
            return None
        self.done.append(function)
        rows = call.args[1]
        given = (rows, _ONE, self.length(rows), *call.args[3:])
        names: dict[str, n.Expr] = {
            p.name: a if isinstance(a, n.Var | n.IntLit) else n.Paren(a, type=a.type)
            for p, a in zip(function.parameters, given, strict=True)
        }
        *inner, end = self.settled(self.renamed((*body, last)), names)
        assert isinstance(end, n.Return)
        assert end.value is not None
        return [self.numbered(s) for s in inner], end.value

    def function(self, call: n.Call) -> n.FunDef | None:
        """The partial sum that `call` names, if only one takes that many arguments."""
        first = call.args[0]
        assert isinstance(first, n.Var)
        name = first.name.replace("_lupmf", "_lpmf").replace("_lupdf", "_lpdf")
        found = [
            f for f in self.functions if f.name == name and len(f.parameters) == len(call.args)
        ]
        return found[0] if len(found) == 1 else None

    def length(self, rows: n.Expr) -> n.Expr:
        """The number of rows: the declared one where `rows` is a variable."""
        if isinstance(rows, n.Var) and rows.name in self.declared:
            return self.declared[rows.name].size.dims[0]
        return n.Call("size", (rows,), type=_INT, data_only=True)

    def renamed(self, body: Sequence[n.Stmt]) -> tuple[n.Stmt, ...]:
        """`body` with new names for its own variables where the program has such names."""
        own = {s.name for x in body for s in n.walk(x) if isinstance(s, n.Decl | n.For | n.ForEach)}
        new = {name: self.names.fresh(name) for name in sorted(own & self.names.used)}

        def change(node: n.Node) -> n.Node | None:
            match node:
                case n.Var(name=name) if name in new:
                    return replace(node, name=new[name])
                case n.Decl(name=name) | n.For(name=name) | n.ForEach(name=name) if name in new:
                    return n.transform(replace(node, name=new[name]), change)
            return None

        return tuple(n.transform(s, change) for s in body)

    def settled(self, body: Sequence[n.Stmt], names: Mapping[str, n.Expr]) -> tuple[n.Stmt, ...]:
        """`body` with values for `names`, and for integers that are then the same as another."""
        body = tuple(_substituted(s, names) for s in body)
        body = tuple(n.transform(s, self.shorter) for s in body)
        changed = set().union(*map(assigned_names, body))
        aliases = {
            d.name: d.value
            for s in body
            for d in n.walk(s)
            if isinstance(d, n.Decl) and d.type == _INT and d.name not in changed
            if isinstance(d.value, n.Var | n.IntLit)
        }
        if not aliases:
            return body
        kept = (_without_declarations(s, aliases.keys()) for s in body)
        return self.settled([s for s in kept if s is not None], aliases)

    def shorter(self, node: n.Node) -> n.Node | None:
        """``n + 1 - 1`` as n, and ``Y[1:N]`` as Y where Y has N rows."""
        if isinstance(node, n.Binary) and node.type == _INT:
            return _sum(node)
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

    def numbered(self, s: n.Stmt) -> n.Stmt:
        """`s` with numbers of its own: a function may be called twice."""
        own = replace(s, number=next(self.numbers))

        def change(node: n.Node) -> n.Node | None:
            if isinstance(node, n.Statement) and node is not own:
                return self.numbered(node)
            return None

        return n.transform(own, change)  # type: ignore[no-any-return]


def _statements(program: n.Program) -> Iterator[n.Statement]:
    return (s for s in n.walk(program) if isinstance(s, n.Statement))


def _with(s: n.Stmt, old: n.Expr, new: n.Expr) -> n.Stmt:
    return n.transform(s, lambda node: new if node is old else None)  # type: ignore[no-any-return]


def _substituted(s: n.Stmt, names: Mapping[str, n.Expr]) -> n.Stmt:
    def change(node: n.Node) -> n.Node | None:
        return names.get(node.name) if isinstance(node, n.Var) else None

    return n.transform(s, change)  # type: ignore[no-any-return]


def _without_declarations(s: n.Stmt, names: Container[str]) -> n.Stmt | None:
    """`s` without the declarations of `names`."""
    if isinstance(s, n.Decl) and s.name in names:
        return None

    def change(node: n.Node) -> n.Node | None:
        if not isinstance(node, n.Block):
            return None
        inner = (_without_declarations(x, names) for x in node.body)
        return replace(node, body=tuple(x for x in inner if x is not None))

    return n.transform(s, change)  # type: ignore[no-any-return]


def _added_at_once(body: tuple[n.Stmt, ...]) -> tuple[n.Stmt, ...]:
    """`body` with each part of a sum, ``lp += part;``, added to the target where it is computed.

    So it is if the sum starts from zero, and is read only where it is added to the target.
    """
    last = body[-1]
    total = bare(last.value) if isinstance(last, n.TargetAdd) else None
    starts = [
        d for d in body
        if isinstance(d, n.Decl) and isinstance(total, n.Var) and d.name == total.name
        if d.value is not None and text(d.value) in ("0", "0.0")
    ]  # fmt: skip
    if not (starts and isinstance(total, n.Var)):
        return body
    name, inner = total.name, tuple(s for s in body[:-1] if s is not starts[0])
    parts = [
        s
        for x in inner
        for s in n.walk(x)
        if isinstance(s, n.Assign) and s.op == "+=" and s.target == total
        if name not in names_in(s.value)
    ]
    mentions = [x for s in inner for x in n.walk(s) if isinstance(x, n.Var) and x.name == name]
    if len(mentions) != len(parts):
        return body

    def change(node: n.Node) -> n.Node | None:
        if not any(node is part for part in parts):
            return None
        assert isinstance(node, n.Assign)
        return n.TargetAdd(node.value, line=node.line, number=node.number)

    return tuple(n.transform(s, change) for s in inner)


def _is_all(index: n.Indexing, size: n.Expr) -> bool:
    match index:
        case n.Between(lower, upper):
            return text(bare(lower)) == "1" and text(bare(upper)) == text(bare(size))
    return isinstance(index, n.All)


def _sum(e: n.Binary) -> n.Expr | None:
    """A sum of integers that leaves one name or number; None for any other."""
    atoms: dict[str, tuple[n.Expr, int]] = {}
    constant = 0
    for atom, sign in _terms(e, 1):
        if isinstance(atom, n.IntLit):
            constant += sign * int(atom.text)
        else:
            atoms[text(atom)] = (atom, atoms.get(text(atom), (atom, 0))[1] + sign)
    left = [(atom, times) for atom, times in atoms.values() if times]
    if not left and constant >= 0:
        return n.IntLit(str(constant), type=_INT, data_only=True)
    return left[0][0] if len(left) == 1 and left[0][1] == 1 and not constant else None


def _terms(e: n.Expr, sign: int) -> Iterator[tuple[n.Expr, int]]:
    e = bare(e)
    if isinstance(e, n.Binary) and e.op in ("+", "-"):
        yield from _terms(e.left, sign)
        yield from _terms(e.right, sign if e.op == "+" else -sign)
    else:
        yield e, sign


def _without_unused(program: n.Program, done: Sequence[n.FunDef]) -> n.Program:
    """`program` without those of the functions `done` that nothing calls any more."""
    left = [f for f in program.functions if not any(f is d for d in done)]
    kept = replace(program, functions=tuple(left))
    used = {x.name for x in n.walk(kept) if isinstance(x, n.Call | n.Var | n.VoidCall)}
    return program if used & {f.name for f in done} else kept
