"""Every public name of stancoreset, as a statistician's script would use it.

``python user_script.py FOLDER`` runs it; mypy and pyright pass it as it is, in strict mode.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

import stancoreset as sc
from stancoreset.posterior import Verdict
from stancoreset.selection.solvers import SolverName

SOLVERS: list[SolverName] = ["pursuit", "giga"]
SHORT = sc.NUTS(chains=2, iter_warmup=200, iter_sampling=700)


def simulated(rows: int, seed: int = 0) -> dict[str, Any]:
    """Data of the logistic regression that comes with the package."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    y = rng.random(rows) < 1 / (1 + np.exp(-x @ [1.0, -1.0]))
    return {"N": rows, "D": 2, "X": x, "y": y.astype(int), "alpha_scale": 5.0, "beta_scale": 2.5}


def fitted(model: sc.CoresetModel, data: dict[str, Any], folder: Path) -> sc.CoresetFit:
    """A fit, kept in a folder and read back."""
    fit = model.fit(
        data, size=40, method="pursuit", reference="laplace", max_rounds=1, show_progress=False,
        selection=sc.Selection(candidates=1_000), sampler=SHORT, seed=1,
        policy=sc.Policy(first_size=30),
    )  # fmt: skip
    fit.save(folder / "fit")
    again: sc.CoresetFit = sc.load_fit(folder / "fit")
    assert again.certificate.verdict == fit.certificate.verdict
    return again


def without_rows(model: sc.CoresetModel, data: dict[str, Any]) -> float:
    """Weighted draws of a Gaussian, and the evidence of the model."""
    fit = model.fit(data, method="gaussian", reference="gaussian_vi", seed=1)
    evidence: sc.Evidence | None = fit.evidence
    none: sc.Coreset | None = fit.selected
    return float("nan") if evidence is None or none is not None else evidence.log_evidence


def told(certificate: sc.Certificate) -> str:
    """What to do with the draws."""
    what: dict[Verdict, str] = {
        "certified": "use the draws as they are",
        "corrected": "use the draws with their weights",
        "rejected": "; ".join(certificate.reasons),
    }
    k: float = certificate.khat
    return f"{what[certificate.verdict]} (k̂ {k:.2f})"


def looked_at(fit: sc.CoresetFit) -> pd.DataFrame:
    """Tables of the posterior, and quantities made of its draws."""
    beta = fit.posterior.posterior["beta"].to_numpy()
    same = fit.posterior["posterior"]["beta"].to_numpy()
    assert np.array_equal(beta, same)
    slope: float = fit.certificate.expectation(fit.certified_draws()["beta"][:, 0]).item()
    print(az.rhat(fit.corrected()))
    posteriors: dict[str, Any] = {"coreset": fit, "laplace": fit.laplace}
    comparison: pd.DataFrame = sc.compare(posteriors, reference="laplace", var_names=["beta"])
    print(sc.summarise(comparison).round(3), slope)
    few: sc.Thinned = sc.thin(fit, 20, functions=["moments+kernel", beta[..., 0].ravel() > 1])
    print(few.report.loc["mmd"], sc.thin(beta[0], tol=0.1, resample=True).indices.max())
    return fit.summary(["alpha", "beta"], prob=0.8)


def drawn(fit: sc.CoresetFit, folder: Path) -> None:
    """The pictures."""
    posteriors = {"coreset": fit, "laplace": fit.laplace}
    ax: Axes = sc.plots.plot_forest(posteriors, var_names=["beta"], scale="standardised")
    sc.plots.plot_weights(fit, ax=plt.figure().add_subplot())
    sc.plots.plot_path(fit.coreset)
    print(*fit.coreset.columns)
    sc.plots.plot_certificate(fit.certificate).set_xlabel("log weight")
    sc.plots.plot_density(posteriors, ["beta"])[0].set_title("slopes")
    sc.plots.plot_refinement(fit.rounds)
    fit.plot(var_names=["beta"], max_parameters=2)[0].set_title("as sampled")
    sc.plots.tidy(ax)
    plt.savefig(folder / "forest.png")
    plt.close("all")


def step_by_step(model: sc.CoresetModel, data: dict[str, Any]) -> sc.Certificate:
    """The steps of a fit, one by one, and the solvers on plain arrays."""
    reference = model.reference(data, "laplace", draws=250, seed=1)
    projection = model.project(data, reference, projection="loglik")
    coresets: list[sc.Coreset] = [sc.select(projection, 40, method, seed=1) for method in SOLVERS]
    smallest = min(coresets, key=lambda coreset: coreset.heldout_error)
    weights: float = smallest.weights.sum().item()
    print(f"{smallest.size} rows of {smallest.n_obs}, weights {weights:.0f}")
    print(smallest.to_frame().head(), smallest.subset(data)["X"].shape)
    for method in ("aiht", "orthogonal_pursuit"):
        result = sc.solvers.solve(projection.phi, projection.target, 20, method=method)
        print(method, result.relative_error, len(result.indices))
    print(sorted({*sc.solvers.METHODS, *sc.in_the_loop.METHODS}))
    completed = model.add_control_variate(data, smallest, reference)
    posterior = model.sample(data, completed, sampler=SHORT, seed=1)
    distance = sc.divergences.wasserstein(
        posterior["posterior"]["alpha"].to_numpy().ravel(), reference.draws[:, 0]
    )
    print(f"{distance:.3f}")
    certificate = model.certify(data, completed, posterior, reference=reference)
    judged = sc.certify(certificate.log_weights, certificate.heldout_error)
    assert judged.khat == certificate.khat
    return certificate


