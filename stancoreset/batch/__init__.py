"""Many fits from one file, each in its own folder, resumable, summarised in one table.

May import model and the rooms below it. Hands out `run_batch`, and the command line's display.
"""

from __future__ import annotations

from stancoreset.batch.live import Live
from stancoreset.batch.run import UnwrittenSummary, run_batch
from stancoreset.batch.summary import told_errors

__all__ = ["Live", "UnwrittenSummary", "run_batch", "told_errors"]
