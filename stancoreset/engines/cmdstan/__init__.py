"""CmdStan: programs compiled to executables, run as processes.

May import engines' files, stan and the ground floor. Hands out `CmdStanEngine`, and the
check of the folder that keeps its CSV files.
"""

from __future__ import annotations

from stancoreset.engines.cmdstan.engine import HOW_TO_INSTALL, CmdStanEngine
from stancoreset.engines.cmdstan.files import require_csv_folder

__all__ = [
    "HOW_TO_INSTALL",
    "CmdStanEngine",
    "require_csv_folder",
]