def merged(model: sc.CoresetModel) -> sc.CoresetFit:
    """A stream of two days."""
    days: list[sc.CoresetFit] = []
    for day in range(2):
        data = simulated(600, seed=day)
        fit = model.fit(data, size=30, max_rounds=1, show_progress=False, sampler=SHORT, seed=1)
        days.append(model.keep(data, fit))
    union: sc.Coreset = sc.merge([day.coreset for day in days])
    week = model.merge(days, size=30, show_progress=False, sampler=SHORT, seed=1)
    assert week.coreset.n_obs == union.n_obs
    return week


def from_files(data: dict[str, Any], folder: Path) -> pd.DataFrame:
    """Rows on disk, in a table, on a cluster; and a batch of two jobs."""
    np.savez(folder / "data.npz", **data)
    scales = {name: data[name] for name in ("alpha_scale", "beta_scale")}
    rows = {"x1": data["X"][:, 0], "x2": data["X"][:, 1], "late": data["y"]}
    table = sc.Table(rows, columns={"X": ["x1", "x2"], "y": "late"}, values=scales)
    cluster = sc.Distributed(table, "tcp://head:8786", retries=1)
    print(cluster.table.columns)
    jobs = {
        "defaults": {"model": "logistic", "data": str(folder / "data.npz"), "engine": "stanli"},
        "jobs": [{"size": [20, 40], "seed": 1}],
    }
    return sc.run_batch(jobs, folder / "work", jobs=2, dry_run=True)


def by_formula(folder: Path) -> sc.CoresetFit:
    """A formula and a table; the program is there to be read."""
    data = simulated(1_500)
    table = pd.DataFrame({"late": data["y"], "x1": data["X"][:, 0], "x2": data["X"][:, 1]})
    table["carrier"] = np.resize(["AA", "B6", "UA"], len(table))
    priors = {"b": "normal(0, 1)"}
    made: sc.Regression = sc.regression(
        "late ~ x1 + x2 + (1 | carrier)", table, family="bernoulli", priors=priors, engine="stanli"
    )
    files: list[Path] = made.write(folder / "by_formula")
    assert files[0].read_text() == made.program
    print(made.priors["sd_carrier"], made.data["N"], made.model.seen)
    others: dict[str, Any] = made.rows({"x1": [1.0], "x2": [0.5], "carrier": ["AA"]})
    print(others["N"])
    return made.fit(seed=1, size=30, max_rounds=1, show_progress=False, sampler=SHORT)


def refused() -> str:
    """What an error says."""
    try:
        sc.CoresetModel(stan_code="parameters { real", engine="stanli")
    except sc.errors.ProgramError as error:
        return str(error)
    except sc.StancoresetError as error:
        return f"another error: {error}"
    raise AssertionError("no error at all")


def scored(model: sc.CoresetModel, fit: sc.CoresetFit) -> pd.DataFrame:
    """Rows without outcomes: what each is worth, and which to observe next."""
    rows = {"X": simulated(50, seed=1)["X"]}
    worth: sc.Information = model.information(rows, fit)
    chosen: sc.Design = model.design(rows, fit, size=5, target=["beta[0]"])
    print(worth.gain.max(), worth.best(3), chosen.rows.tolist(), chosen.total, chosen.sd[-1])
    return chosen.to_frame()


def main(folder: Path) -> None:
    """Run all of it."""
    engine: sc.engines.Engine = sc.engines.resolve_engine("stanli")
    print(sc.__version__, engine.version, sc.stan_model_names())
    data = simulated(1_500)
    with sc.CoresetModel(sc.stan_model_path("logistic"), engine=engine, passes="auto") as model:
        print(model.explain(), model.identities(data))
        fit = fitted(model, data, folder)
        print(told(fit.certificate))
        print(looked_at(fit))
        drawn(fit, folder)
        print(az.loo(model.log_likelihood(data, fit, draws=100)))
        left_out: sc.Loo = model.loo(data, fit, subsample=100)
        print(sc.loo_compare({"flights": left_out}), left_out.elpd + left_out.se)
        print(scored(model, fit))
        quantities = model.generate_quantities(data, fit, ["log_lik"], draws=50)
        print(quantities.posterior["log_lik"].mean())
        print(step_by_step(model, data))
        print(merged(model).markdown())
    print(from_files(data, folder))
    print(by_formula(folder).summary(["b", "r_carrier"]))
    print(refused())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
