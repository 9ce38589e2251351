"""``python notebooks/papers NAME``: run an experiment of the papers, from any folder."""

from __future__ import annotations

import sys
from pathlib import Path

# Python looks for modules in this folder; they are those of the package `papers`, which it is.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from papers.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
