"""A CmdStan executable with its data: densities and generated quantities at given draws.

The executable is run directly (methods ``log_prob`` and ``generate_quantities``),
because cmdstanpy accepts only one point, or its own fit. Each run reads the data again, from one
file that is written once, which takes most of the time: about 0.6 µs per number of the data,
as long as evaluating a hundred draws of a regression. So draws are cut into few blocks, one
per process, and `stancoreset.rows.sums` cuts the rows instead if there are many.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from stancoreset.engines.base import Closing, Float, StanData, as_points
from stancoreset.engines.cmdstan.files import cannot_write, read_csv, scratch_folder, write_draws
from stancoreset.engines.cmdstan.fits import SIG_FIGS, Fits
from stancoreset.engines.cmdstan.points import Order, arranged, order_of
from stancoreset.engines.cmdstan.process import Ended, failure, run
from stancoreset.engines.layout import Layout
from stancoreset.files import temporary_folder
from stancoreset.parallel import side_by_side
from stancoreset.stan.data import to_json
from stancoreset.stan.transforms import Transforms


class CmdStanBound(Closing):
    """An executable with its data file; see `stancoreset.engines.base.BoundModel`.

    `transforms` are the program's constraints for these data, `log_lik` is the generated quantity
    with the rows' log likelihoods, and `threads` the number of processes at a time.
    """

    def __init__(
        self,
        name: str,
        executable: Path,
        log_lik: str,
        transforms: Transforms,
        data: StanData,
        *,
        seed: int,
        threads: int,
    ) -> None:
        self._name = name
        self._executable = executable
        self._log_lik = log_lik
        self._transforms = transforms
        self._seed = seed
        self._threads = threads
        self._layout: Layout | None = None
        self.n_params = transforms.n_params
        self.param_names = transforms.unconstrained_names
        try:
            self._folder = temporary_folder()
            # CmdStan's files are removed even without a call of close.
            self._cleanup = weakref.finalize(self, self._folder.cleanup)
            self._data_file = to_json(data, Path(self._folder.name) / "data.json")
        except OSError as error:
            raise cannot_write(error) from None
        fits = Fits(name, executable, self._data_file, transforms, threads)
        self.mode, self.variational, self.sample = fits.mode, fits.variational, fits.sample

    # Evaluation ------------------------------------------------------------------------

    def _run(self, *arguments: str, output: Path, seed: int = 0) -> Ended:
        command = [str(self._executable), *arguments, "output", f"file={output}"]
        command += [f"sig_figs={SIG_FIGS}", "data", f"file={self._data_file}"]
        # CmdStan's seeds start at 1.
        command += ["random", f"seed={self._seed + seed + 1}"]
        return run(command, self._asked(arguments[0]))

    def _asked(self, method: str) -> str:
        return f"CmdStan's {method} of '{self._name}'"

    def _in_blocks(self, draws: Float) -> list[Float]:
        rows = as_points(draws, self.n_params, self._name)
        blocks = max(1, min(self._threads, len(rows) // 4))  # fewer are not worth a process
        return np.array_split(rows, blocks)

    def log_density(self, draws: Float) -> Float:
        """See `BoundModel.log_density`."""
        return self.log_density_gradient(draws)[0]

    def log_density_gradient(self, draws: Float) -> tuple[Float, Float]:
        """See `BoundModel.log_density_gradient`; CmdStan's method ``log_prob``."""
        blocks = self._in_blocks(draws)
        order = order_of(self._executable, max(blocks, key=len), self._log_prob)
        if order is Order.ALONE:
            blocks = [row[None] for block in blocks for row in block]
        table = np.concatenate(
            side_by_side(lambda rows: self._log_prob(rows, order), blocks, self._threads)
        )
        return table[:, 0], table[:, 1:]

    def _log_prob(self, rows: Float, order: Order) -> Float:
        """Columns lp and gradient; a point that Stan rejects ends its run and gives −∞."""
        out = np.full((len(rows), 1 + self.n_params), np.nan)
        done = 0
        while done < len(rows):
            with scratch_folder(self._folder.name) as folder:
                points, output = folder / "points.json", folder / "output.csv"
                matrix = arranged(rows[done:], order)
                points.write_text(json.dumps({"params_r": matrix.tolist()}))
                ended = self._run(
                    "log_prob", f"unconstrained_params={points}", "jacobian=1", output=output
                )
                names, table = read_csv(output)
            if not names:
                raise failure(self._asked("log_prob"), ended)
            out[done : done + len(table)] = table
            done += len(table)
            if done < len(rows):
                if ended.returncode == 0:
                    raise failure(self._asked("log_prob"), ended)
                out[done, 0] = -np.inf
                done += 1
        out[np.isnan(out[:, 0]), 0] = -np.inf
        return out

    def generated(
        self, draws: Float, names: tuple[str, ...] | None, seed: int = 0
    ) -> dict[str, Float]:
        """See `BoundModel.generated`; CmdStan's method ``generate_quantities``."""
        blocks = self._in_blocks(draws)
        # Every run has its own stream of random numbers.
        seeds = np.random.SeedSequence([self._seed, seed]).generate_state(len(blocks)) // 2
        parts = side_by_side(
            lambda block: self._generate(block[0], names, int(block[1])),
            list(zip(blocks, seeds, strict=True)),
            self._threads,
        )
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _generate(self, rows: Float, names: tuple[str, ...] | None, seed: int) -> dict[str, Float]:
        with scratch_folder(self._folder.name) as folder:
            fitted, output = folder / "fitted.csv", folder / "output.csv"
            if self.n_params:
                write_draws(fitted, self.constrain(rows), self._name)
                method = ["generate_quantities", f"fitted_params={fitted}"]
            else:  # generate_quantities wants parameters; the sampler can do without
                method = ["sample", "algorithm=fixed_param", "num_warmup=0"]
                method.append(f"num_samples={len(rows)}")
            ended = self._run(*method, output=output, seed=seed)
            columns, table = read_csv(output)
        if ended.returncode or len(table) != len(rows):
            raise failure(self._asked(method[0]), ended)
        if self._layout is None:
            self._layout = Layout.from_names(columns)
        chosen = self._layout.chosen(names, self._name)
        return {name: table[:, self._layout.columns[name]] for name in chosen}

    def log_lik(self, draws: Float) -> Float:
        """See `BoundModel.log_lik`."""
        # One seed for all, so that data which are made at random are the same for all draws.
        name, blocks = self._log_lik, self._in_blocks(draws)
        parts = side_by_side(lambda rows: self._generate(rows, (name,), 0), blocks, self._threads)
        return np.concatenate([part[name] for part in parts])

    def constrain(self, draws: Float) -> dict[str, Float]:
        """See `BoundModel.constrain`."""
        return self._transforms.constrain(np.atleast_2d(draws))

    def unconstrain(self, values: Mapping[str, Float]) -> Float:
        """See `BoundModel.unconstrain`."""
        return self._transforms.unconstrain(values)

    def close(self) -> None:
        """Remove the temporary files."""
        self._cleanup()
