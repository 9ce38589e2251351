"""The author's program as the witness: no mistake of ours ends certified."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from seeds import reseeded

import stancoreset as sc
from stancoreset.engines import resolve_engine
from stancoreset.engines.base import Density, Float, StanData
from stancoreset.engines.stanli import StanliCompiled
from stancoreset.errors import IdentityError
from stancoreset.program import session as session_room
from stancoreset.program import witnesses
from stancoreset.program.adopt import adopt
from stancoreset.program.session import Session
from stancoreset.rows import Costs
from stancoreset.rows import witness as witness_room
from stancoreset.rows.glm import form, reach
from stancoreset.rows.witness import (
    Comparison,
    ShownWitness,
    StoredWitness,
    Witness,
    WitnessedDensity,
    _patterns,
)
from stancoreset.stan import StanProgram

INTERACTION = """
data { int<lower=1> N; vector[N] male; vector[N] rare; array[N] int<lower=0, upper=1> y; }
parameters { real alpha; real b_male; real b_rare; real b_both; }
model {
  alpha ~ normal(0, 2); b_male ~ normal(0, 1); b_rare ~ normal(0, 1); b_both ~ normal(0, 1);
  y ~ bernoulli_logit(alpha + b_male * male + b_rare * rare + b_both * male .* rare);
}
"""
NORMAL = """
data { int<lower=1> N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model { a ~ normal(0, 2); b ~ normal(0, 1); s ~ exponential(1); y ~ normal(a + b * x, s); }
"""
CENTRED = NORMAL.replace("parameters", "transformed data { real m = mean(x); } parameters").replace(
    "a + b * x", "a + b * (x - m)"
)
OTHER = NORMAL.replace("a + b * x", "a + b * x + 0.05 * square(x)")


def _interaction(n: int = 20_000, seed: int = 4) -> dict[str, object]:
    """Two rare indicators; some 8 rows have both, and the smallest row numbers are none of them."""
    rng = np.random.default_rng(seed)
    male, rare = (rng.random(n) < 0.02).astype(float), (rng.random(n) < 0.02).astype(float)
    eta = -1 + 0.5 * male + 0.3 * rare + 2 * male * rare
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    return {"N": n, "male": male, "rare": rare, "y": y}


def _normal(n: int = 400, seed: int = 1) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return {"N": n, "x": x, "y": 0.5 + 0.3 * x + 0.8 * rng.normal(size=n)}


def _by_hand(data: dict[str, object], draws: np.ndarray) -> np.ndarray:
    """Log density of `NORMAL` with the Jacobian of log s, by scipy."""
    a, b, log_s = draws.T[..., None]
    s = np.exp(log_s)
    x, y = np.asarray(data["x"]), np.asarray(data["y"])
    likelihood = stats.norm.logpdf(y, a + b * x, s).sum(axis=1)
    prior = stats.norm.logpdf(a, 0, 2) + stats.norm.logpdf(b) + stats.expon.logpdf(s) + log_s
    return likelihood + prior[:, 0]


def _session(code: str, **options: object) -> Session:
    return Session(adopt(StanProgram.from_code(code)), resolve_engine("stanli"), **options)


def _differences(values: np.ndarray) -> np.ndarray:
    return values - values[0]


class TestWhatReaches:
    """`reach` against programs where it is plain to see."""

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            (INTERACTION, {"alpha", "b_male", "b_rare", "b_both"}),
            (NORMAL, {"a", "b", "s"}),
            (
                """data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] y; }
                parameters { vector[J] z; real<lower=0> tau; real<lower=0> s; real loose; }
                transformed parameters { vector[J] a = tau * z; }
                model { z ~ normal(0, 1); tau ~ normal(0, 1); loose ~ normal(0, 1);
                  for (n in 1:N) y[n] ~ normal(a[g[n]], s); }""",
                {"z", "tau", "s"},
            ),
            (
                """data { int N; int J; array[N] int<lower=1, upper=J> g; vector[N] y; }
                parameters { real mu; real<lower=0> tau; vector<offset=mu, multiplier=tau>[J] a; }
                model { a ~ normal(mu, tau); y ~ normal(a[g], 1); }""",
                {"a", "mu", "tau"},
            ),
            (
                """data { int N; vector[N] x; vector[N] y; }
                parameters { real b; real d; real free; }
                model { vector[N] eta = rep_vector(0, N);
                  for (k in 1:2) { if (k > 1) eta += d * x; else eta += b; }
                  y ~ normal(eta, 1); target += -square(free); }""",
                {"b", "d"},
            ),
        ],
    )
    def test_parameters(self, code: str, expected: set[str]) -> None:
        weighted = adopt(StanProgram.from_code(code)).weighted
        assert reach.reaching_parameters(weighted) == expected


class TestMatrixProduct:
    """A coefficient whose column is zero on all rows looked at: three ways to notice."""

    def test_proof_refuses(self) -> None:
        session = _session(INTERACTION)
        found = session.glm_of(session.adopted.weighted.check(_interaction()))
        assert found is not None
        assert found.kernel is None

    def test_all_rows_refuse(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(form, "reaching_parameters", lambda _program: frozenset())
        session = _session(INTERACTION)
        found = session.glm_of(session.adopted.weighted.check(_interaction()))
        assert found is not None
        assert found.kernel is None
        assert "on some rows" in found.reason

    @pytest.mark.fit
    def test_certificate_refuses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(form, "reaching_parameters", lambda _program: frozenset())
        monkeypatch.setattr(session_room, "confirm_glm", lambda found, *_: found)
        model = sc.CoresetModel(stan_code=INTERACTION, engine="stanli")
        with pytest.raises(IdentityError, match=r"as it is written .* matrix product .* glm=False"):
            model.fit(_interaction(), size=20, seed=reseeded(1), max_rounds=1)

    @pytest.mark.fit
    def test_the_posterior_is_right(self) -> None:
        data = _interaction()
        model = sc.CoresetModel(stan_code=INTERACTION, engine="stanli")
        fit = model.fit(data, size=20, seed=reseeded(1), max_rounds=1)
        both = np.asarray(data["male"]) * np.asarray(data["rare"]) > 0
        assert 1 <= both.sum() <= 20
        assert "all 20,000 rows" in fit.certificate.witness
        # The prior's standard deviation is 1: the rows with both indicators are in the posterior.
        assert fit.summary()["sd"]["b_both"] < 0.9


#: What rows with a seldom column add, as Stan writes it; and the same of a and b, in numpy: for the
#: mean of a normal outcome, or for the logarithm of its standard deviation.
SELDOM = {
    "interaction": ("b * u .* v", "real b;", lambda a, b, u, v: b * u * v, None),
    "interaction in brackets": ("(u .* v) * b", "real b;", lambda a, b, u, v: b * u * v, None),
    "scaled": (
        "b * z * v",
        "real<lower=0> b; real z;",
        lambda a, b, u, v: np.exp(b) * 0.7 * v,
        None,
    ),
    "positive": ("exp(b) * v", "real b;", lambda a, b, u, v: np.exp(b) * v, None),
    "with a curve": ("b * v .* exp(0.5 * x)", "real b;", None, None),
    "dispersion": ("0", "real b;", lambda a, b, u, v: 0 * v, lambda b, v: b * v),
}


class TestSeldomColumns:
    """Columns that are zero on all rows but three, against the log likelihood in numpy."""

    @pytest.mark.parametrize("name", SELDOM)
    def test_likelihood(self, name: str) -> None:
        term, declared, mean, spread = SELDOM[name]
        rng = np.random.default_rng(0)
        n = 12_000
        x, u, v = rng.normal(size=n), np.zeros(n), np.zeros(n)
        u[:6_000] = v[5_997:6_000] = 1.0
        y = rng.normal(size=n)
        code = f"""
        data {{ int<lower=1> N; vector[N] x; vector[N] u; vector[N] v; vector[N] y; }}
        parameters {{ real a; {declared} }}
        model {{
          a ~ normal(0, 1); b ~ normal(0, 1);{" z ~ normal(0, 1);" if " z;" in declared else ""}
          y ~ normal(a * x + {term}, {"exp(b * v)" if spread else "1"});
        }}
        """
        session = _session(code)
        weighted = session.adopted.weighted
        checked = weighted.check({"N": n, "x": x, "u": u, "v": v, "y": y})
        points = np.column_stack([rng.normal(size=(4, 2)), np.full(4, 0.7)])
        points = points[:, : 3 if " z;" in declared else 2]
        found = session.full_data(checked).log_likelihood(points)
        of_row = mean or (lambda a, b, u, v: b * v * np.exp(0.5 * x))
        expected = []
        for a, b in points[:, :2]:
            log_sd = spread(b, v) if spread else np.zeros(n)
            expected.append(stats.norm.logpdf(y, a * x + of_row(a, b, u, v), np.exp(log_sd)).sum())
        np.testing.assert_allclose(_differences(found), _differences(np.array(expected)), rtol=1e-9)


class TestWovenWrongly:
    """A program that is not the author's, as if weaving had made a mistake."""

    @pytest.mark.fit
    def test_rejected(self) -> None:
        """The witness costs no more here: it decides, and the weights show what is wrong."""
        data = _normal()
        model = sc.CoresetModel(stan_code=OTHER, engine="stanli")
        author = StanProgram.from_code(NORMAL)
        model._session.adopted = replace(model._adopted, original=author)
        reference = model.reference(data, draws=250, seed=reseeded(1))
        projection = model.project(data, reference, candidates=400, seed=reseeded(1))
        coreset = sc.select(projection, size=40, method="pursuit")
        coreset = model.add_control_variate(data, coreset, reference)
        posterior = model.sample(data, coreset=coreset, seed=reseeded(1))
        certificate = model.certify(data, coreset, posterior)
        assert certificate.verdict == "rejected"
        assert "every draw" in certificate.witness

    @pytest.mark.fit
    def test_right_one_is_certified(self) -> None:
        model = sc.CoresetModel(stan_code=NORMAL, engine="stanli")
        fit = model.fit(_normal(), size=20, seed=reseeded(1), max_rounds=1)
        assert fit.certificate.verdict == "certified"
        assert "on all 400 rows at every draw" in fit.certificate.witness
        assert "on all 400 rows at every draw" in fit.markdown()


