"""Mistakes that mypy has to find: where it finds none, it says that the ignore is not used."""

from __future__ import annotations

from typing import Any

import stancoreset as sc


def in_names(data: dict[str, Any], phi: Any) -> None:
    """Misspelt names of methods, references, engines, and of options."""
    model = sc.CoresetModel("model.stan", engine="cmdstn")  # type: ignore[arg-type]
    sc.CoresetModel("model.stan", passes="never")  # type: ignore[arg-type]
    sc.engines.resolve_engine("stan")  # type: ignore[arg-type]
    model.fit(data, method="persuit")  # type: ignore[arg-type]
    model.fit(data, reference="laplase")  # type: ignore[arg-type]
    model.fit(data, size="all")  # type: ignore[arg-type]
    model.fit(data, projection="tailor")  # type: ignore[arg-type]
    model.fit(data, iter_samplings=100)  # type: ignore[call-arg]
    model.merge([], method="gigaa")  # type: ignore[arg-type]
    reference = model.reference(data, "pilots")  # type: ignore[arg-type]
    projection = model.project(data, reference, projection="taylor")
    projection.phi  # type: ignore[attr-defined]  # noqa: B018
    sc.select(projection, 10, "sparse_vi")  # type: ignore[arg-type]
    sc.solvers.solve(phi, phi, 10, method="auto")  # type: ignore[arg-type]
    sc.NUTS(metric="dens_e")  # type: ignore[arg-type]


def in_results(fit: sc.CoresetFit) -> None:
    """Attributes that are not there, and verdicts that are never given."""
    fit.certificate.verdict == "certifed"  # type: ignore[comparison-overlap]  # noqa: B015
    fit.certificate.k_hat  # type: ignore[attr-defined]  # noqa: B018
    fit.summary(prob="0.9")  # type: ignore[arg-type]
    sc.Coresets  # type: ignore[attr-defined]  # noqa: B018
    sc.compare(fit)  # type: ignore[arg-type]
