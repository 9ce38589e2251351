"""``python -m stancoreset``: the command line of this Python's installation."""

from __future__ import annotations

import sys

from stancoreset.cli import main

if __name__ == "__main__":
    sys.exit(main())
