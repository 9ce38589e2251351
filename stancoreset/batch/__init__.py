"""Many fits from one file, each in its own folder, resumable, summarised in one table.

May import model and the rooms below it. Hands out `run_batch`, and the command line's display.
"""

from __future__ import annotations

from stancoreset.batch.live import Live
from stancoreset.batch.run import run_and_tell, run_batch
from stancoreset.batch.summary import told_errors

__all__ = ["Live", "run_and_tell", "run_batch", "told_errors"]
