"""Engines that run Stan: CmdStan, stanli and others behind one protocol.

May import stan and the top-level modules. Hands out `resolve_engine`, the protocol's types, what
engines can do, `NUTS`, its metric and its coordinates from draws, files of chains as CmdStan writes
them, and the optimiser that finds a mode.
"""

from __future__ import annotations

from stancoreset.engines.bars import chain_bars
from stancoreset.engines.base import (
    FARTHEST,
    SAMPLER_STATS,
    BoundModel,
    Capabilities,
    Closing,
    Compiled,
    Density,
    Engine,
    Float,
    RowModel,
    SampleResult,
    StanData,
    parameter_names,
)
from stancoreset.engines.chain_csv import Chain, write_chain
from stancoreset.engines.climbing import (
    Climbable,
    Step,
    Summit,
    at_point,
    climb,
    mode_of,
    stan_init,
)
from stancoreset.engines.compile_options import include_paths, refuse_arguments, with_options
from stancoreset.engines.controlled import CompiledWithControl, compile_controlled, controlled_for
from stancoreset.engines.coordinates import Coordinates, Moving, coordinates_for
from stancoreset.engines.inits import check_inits, initial_points, recorded_inits
from stancoreset.engines.metric import (
    DENSE_DRAWS,
    DENSE_PARAMETERS,
    inverse_metric,
    metric_near,
)
from stancoreset.engines.nuts import DELTA, NUTS, SMALL_STEP, Metric, fresh_seed, refuse
from stancoreset.engines.passes import TOLERANCE, CompiledForBoth, agreement, embedded
from stancoreset.engines.resolve import ENGINES, EngineName, capabilities_of, resolve_engine

__all__ = [
    "DELTA",
    "DENSE_DRAWS",
    "DENSE_PARAMETERS",
    "ENGINES",
    "FARTHEST",
    "NUTS",
    "SAMPLER_STATS",
    "SMALL_STEP",
    "TOLERANCE",
    "BoundModel",
    "Capabilities",
    "Chain",
    "Climbable",
    "Closing",
    "Compiled",
    "CompiledForBoth",
    "CompiledWithControl",
    "Coordinates",
    "Density",
    "Engine",
    "EngineName",
    "Float",
    "Metric",
    "Moving",
    "RowModel",
    "SampleResult",
    "StanData",
    "Step",
    "Summit",
    "agreement",
    "at_point",
    "capabilities_of",
    "chain_bars",
    "check_inits",
    "climb",
    "compile_controlled",
    "controlled_for",
    "coordinates_for",
    "embedded",
    "fresh_seed",
    "include_paths",
    "initial_points",
    "inverse_metric",
    "metric_near",
    "mode_of",
    "parameter_names",
    "recorded_inits",
    "refuse",
    "refuse_arguments",
    "resolve_engine",
    "stan_init",
    "with_options",
    "write_chain",
]
