"""CmdStan: programs compiled to executables, run as processes.

May import engines' files, stan and the ground floor. Hands out `CmdStanEngine`, the check of the
folder that keeps its CSV files, and the writing of such files from any engine's draws.
"""

from __future__ import annotations

from stancoreset.engines.cmdstan.chains import Chain, ChainFile, write_chain
from stancoreset.engines.cmdstan.engine import HOW_TO_INSTALL, CmdStanEngine
from stancoreset.engines.cmdstan.files import require_csv_folder

__all__ = [
    "HOW_TO_INSTALL",
    "Chain",
    "ChainFile",
    "CmdStanEngine",
    "require_csv_folder",
    "write_chain",
]
