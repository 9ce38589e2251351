"""Many fits from one file: a folder for each, resumable, with one table at the end.

May import model and what lies below it. Hands out `run_batch`, and the display of the command line.
"""

from __future__ import annotations

from stancoreset.batch.live import Live
from stancoreset.batch.run import run_and_tell, run_batch

__all__ = ["Live", "run_and_tell", "run_batch"]
