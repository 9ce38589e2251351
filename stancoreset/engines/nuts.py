"""NUTS' options: one list for every engine, checked before sampling.

Engines treat numbers out of range differently: some accept them, others end.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from stancoreset.checks import check_choice, check_ranges, is_number, near_misses, option, shown
from stancoreset.engines.base import Capabilities, Float
from stancoreset.engines.metric import DENSE_PARAMETERS
from stancoreset.errors import OptionError

#: Names of mass matrices, cmdstanpy's short ones too.
Metric: TypeAlias = Literal["diag_e", "diag", "dense_e", "dense", "unit_e"]

#: Default number of warm-up iterations, as in Stan.
WARMUP = 1000
#: Default number of warm-up iterations with a known metric. Stan leaves it as it is in warm-ups
#: shorter than its phases of 75, 25 and 50 iterations, which adapt the step size alone.
KNOWN_WARMUP = 149
#: Default target acceptance rate, as in Stan.
DELTA = 0.8
#: Default target acceptance rate with a known dense metric.
DENSE_DELTA = 0.98
#: Step, in units of a dense metric, that is small enough already at Stan's target. A leapfrog step
#: is stable up to 2; of smooth densities steps are 0.3 to 0.9 at Stan's target, 0.2 to 0.4 at that
#: of a dense metric (real tables). At a kink, as of a Laplace prior, energy errors fall with the
#: first power of a step only: that target asked for 0.017 of Prophet's program, 254 steps a draw.
SMALL_STEP = 0.2

_ADAPTS = "NUTS on a coreset takes seconds and adapts automatically; leave it out"
_DYNAMICS = (
    "unconstrained draws are in the container's group unconstrained_posterior; for gradients and "
    "momenta run model.stan_code with cmdstanpy"
)
#: Arguments of ``cmdstanpy.CmdStanModel.sample`` that do not apply here, with the reason.
_REFUSED = {
    "threads_per_chain": "a coreset's rows are too few to divide among threads; "
    "parallel_chains says how many chains run at a time",
    "chain_ids": "chains are counted from 1; for other random numbers give another seed",
    "inv_metric": f"it is a property of the posterior to be sampled: {_ADAPTS}",
    "adapt_engaged": _ADAPTS,
    "fixed_param": "it makes no posterior draws; model.generate_quantities(data, fit) "
    "evaluates generated quantities",
    "sig_figs": "all 18 digits are always written: log densities are differenced",
    "save_diagnostics": _DYNAMICS,
    "save_latent_dynamics": _DYNAMICS,
    "save_profile": "to profile a program run it with cmdstanpy; model.stan_code is the weighted "
    "one",
    "time_fmt": "each round writes its CSV files to a separate folder; name that "
    "(engine_output_dir in fit, output_dir in sample)",
    "timeout": "interrupt it instead (Ctrl-C, SIGTERM): finished stages are kept in output_dir, "
    "and resume=True continues",
    "force_one_process_per_chain": "every chain is a separate process on CmdStan and a thread on "
    "stanli",
}


@dataclass(frozen=True, kw_only=True)
class NUTS:
    """Options of NUTS; names, meaning and defaults are those of cmdstanpy's ``sample``.

    Attributes
    ----------
    chains, iter_sampling : int
    iter_warmup : int, optional
        Default: 1,000; or 149 if the metric comes from draws near the posterior. Stan then leaves
        the metric as it is, and warm-up adapts only the step size.
    thin : int
        Keep every `thin`-th draw; ``iter_sampling`` counts draws before thinning.
    keep_every : int
        Keep every `keep_every`-th of the thinned draws in memory and in the posterior. The CSV
        files in ``engine_output_dir`` (in `sample`, ``output_dir``) hold all draws. A fit that
        lengthens its chains sets this by itself if draws of thousands of parameters would fill the
        memory; it keeps no fewer draws than were asked for.
    save_warmup : bool
        Whether to keep warm-up in the container's group ``warmup_posterior``.
    adapt_delta : float, optional
        Default: 0.8; or 0.98 if the metric is dense and comes from draws near the posterior.
        Trajectories are then so short that smaller steps, which diverge less often, cost little.
    max_treedepth : int
    metric : {"diag_e", "dense_e", "unit_e"}, optional
        The names ``"diag"`` and ``"dense"`` are accepted too. Default: ``"diag_e"``; if the metric
        comes from draws near the posterior and warm-up keeps it, ``"dense_e"`` provided that there
        are enough draws.
    step_size : float or sequence of float, optional
        Step size at the start of adaptation; a sequence, one for each chain, with CmdStan only.
    adapt_init_phase, adapt_metric_window, adapt_step_size : int, optional
        Numbers of iterations in the phases of warm-up; CmdStan only.
    parallel_chains : int, optional
        Number of chains at a time; default: the number of cores.
    show_console : bool
        Whether to print Stan's output instead of progress bars.
    refresh : int
        Iterations between two updates of the bars, or two lines on the console.

    Raises
    ------
    OptionError
        If an option is invalid; the message names it, its value and the expected one.

    Examples
    --------
    >>> NUTS(thin=5).draws
    200
    >>> NUTS(chains=0)
    Traceback (most recent call last):
    stancoreset.errors.OptionError: chains is 0, expected a whole number of at least 1
    """

    chains: int = option(4, "NUTS chains", least=1)
    iter_warmup: int | None = option(
        None,
        f"warm-up iterations per chain; default: {WARMUP}, or {KNOWN_WARMUP} if the metric comes "
        "from draws near the posterior",
        least=0,
    )
    iter_sampling: int = option(1000, "iterations per chain after warm-up", least=1)
    thin: int = option(1, "keep every THIN-th draw", least=1)
    keep_every: int = option(
        1,
        "keep every KEEP_EVERY-th of the thinned draws in memory; CSV files have all of them",
        least=1,
    )
    save_warmup: bool = option(False, "keep warm-up draws, apart from the posterior")
    adapt_delta: float | None = option(
        None,
        f"target acceptance rate of NUTS; default: {DELTA}, or {DENSE_DELTA} if the metric is "
        "dense and comes from draws near the posterior",
    )
    max_treedepth: int = option(10, "largest tree depth of NUTS", least=1)
    metric: Metric | None = option(
        None,
        "mass matrix: diag_e, dense_e or unit_e; default: diag_e, or the kind of the metric that "
        "comes from draws near the posterior",
    )
    step_size: float | Sequence[float] | None = option(None, "initial step size")
    adapt_init_phase: int | None = option(
        None, "iterations of warm-up's first phase; CmdStan only", least=0, cmdstan=True
    )
    adapt_metric_window: int | None = option(
        None, "iterations of the metric's first window; CmdStan only", least=0, cmdstan=True
    )
    adapt_step_size: int | None = option(
        None, "iterations of warm-up's last phase; CmdStan only", least=0, cmdstan=True
    )
    parallel_chains: int | None = option(
        None, "number of chains at the same time; default: number of cores", least=1
    )
    show_console: bool = option(False, "print Stan's output instead of progress bars")
    refresh: int = option(100, "iterations between two updates of the bars", least=1)

    def __post_init__(self) -> None:
        check_ranges(self)
        delta = self.adapt_delta
        if delta is not None and not (is_number(delta) and 0 < delta < 1):
            raise OptionError(f"adapt_delta is {shown(delta)}, expected a number between 0 and 1")
        if self.metric is not None:
            values = "; its values cannot be given, NUTS on a coreset finds them in seconds"
            check_choice("metric", self.metric, get_args(Metric), besides=values)
        if self.metric in ("diag", "dense"):
            object.__setattr__(self, "metric", f"{self.metric}_e")
        self._check_step_size()

    def _check_step_size(self) -> None:
        size: Any = self.step_size
        if size is None:
            return
        each = [size] if is_number(size) else size
        listed = isinstance(each, Sequence | np.ndarray) and not isinstance(each, str)
        if not listed or not all(is_number(s) and 0 < s <= sys.float_info.max for s in each):
            raise OptionError(
                f"step_size is {shown(size)}, expected a number above 0, or a list of them"
            )
        if not is_number(size) and len(each) != self.chains:
            raise OptionError(
                f"step_size has {len(each)} numbers, expected one, or one for each of "
                f"{self.chains} chains"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> NUTS:
        """Create from options by name.

        An `OptionError` is also raised for an unknown name, with similar names, and for arguments
        of cmdstanpy that do not apply here, with the reason.
        """
        known = cls.names()
        for name in options:
            if name in known:
                continue
            refuse(name)
            meant = near_misses(name, known)
            raise OptionError(
                f"option {name!r} is not known to NUTS; "
                + (f"did you mean {' or '.join(meant)}? " if meant else "")
                + f"it takes {', '.join(known)}"
            )
        return cls(**options)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all options."""
        return tuple(member.name for member in fields(cls))

    @property
    def apart(self) -> int:
        """Number of transitions from a draw in memory to the next."""
        return int(self.thin) * int(self.keep_every)

    @property
    def draws(self) -> int:
        """Number of draws of each chain in memory."""
        return -(-int(self.iter_sampling) // self.apart)

    def step_sizes(self) -> list[float] | None:
        """Initial step size of each chain."""
        if self.step_size is None:
            return None
        sizes = np.broadcast_to(np.asarray(self.step_size, dtype=np.float64), (self.chains,))
        return [float(size) for size in sizes]

    def completed(self, inv_metric: Float | None = None) -> NUTS:
        """Fill in the metric's kind, the length of warm-up and adapt_delta, unless they are given.

        With a known inverse metric, (P,) or (P, P), warm-up is short and leaves the metric as it
        is, unless its length or phases are given. A longer warm-up estimates the metric again, in
        windows too short for a dense metric.
        """
        phases = (self.adapt_init_phase, self.adapt_metric_window, self.adapt_step_size)
        known = inv_metric is not None and phases == (None, None, None)
        warmup = self.iter_warmup
        if warmup is None:
            warmup = KNOWN_WARMUP if known and self.metric != "unit_e" else WARMUP
        kept = known and warmup <= KNOWN_WARMUP
        dense = kept and np.asarray(inv_metric).ndim == 2
        metric = self.metric or ("dense_e" if dense else "diag_e")
        delta = self.adapt_delta
        if delta is None:
            delta = DENSE_DELTA if kept and metric == "dense_e" else DELTA
        return replace(self, metric=metric, iter_warmup=warmup, adapt_delta=delta)

    @property
    def warmup(self) -> int:
        """Number of warm-up iterations without a known metric."""
        return WARMUP if self.iter_warmup is None else int(self.iter_warmup)

    @property
    def delta(self) -> float:
        """Target acceptance rate without a known metric."""
        return DELTA if self.adapt_delta is None else float(self.adapt_delta)

    def delta_of_groups(self, dimensions: int, many: float = 0.7) -> float:
        """Target acceptance rate with a known metric, for a program with groups.

        It is 0.7 with more parameters than a dense metric may have, and otherwise Stan's own. With
        a dense metric a lower target does not shorten trajectories: for 340 people and items 4 of
        4,000 transitions diverged at 0.7, and none of 2,000 at 0.8.

        >>> NUTS().delta_of_groups(4_006), NUTS().delta_of_groups(340)
        (0.7, 0.8)
        """
        short = self.adapt_delta is None and dimensions > DENSE_PARAMETERS
        return many if short else self.delta

    def settings(self) -> dict[str, Any]:
        """Options that determine the draws, as plain values; rare ones only if they are set.

        ``thin`` is the number of transitions between two draws in memory.
        """
        always = ("chains", "iter_sampling", "max_treedepth")
        never = ("thin", "keep_every", "parallel_chains", "show_console", "refresh")
        found = {
            member.name: getattr(self, member.name)
            for member in fields(self)
            if member.name in always
            or (member.name not in never and getattr(self, member.name) != member.default)
        }
        found |= {"thin": self.apart} if self.apart > 1 else {}
        return found | ({"step_size": self.step_sizes()} if self.step_size is not None else {})

    def require_capabilities(self, engine: str, able: Capabilities) -> None:
        """Refuse options that the engine of this name is not `able` to follow."""
        if not able.samples:
            raise OptionError(
                f"engine {engine!r} cannot run NUTS: use another engine, or method='gaussian', "
                "which does not need NUTS"
            )
        if self.iter_warmup == 0 and not able.samples_without_warmup:
            raise OptionError(
                f"iter_warmup is 0, but engine {engine!r} adapts its steps in warm-up; expected a "
                "whole number of at least 1"
            )
        for member in fields(self):
            given = member.metadata["cmdstan"] and getattr(self, member.name) is not None
            if given and not able.warmup_phases:
                raise OptionError(
                    f"{member.name} is {getattr(self, member.name)!r}, but engine {engine!r} has "
                    "fixed phases of warm-up; leave it out, or use engine='cmdstan'"
                )
        several = self.step_size is not None and not is_number(self.step_size)
        if several and not able.step_size_of_each_chain:
            raise OptionError(
                f"step_size is {shown(self.step_size)}, but engine {engine!r} starts all chains "
                "with the same step size; give one number, or use engine='cmdstan'"
            )


def refuse(name: str) -> None:
    """Raise if this is an argument of cmdstanpy's ``sample`` that does not apply here."""
    if name in _REFUSED:
        raise OptionError(
            f"{name} is an argument of cmdstanpy that does not apply here: {_REFUSED[name]}"
        )


def fresh_seed() -> int:
    """Draw a random seed for ``seed=None``, to be stored with the result."""
    return int(np.random.SeedSequence().generate_state(1)[0]) >> 1
