"""Engines by name."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from stancoreset.checks import check_choice, check_whole
from stancoreset.engines.base import Capabilities, Engine
from stancoreset.errors import BrokenEngineError, EngineNotFoundError
from stancoreset.parallel import available_cores

if TYPE_CHECKING:
    from stancoreset.engines.cmdstan import CmdStanEngine
    from stancoreset.engines.stanli import StanliEngine

#: The names of engines; ``"auto"`` is whichever is installed.
EngineName: TypeAlias = Literal["auto", "cmdstan", "stanli"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

_HOW_TO = (
    'install the embedded engine with  pip install "stancoreset[embedded]"  or CmdStan with  '
    "install_cmdstan  (comes with cmdstanpy; needs a C++ compiler); "
    "stancoreset doctor  lists what is installed"
)


def resolve_engine(engine: EngineName | Engine = "auto", threads: int | None = None) -> Engine:
    """The engine by name: ``"auto"``, ``"cmdstan"`` or ``"stanli"``; engines pass through.

    ``"auto"`` is CmdStan if it is installed, else stanli; a variable CMDSTAN that names no
    CmdStan causes a warning. `threads` is the number of draws evaluated at the same time;
    default: the available cores.

    Raises
    ------
    OptionError
        If the name is not known.
    EngineNotFoundError
        If the engine, or with ``"auto"`` any engine, is not installed.

    Examples
    --------
    >>> resolve_engine("stanli").name
    'stanli'
    """
    if threads is not None:
        check_whole("threads", threads, 1)
    if not isinstance(engine, str):
        if isinstance(engine, type) or not isinstance(engine, Engine):
            check_choice("engine", engine, ENGINES, besides=" or an Engine")
        return engine
    check_choice("engine", engine, ENGINES, besides=" or an Engine")
    if engine != "auto":
        return _class_of(engine)(threads=threads or available_cores())
    try:
        return resolve_engine("cmdstan", threads)
    except BrokenEngineError as error:
        warnings.warn(f"{error}; engine 'auto' continues without CmdStan", stacklevel=2)
    except EngineNotFoundError:
        pass
    try:
        return resolve_engine("stanli", threads)
    except EngineNotFoundError:
        raise EngineNotFoundError(f"no engine that runs Stan is installed: {_HOW_TO}") from None


def capabilities_of(engine: Literal["cmdstan", "stanli"]) -> Capabilities:
    """The capabilities of an engine by name, whether it is installed or not.

    >>> capabilities_of("cmdstan").in_process
    False
    """
    return _class_of(engine).capabilities


def _class_of(engine: Literal["cmdstan", "stanli"]) -> type[CmdStanEngine | StanliEngine]:
    """The class of an engine, imported when it is needed."""
    if engine == "cmdstan":
        from stancoreset.engines.cmdstan import CmdStanEngine

        return CmdStanEngine
    from stancoreset.engines.stanli import StanliEngine

    return StanliEngine
