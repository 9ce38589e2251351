"""Stan's front end, the tree read from it, and the tree printed back."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ready_programs import MODELS, NAMES

from stancoreset.errors import CompileError, EngineNotFoundError, ProgramError
from stancoreset.stan.syntax import from_first, nodes, outside_indices, part_of, printer, stanc
from stancoreset.stan.syntax import parser as ast

EVERYTHING = """\
functions {
  real foo(real x, vector y, array[,] int z, tuple(real, int) t) {
    real a;
    if (x > 0) return 1.0; else if (x < -1) { return 2; } else return 3;
    for (i in 1:3) { if (i == 2) break; continue; }
    while (x > 3) { print("a \t// no comment ", x); }
    profile("s") { a = 1; }
    return a + t.1;
  }
  real ahead(real x);
  void bar_lp(real x) { target += x; x ~ normal(0,1); return; }
  real my_lpdf(real x, data real m) { return normal_lpdf(x | m, 1); }
  real ahead(real x) { return x; }
  vector ode(real t, vector y, real a) { return -a * y; }
  real psum_lpmf(array[] int y, int s, int e, real p) { return bernoulli_lupmf(y | p); }
}
data {
  int<lower=0, upper=100> N; /* several
  lines */ array[N] int<lower=0,upper=1> y;
  vector<lower=0>[N] x;
  array[2, N] vector[3] V;
  complex z;  complex_matrix[2, 2] cm;
  tuple(int, array[N] real<lower=0>) tp;
}
transformed data {
  int a, b = 3, c;
  matrix[2,3] I = [[1,0,0],[0,1,0]];
  complex zz = 3i;
  tuple(int, real) tt = (1, 2.0);
  ;
  a = 3; tt.1 = 3;
  if (N < 1) reject("bad", N);
}
parameters {
  real<lower=0, upper=1> p;
  real<offset=1, multiplier=2> q;
  vector<upper=((p > 0.5) ? 1 : 2)>[3] b_;
  simplex[3] s;  ordered[3] o;  positive_ordered[2] po;
  cholesky_factor_corr[3] L;  corr_matrix[3] R;  cov_matrix[3] S;
  array[2] unit_vector[3] u;  cholesky_factor_cov[3, 2] Lc;
  row_vector<multiplier=p>[3] rv;
}
transformed parameters {
  vector[N] mu = x * q;
  mu[1:2] += 3 * b_[1];
  mu[:2] .*= 2;
  mu[2:] = x[2:];
  mu[{1, 2}] = mu[{2, 1}];
  { real loc = 3; }
}
model {
  array[3] vector[2] r = ode_rk45(ode, [1.0, p]', 0.0, {1.0,2,3}, 1);
  y ~ bernoulli_logit(mu);
  target += normal_lpdf(q | 0, 1) + normal_lupdf(q | 0, 1);
  p ~ beta(2, 2) T[0.1, 0.9];
  p ~ beta(2, 2) T[ , 0.9];
  p ~ beta(2, 2) T[0.1, ];
  q ~ my(2);
  bar_lp(q);
  for (v in x) { v ~ normal(0,1); }
  for (row in V[1]) row ~ normal(0, 1);
  target += log_mix(p, normal_lpdf(q | 0,1), -2.5e-3);
  target += (y[1] == 1 && !(p > 0.5) || N != 3) ? sum(mu') : -mu[1]^2;
  target += I[1, :] * b_ + I[1] * b_ - (b %/% 2 - b % 2) + q .^ 2 - (I[1,1] ./ 2 - 1);
  target += -(-q) ^ 2 + (-q) ^ (-2) + 2 ^ 3 ^ q;
  target += target() + reduce_sum(psum_lupmf, y, 1, p);
}
generated quantities {
  real g = normal_rng(0, 1);
}
"""


def tree_of(text: str) -> nodes.Program:
    """The tree that stanc printed."""
    return ast._Reader("", "").program(ast.parse_sexp(text))


def unplaced(node):
    """The tree without lines, numbers and the text that it was read from."""
    if not isinstance(node, nodes.Node):
        return tuple(map(unplaced, node)) if isinstance(node, tuple) else node
    new = {f.name: unplaced(getattr(node, f.name)) for f in dataclasses.fields(node)}
    unknown = {"line": 0, "number": 0, "code": "", "source": ""}
    return dataclasses.replace(node, **new | {k: v for k, v in unknown.items() if k in new})


def test_program_survives_printing_and_reparsing():
    tree = ast.parse(EVERYTHING)
    again = ast.parse(printer.program(tree))
    assert printer.program(again) == printer.program(tree)
    # stanc's own formatter sees the same program, up to split declarations and braces.
    words = "".join(stanc.canonical(EVERYTHING).split())
    ours = "".join(stanc.canonical(printer.program(tree)).split())
    ours = ours.replace("inta;intb=3;intc;", "inta,b=3,c;")
    ours = ours.replace("for(rowinV[1]){row~normal(0,1);}", "for(rowinV[1])row~normal(0,1);")
    assert ours == words


def test_printer_adds_the_parentheses_that_a_tree_needs():
    def strip(node):
        return nodes.transform(node, lambda e: strip(e.arg) if isinstance(e, nodes.Paren) else None)

    bare = strip(ast.parse(EVERYTHING))
    assert not any(isinstance(x, nodes.Paren) for x in nodes.walk(bare))
    again = strip(ast.parse(printer.program(bare)))
    assert unplaced(again.model) == unplaced(bare.model)
    assert unplaced(again.functions) == unplaced(bare.functions)


UNWARNED = EVERYTHING.replace("  real ahead(real x);\n", "")


@pytest.mark.parametrize("name", ["everything", *NAMES])
def test_a_text_without_old_spellings_has_the_tree_of_its_canonical_form(name):
    code = UNWARNED if name == "everything" else (MODELS / f"{name}.stan").read_text()
    flat = stanc.canonical(code)
    assert stanc.is_canonical(code)
    assert flat != code
    assert unplaced(ast.parse(code)) == unplaced(ast.parse(flat))


@pytest.mark.parametrize(
    "code",
    [
        "parameters { real x; } model { target += -fabs(x); }",  # which Stan has no more
        "parameters { cov_matrix[2] m; } model { m ~ lkj_cov([1, 1]', [1, 1]', 1); }",
        "#include priors.stan\nparameters { real x; } model { x ~ normal(0, 1); }",
    ],
)
def test_other_texts_are_not_read_as_they_are(code):
    assert not stanc.is_canonical(code)


def test_statements_know_their_source_line():
    tree = ast.parse(EVERYTHING)
    source = EVERYTHING.split("\n")
    for line, s in printer.program_lines(tree):
        if s is None:
            continue
        first = line.strip().lstrip("} ").split("(")[0].split("[")[0].split("<")[0].split(" ")[0]
        if isinstance(s, nodes.Decl):
            first = s.name
        assert first.rstrip(";") in source[s.line - 1], (line, s.line, source[s.line - 1])
    last = tree.model[-1]
    assert source[last.line - 1].strip() == "target += target() + reduce_sum(psum_lupmf, y, 1, p);"


def test_declarations_and_types():
    tree = ast.parse(EVERYTHING)
    data = {d.name: d for d in tree.data}
    assert [printer.expression(e) for e in data["V"].size.dims] == ["2", "N", "3"]
    assert data["V"].type == nodes.Type("vector", 2)
    assert data["V"].type.rank == 3
    assert data["y"].constraint.kind == "bounds"
    assert printer.expression(data["N"].constraint.upper) == "100"
    assert data["tp"].size.items[1].type == nodes.Type("real", 1)
    parameters = {d.name: d for d in tree.parameters}
    assert parameters["s"].constraint.kind == "simplex"
    assert parameters["rv"].constraint.multiplier == nodes.Var("p", type=nodes.REAL)
    names = [d.name for d in tree.transformed_data if isinstance(d, nodes.Decl)]
    assert names[:3] == ["a", "b", "c"]
    tilde = next(s for s in tree.model if isinstance(s, nodes.Tilde))
    assert tilde.args[0].type == nodes.Type("vector")


def test_includes_are_expanded_and_take_the_line_of_the_include(tmp_path):
    (tmp_path / "priors.stan").write_text("  a ~ normal(0, 1);\n  b ~ normal(0, 2);\n")
    code = (
        "parameters {\n  real a;\n  real b;\n}\n"
        "model {\n  // priors\n  #include priors.stan\n  target += a * b;\n}\n"
    )
    tree = ast.parse(code, include_paths=[tmp_path])
    assert [s.line for s in tree.model] == [7, 7, 8]
    (tmp_path / "priors.stan").write_text("  a ~ cauchy(0, 1);\n")
    assert len(ast.parse(code, include_paths=[tmp_path]).model) == 2


def test_errors_carry_stans_words_and_line():
    with pytest.raises(CompileError, match=r"'mine.stan', line 2.*(?s:.*)\"?'?N'?\"? is already"):
        ast.parse("data {\n  int N; real N;\n}\n", filename="mine.stan")
    with pytest.raises(CompileError, match=r"model\.stan"):
        stanc.check("parameters { real a; ")


def test_unknown_tree_format_is_refused():
    good = stanc.decorated_ast("parameters { real a; } model { a ~ normal(0, 1); }")
    assert len(tree_of(good).model) == 1
    for old, new in [("Tilde", "Twiddle"), ("truncation", "cut"), ("Variable", "Name")]:
        with pytest.raises(ProgramError, match=r"unknown form.*2\.35"):
            tree_of(good.replace(old, new))
    with pytest.raises(ProgramError, match="unknown form"):
        tree_of(good.rstrip()[:-1])


# What changed in the tree from Stan 2.35 to 2.39, one by one: releases in between have some.
def promotion_grouped(e):
    match e:
        case ["Promotion", value, kind, level]:
            return ["Promotion", value, [kind, level]]


def promotion_flat(e):
    match e:
        case ["Promotion", value, [kind, level]]:
            return ["Promotion", value, kind, level]


def tilde_without_kind(e):
    match e:
        case ["Tilde", *fields]:
            return ["Tilde", *(f for f in fields if f[0] != "kind")]


def tilde_with_kind(e):
    match tilde_without_kind(e):
        case ["Tilde", arg, name, *fields]:
            return ["Tilde", arg, name, ["kind", ["StanLib", ["FnLpdf", "true"]]], *fields]


def opaque_locations(e):
    match e:
        case ["xloc", _]:
            return ["xloc", "<opaque>"]


def full_locations(e):
    match e:
        case ["xloc", _]:
            place = [["filename", "m.stan"], ["line_num", "1"], ["col_num", "0"]]
            return ["xloc", [["begin_loc", place], ["end_loc", place]]]


def rewritten(e, *changes):
    if not isinstance(e, list):
        return e
    e = [rewritten(x, *changes) for x in e]
    for change in changes:
        e = change(e) or e
    return e


def as_text(e):
    return f"({' '.join(map(as_text, e))})" if isinstance(e, list) else e


@pytest.mark.parametrize("promotion", [promotion_grouped, promotion_flat])
@pytest.mark.parametrize("tilde", [tilde_with_kind, tilde_without_kind])
@pytest.mark.parametrize("locations", [opaque_locations, full_locations])
def test_trees_of_releases_in_between(promotion, tilde, locations):
    text = stanc.decorated_ast(stanc.canonical(EVERYTHING))
    tree = ast.parse_sexp(text)
    other = rewritten(tree, promotion, tilde, locations)
    for one, two in (
        (promotion_grouped, promotion_flat),
        (tilde_with_kind, tilde_without_kind),
        (opaque_locations, full_locations),
    ):
        assert rewritten(tree, one) != rewritten(tree, two)
    assert printer.program(tree_of(as_text(other))) == printer.program(tree_of(text))


def test_old_arrays_get_a_hint_and_nothing_else_does():
    old = "data { int N; int Y[N]; } parameters { real a; } model { Y ~ poisson_log(a); }"
    with pytest.raises(
        CompileError, match=r"array\[N\] int Y;(?s:.*)update brms, or fit it from R"
    ):
        ast.parse(old)
    with pytest.raises(CompileError) as caught:
        ast.parse(old.replace("int Y[N]", "array[N] int Y").replace(";", "", 1))
    assert "brms" not in str(caught.value)


def test_stanc_comes_from_cmdstan_first_then_newest_of_packages(tmp_path, monkeypatch):
    monkeypatch.delenv("CMDSTAN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    binary = stanc.find_stanc()
    assert binary in (found := stanc._of_packages())
    assert stanc.version() == max(map(stanc._version, found)) >= (2, 37)
    probe = (
        "import sys; from stancoreset.stan.syntax import find_stanc; find_stanc(); "
        "print({'httpstan', 'prophet'} & sys.modules.keys())"
    )
    root = Path(__file__).parents[2]
    out = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, cwd=root, check=True
    )
    assert out.stdout.strip() == "set()"

    fake = tmp_path / "cmdstan" / "bin" / binary.name
    fake.parent.mkdir(parents=True)
    os.symlink(binary, fake)
    monkeypatch.setenv("CMDSTAN", str(tmp_path / "cmdstan"))
    assert stanc.find_stanc() == fake
    assert stanc.version() >= (2, 35)

    monkeypatch.delenv("CMDSTAN")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineNotFoundError, match=r"stancoreset\[embedded\]"):
        stanc.find_stanc()


# ---- walks through the tree --------------------------------------------------------------------


def test_nodes_of_some_kinds_are_those_of_the_walk():
    tree = ast.parse(EVERYTHING)
    found = [*nodes.find_all(tree, nodes.For, nodes.Decl)]
    assert found == [x for x in nodes.walk(tree) if isinstance(x, nodes.For | nodes.Decl)]
    assert {type(x) for x in found} == {nodes.For, nodes.Decl}
    several = [*nodes.find_all((tree.model[0], None, tree.parameters[0]), nodes.Node)]
    assert several == [*nodes.walk(tree.model[0]), *nodes.walk(tree.parameters[0])]
    assert [*nodes.walk(None)] == []


def test_a_tree_is_itself_where_nothing_changes():
    for x in nodes.walk(ast.parse(EVERYTHING)):
        assert nodes.with_children(x, lambda child: child) is x
        assert nodes.transform(x, lambda child: None) is x
        if isinstance(x, nodes.Statement) and not isinstance(x, nodes.FunDef):
            assert nodes.with_parts(x, lambda body: body) == x
            assert bool(nodes.parts(x)) == (nodes.with_parts(x, lambda body: ()) != x)


def test_several_statements_for_one_become_a_block():
    tree = ast.parse("model { for (i in 1:3) { target += i; } if (1) target += 2; else ; }")
    twice = [nodes.with_parts(s, lambda body: (*body, *body)) for s in tree.model]
    text = " ".join(printer.program(nodes.Program(model=tuple(twice))).split())
    assert text == (
        "model { for (i in 1 : 3) { { target += i; } { target += i; } } "
        "if (1) { { target += 2; } { target += 2; } } else { { ; } { ; } } }"
    )


X, Y, K = (nodes.Var(name) for name in "xyk")
ALL, ONE = nodes.All(), nodes.Single(K)


@pytest.mark.parametrize(
    ("e", "part", "first", "outside"),
    [
        (X, "x", X, {"x"}),
        (nodes.Index(nodes.Paren(nodes.Index(X, (ALL,))), (ONE,)), "x", None, {"x"}),
        (nodes.Index(X, (nodes.Between(nodes.ONE, Y),)), "x", X, {"x"}),
        (nodes.Index(X, (nodes.Between(K, Y),)), "x", None, {"x"}),
        (nodes.Index(X, (nodes.To(Y), ALL)), "x", None, {"x"}),
        (nodes.Index(nodes.call("f", X), (nodes.To(Y),)), "", nodes.call("f", X), {"x"}),
        (nodes.plus(X, nodes.Index(Y, (ONE,))), "", None, {"x", "y"}),
    ],
)
def test_parts_of_variables(e, part, first, outside):
    assert part_of(e) == part
    assert from_first(e) == (e if first is None else first)
    assert outside_indices(e) == outside
