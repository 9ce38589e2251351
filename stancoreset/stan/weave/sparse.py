"""Products of a sparse design with coefficients, as sums over the entries of each row.

    eta = csr_matrix_times_vector(N, K, w, v, u, b);        // entries u[n] to u[n + 1] - 1 of row n

Rows of such a design cannot be cut from w, v and u alone. Transformed data give each row its own
entries and their columns once, padded to the longest row by entries of zero:

    for (k in 1:most) eta += w_rows[, k] .* b[v_rows[, k]];
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from stancoreset.stan.syntax import bare, parse, substituted, with_statements
from stancoreset.stan.syntax import nodes as n
from stancoreset.stan.weave.draft import Draft, Rewriter

# The longest row is found by functions of Stan's that both engines have: these statements stand in
# the author's program, too, which has no function of ours, and stanli has no `to_int` here. The
# differences are sorted as an array, since CmdStan 2.35 sorts an expression of vectors through a
# reference to a temporary that is gone, into any order (stan/math/prim/fun/sort_indices.hpp).
_TEMPLATE = """
functions {
  vector rows_times_vector(matrix w, array[,] int v, vector b) {
    vector[rows(w)] product = rep_vector(0.0, rows(w));
    for (k in 1:cols(w)) product += w[, k] .* b[v[, k]];
    return product;
  }
}
data {
  int N; int n_starts; int n_entries;
  vector[n_entries] w; array[n_entries] int v; array[n_starts] int u;
}
transformed data {
  int size_u = size(u);
  int most = N > 0 && size(u) > N
    ? u[1 + sort_indices_desc(to_array_1d(to_vector(u[2:(N + 1)]) - to_vector(u[1:N])))[1]]
      - u[sort_indices_desc(to_array_1d(to_vector(u[2:(N + 1)]) - to_vector(u[1:N])))[1]]
    : 0;
  matrix[N, most] w_rows = rep_matrix(0, N, most);
  array[N, most] int v_rows = rep_array(1, N, most);
  if (size(u) > N) {
    for (n in 1:N) {
      for (k in 1:(u[n + 1] - u[n])) {
        w_rows[n, k] = w[u[n] + k - 1];
        v_rows[n, k] = v[u[n] + k - 1];
      }
    }
  }
}
"""


def without_sparse_products(draft: Draft) -> Draft:
    """Products of sparse designs are computed row by row."""
    program = draft.program
    padding = _Padding(program)
    rewritten = with_statements(program, padding.product)
    if not padding.found:
        return draft
    data = tuple(
        replace(d, size=n.SizedType("int", array=(padding.starts[d.name],)))
        if d.name in padding.starts
        else d
        for d in program.data
    )
    new = replace(
        rewritten,
        functions=(*program.functions, padding.function),
        data=data,
        transformed_data=(*program.transformed_data, *padding.found),
    )
    return replace(draft, program=new, added=(*draft.added, *map(padding.sized, padding.found)))


class _Padding(Rewriter):
    """Replaces products; `found` are the statements that give each row its entries."""

    def __init__(self, program: n.Program) -> None:
        super().__init__(program)
        self.data = {d.name: d for d in program.data}
        self.most: dict[str, n.Expr] = {}  # the lengths of the longest rows
        self.starts: dict[str, n.Var] = {}  # sizes of the arrays of starts
        self.made: dict[tuple[str, ...], tuple[n.Var, n.Var]] = {}
        (function,) = _template().functions
        self.function = replace(function, name=self.names.fresh(function.name))

    def product(self, e: n.Node) -> n.Node | None:
        """A product row by row, in place of one of a sparse design; None for all else."""
        if not isinstance(e, n.Call) or e.name != "csr_matrix_times_vector":
            return None
        count, *_, b = e.args
        design = tuple(x.name for x in map(bare, (count, *e.args[2:5])) if isinstance(x, n.Var))
        if len(design) < 4 or not {*design} <= self.data.keys():
            return None
        w, v = self.made.get(design) or self.padded(*design)
        return n.Call(self.function.name, (w, v, b), True, type=e.type)

    def padded(self, count: str, w: str, v: str, u: str) -> tuple[n.Var, n.Var]:
        """The entries of each row, and their columns."""
        block = _template().transformed_data
        new = {"N": count, "w": w, "v": v, "u": u}
        new |= {d.name: self.names.fresh(_name(d.name, w, v, u)) for d in block
                if isinstance(d, n.Decl)}  # fmt: skip

        def change(node: n.Node) -> n.Node | None:
            match node:
                case n.Var(name=name) if name in new:
                    return replace(node, name=new[name])
                case n.Decl(size=size, value=value):
                    size, value = n.transform(size, change), value and n.transform(value, change)
                    return replace(node, name=new[node.name], size=size, value=value, line=0)
            return None

        known = bare(self.data[u].size.dims[0])
        own_size = isinstance(known, n.Var)  # and not one that the rows are counted by
        written = [
            n.transform(s, change) for s in block
            if not (own_size and isinstance(s, n.Decl) and s.name == "size_u")
        ]  # fmt: skip
        self.found += written
        for s in written:
            if isinstance(s, n.Decl) and s.name == new["most"] and s.value is not None:
                self.most[s.name] = s.value
        if not own_size:
            self.starts[u] = n.integer(new["size_u"])
        entries = n.Var(new["w_rows"], type=n.MATRIX)
        columns = n.Var(new["v_rows"], type=n.Type("int", 2))
        self.made[count, w, v, u] = entries, columns
        return entries, columns

    def sized(self, s: n.Stmt) -> n.Stmt:
        """A statement whose sizes are of data alone, as generated quantities demand."""
        return replace(s, size=substituted(s.size, self.most)) if isinstance(s, n.Decl) else s


def _name(name: str, w: str, v: str, u: str) -> str:
    names = {"size_u": f"size_{u}", "most": f"most_{w}", "w_rows": f"{w}_rows"}
    return names.get(name, f"{v}_rows")


@lru_cache(maxsize=1)
def _template() -> n.Program:
    return parse(_TEMPLATE)