class TestWitness:
    @pytest.mark.parametrize("draws", [4, 40])
    @pytest.mark.parametrize("blocks", [1, 3])
    def test_log_density_by_hand(self, draws: int, blocks: int) -> None:
        session, data = _session(NORMAL), _normal()
        checked = session.program.check(data)
        points = np.random.default_rng(2).normal(size=(draws, 3)) * 0.3
        whole = session.witness(checked)
        witness = Witness(
            session.original(),
            session.adopted.original,
            session.program,
            checked,
            whole.prior,
            whole=False,
            threads=2,
            blocks=blocks,
        )
        found = _differences(witness.log_density(points))
        np.testing.assert_allclose(found, _differences(_by_hand(data, points)), rtol=1e-9)
        session.close()

    def test_many_blocks_are_not_held_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of a million rows Stan's copies would fill a gigabyte for the whole fit."""
        held: set[object] = set()
        most = 0
        bind_density = StanliCompiled.bind_density

        def opening(self: StanliCompiled, data: StanData) -> Density:
            nonlocal most
            part = bind_density(self, data)
            close = part.close
            held.add(part)
            most = max(most, len(held))

            def closing() -> None:
                held.discard(part)
                close()

            monkeypatch.setattr(part, "close", closing)
            return part

        monkeypatch.setattr(StanliCompiled, "bind_density", opening)
        monkeypatch.setattr(witness_room, "_NUMBERS", 100)
        session, data = _session(NORMAL, threads=2), _normal()
        points = np.random.default_rng(2).normal(size=(4, 3)) * 0.3
        found = session.witness(session.program.check(data)).log_density(points)
        np.testing.assert_allclose(
            _differences(found), _differences(_by_hand(data, points)), rtol=1e-9
        )
        assert 0 < most <= 2
        assert not held
        session.close()

    @pytest.mark.slow
    def test_large_data_are_cut_and_statistics_of_all_rows_are_not(self) -> None:
        data = _normal(700_000)
        for code, cuts, rows in ((NORMAL, [22], 700_000), (CENTRED, [1] * 4, 100_000)):
            model = sc.CoresetModel(stan_code=code, engine="stanli", glm=False)
            witness = model._session.witness(model.read(data))
            parts = witness.blocks if isinstance(witness, ShownWitness) else [witness]
            assert all(isinstance(part, Witness) for part in parts)
            assert [len(part._cuts) for part in parts] == cuts
            assert rows <= sum(part.n_obs for part in parts) <= rows + 10
            model.close()

    @pytest.mark.fit
    def test_weights_of_the_data(self) -> None:
        """The author's program knows no weights: ours is compared with weights of one."""
        data = {**_normal(), "weights": np.resize([1.0, 2.0, 0.5], 400)}
        model = sc.CoresetModel(stan_code=NORMAL, engine="stanli")
        fit = model.fit(data, size=20, seed=reseeded(1), max_rounds=1)
        assert fit.certificate.verdict == "certified"
        assert "5 draws" in fit.certificate.witness

    @pytest.mark.fit
    def test_equal_rows(self) -> None:
        data = _normal(3000)
        for name in ("x", "y"):
            data[name] = np.round(np.asarray(data[name]), 0)
        model = sc.CoresetModel(stan_code=NORMAL, engine="stanli")
        fit = model.fit(data, size=20, seed=reseeded(1), max_rounds=1)
        assert fit.passes["distinct_rows"] < 100
        assert "5 draws" in fit.certificate.witness

    @pytest.mark.fit
    def test_saved_with_the_certificate(self, tmp_path: object) -> None:
        model = sc.CoresetModel(stan_code=NORMAL, engine="stanli")
        fit = model.fit(_normal(), size=20, seed=reseeded(1), max_rounds=1)
        fit.save(tmp_path / "run")  # type: ignore[operator]
        again = sc.load_fit(tmp_path / "run")  # type: ignore[operator]
        assert again.certificate.witness == fit.certificate.witness

    @pytest.mark.slow
    @pytest.mark.fit
    def test_parts_each_have_theirs(self) -> None:
        model = sc.CoresetModel(stan_code=NORMAL, engine="stanli")
        parts = [_normal(300, seed) for seed in (1, 2)]
        fits = [(data, model.fit(data, size=20, seed=reseeded(1), max_rounds=1)) for data in parts]
        merged = model.merge(fits, size=20, seed=reseeded(1))
        assert "part 1: the program as written" in merged.certificate.witness
        assert "part 2: the program as written" in merged.certificate.witness
        kept = model.merge([model.keep(*fit) for fit in fits], size=20, seed=reseeded(1))
        assert kept.certificate.witness == ""  # the rows are not at hand


