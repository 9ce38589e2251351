"""Questions about pieces of the tree: which names they mention, read and assign."""

from __future__ import annotations

from stancoreset.stan.syntax import nodes as n

__all__ = ["assigned_names", "bare", "has_own_break", "increments", "names_in", "target_vars"]


def names_in(node: n.Node | None) -> set[str]:
    """Names of all variables that `node` mentions."""
    if node is None:
        return set()
    return {x.name for x in n.walk(node) if isinstance(x, n.Var)}


def bare(e: n.Expr) -> n.Expr:
    """The expression without parentheses around it."""
    while isinstance(e, n.Paren):
        e = e.arg
    return e


def target_vars(e: n.Expr) -> list[n.Var]:
    """The variables on the left side of an assignment."""
    match e:
        case n.Var():
            return [e]
        case n.Index(base=base) | n.TupleItem(base=base):
            return target_vars(base)
        case n.TupleLit(items=items):
            return [v for i in items for v in target_vars(i)]
    return []


def assigned_names(node: n.Node) -> set[str]:
    """Names of variables that statements below `node` assign to."""
    found = set()
    for s in n.walk(node):
        if isinstance(s, n.Assign):
            found |= {v.name for v in target_vars(s.target)}
    return found


def increments(s: n.Node) -> list[n.Tilde | n.TargetAdd]:
    """The increments of the target below `s`, in order."""
    return [x for x in n.walk(s) if isinstance(x, n.Tilde | n.TargetAdd)]


def has_own_break(s: n.Node | None) -> bool:
    """Whether a break below `s` leaves the loop that `s` is the body of."""
    match s:
        case n.Break():
            return True
        case n.Block(body=body) | n.Profile(body=body):
            return any(has_own_break(x) for x in body)
        case n.If(yes=yes, no=no):
            return has_own_break(yes) or has_own_break(no)
    return False