class TestSomeOfVeryMany:
    """A program that computes means of all rows would read very many of them at once."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(witnesses, "SHOWN", 100)

    def test_log_density_by_hand(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The means are those of the rows of each block, which both see."""
        monkeypatch.setattr(witnesses, "MAX_ROWS_PER_CHUNK", 60)
        session, data = _session(CENTRED), _normal()
        checked = session.read(data)
        witness = session.witness(checked)
        assert isinstance(witness, ShownWitness)
        points = np.random.default_rng(2).normal(size=(4, 3)) * 0.3
        unit = session.witnessed(checked).unit  # type: ignore[attr-defined]
        shown = [block.data for block in witness.blocks]
        assert len(shown) == 2
        rows = np.concatenate([some["x"] for some in shown])
        assert 100 <= len(rows) == len(np.unique(rows)) <= 110
        assert {min(rows), max(rows)} == {min(data["x"]), max(data["x"])}
        for block, some in zip(witness.blocks, shown, strict=True):
            x, y = np.asarray(some["x"]), np.asarray(some["y"])
            expected = _differences(_by_hand({"x": x - x.mean(), "y": y}, points))
            with unit(some) as own:
                ours = own.briefly(points) + own.log_prior(points)
                for found in (block.log_density(points), own.log_density(points), ours):
                    np.testing.assert_allclose(_differences(found), expected, rtol=1e-9, atol=1e-9)
        session.close()

    def test_the_worst_block_counts(self) -> None:
        """Our log densities of one block are wrong."""
        session = _session(CENTRED)
        witness = session.witness(session.read(_normal()))
        points = np.random.default_rng(2).normal(size=(4, 3)) * 0.3
        assert isinstance(witness, ShownWitness)
        (block,) = witness.blocks

        def ours(data: StanData) -> Float:
            with session._bound_full(data, None) as full:
                return full.log_density(points)

        def wrong(data: StanData) -> Float:
            return ours(data) * 1.01

        both = ShownWitness([block, block], 400)
        assert both.compare(points, ours).error < 1e-12
        assert both.compare(points, ours).rows == 2 * block.n_obs
        assert both.compare(points, wrong).error > 1e-3
        session.close()

    @pytest.mark.fit
    def test_right_one_is_certified(self) -> None:
        model = sc.CoresetModel(stan_code=CENTRED, engine="stanli")
        fit = model.fit(_normal(), size=20, seed=reseeded(1), max_rounds=1)
        assert fit.certificate.verdict == "certified"
        assert "of 400 rows at 5 draws" in fit.certificate.witness

    def test_wrong_one_is_an_error(self) -> None:
        data = _normal()
        model = sc.CoresetModel(stan_code=CENTRED, engine="stanli", glm=False)
        other = CENTRED.replace("- m)", "- 1.1 * m)")
        model._session.adopted = replace(model._adopted, original=StanProgram.from_code(other))
        checked = model.read(data)
        density = model._session.witnessed(checked)
        with pytest.raises(IdentityError, match="differ by a relative"):
            density(np.random.default_rng(2).normal(size=(6, 3)) * 0.3)
        model.close()

    def test_numbered_rows_are_all_shown(self) -> None:
        """Rows that are selected by number are no part of others."""
        numbered = CENTRED.replace("y ~ normal(a + b * (x - m), s);", "").replace(
            "s ~ exponential(1);",
            "s ~ exponential(1); y[1:200] ~ normal(a + b * (x[1:200] - m), s);"
            " y[201:N] ~ normal(a - m, s);",
        )
        session = _session(numbered)
        assert session.adopted.woven.numbered  # type: ignore[union-attr]
        witness = session.witness(session.read(_normal()))
        assert witness.n_obs == 400  # type: ignore[union-attr]
        session.close()


class TestOnDisk:
    def _table(self, folder: object, data: dict[str, object]) -> sc.Table:
        import pandas as pd

        path = folder / "rows.parquet"  # type: ignore[operator]
        pd.DataFrame({k: v for k, v in data.items() if k != "N"}).to_parquet(path)
        return sc.Table(path, columns={k: k for k in data if k != "N"}, memory=1, chunk_rows=1500)

    @pytest.mark.fit
    def test_certified_with_its_witness(self, tmp_path: object) -> None:
        model = sc.CoresetModel(stan_code=NORMAL, engine="stanli")
        fit = model.fit(
            self._table(tmp_path, _normal(6000)), size=20, seed=reseeded(1), max_rounds=1
        )
        assert fit.certificate.verdict == "certified"
        assert "all 6,000 rows at 10 draws" in fit.certificate.witness

    @pytest.mark.fit
    def test_wrong_product_is_refused(
        self, tmp_path: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = self._table(tmp_path, _interaction())
        monkeypatch.setattr(form, "reaching_parameters", lambda _program: frozenset())
        session = _session(INTERACTION)
        stored = table.open_for(session.program)
        found = session.glm_of(stored)
        assert found is not None
        assert "on some rows" in found.reason
        monkeypatch.setattr(session_room, "confirm_glm", lambda found, *_: found)
        model = sc.CoresetModel(stan_code=INTERACTION, engine="stanli")
        with pytest.raises(IdentityError, match="as it is written"):
            model.fit(table, size=20, seed=reseeded(1), max_rounds=1)

    def test_of_many_rows_a_share_and_every_pattern(self, tmp_path: object) -> None:
        session = _session(INTERACTION)
        data = _interaction()
        stored = self._table(tmp_path, data).open_for(session.program)
        witness = session.witness(stored)
        assert isinstance(witness, StoredWitness)
        draws = np.random.default_rng(0).normal(size=(5, 4)) * 0.2
        kernel = session.full_data(stored).kernel
        assert kernel is not None
        compared = witness.compare(kernel, draws, rows=2000)
        assert 2000 <= compared.rows < 2200
        assert compared.error < 1e-12
        assert "2," in str(compared)
        assert "of 20,000 rows" in str(compared)

    def test_patterns(self) -> None:
        chunk = {
            "x": np.array([0.0, 1.0, 0.0, 2.0, -1.0]),
            "z": np.array([1.0, 1.0, 1.0, 0.0, 1.0]),
            "g": np.array([1, 1, 3, 1, 1]),
        }
        assert _patterns(chunk).tolist() == [0, 1, 2, 3, 4]
        assert _patterns({"x": np.array([2.0, 3.0, 0.0, 0.0])}).tolist() == [0, 2]


def test_support_that_differs_is_a_disagreement() -> None:
    """Where one is −∞ and the other is not, no constant makes them equal."""

    class Full:
        fast = True
        passes = Costs(likelihood="a kernel")

        def log_likelihood(self, draws: np.ndarray, _tick: object) -> np.ndarray:
            return np.zeros(len(draws))

        def log_prior(self, draws: np.ndarray) -> np.ndarray:
            return np.zeros(len(draws))

    class Author(Witness):
        def __init__(self) -> None:
            self.n_obs, self.data = 3, {}

        def log_density(self, draws: np.ndarray) -> np.ndarray:
            return np.where(draws[:, 0] > 0, 0.0, -np.inf)

    density = WitnessedDensity(Full(), Author())  # type: ignore[arg-type]
    with pytest.raises(IdentityError, match="inf"):
        density(np.array([[1.0], [-1.0], [2.0]]))


def test_comparison_in_words() -> None:
    told = str(Comparison(3e-13, 5, 900, 1000))
    assert told == (
        "the program as written, on 900 of 1,000 rows at 5 draws; "
        "equal to our evaluation within 3e-13"
    )
