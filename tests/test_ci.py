"""What `.ci/part` can do, `.ci/run` does: no part of the checks is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

CI = Path(__file__).parents[1] / ".ci"


def test_every_part_is_run():
    parts = re.findall(r"^([a-z0-9]+)\)", (CI / "part").read_text(encoding="utf-8"), re.MULTILINE)
    script = (CI / "run").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^{\n(.*?)^}", script, re.MULTILINE | re.DOTALL)
    assert len(parts) > 5
    assert [part for part in parts if part not in re.findall(r"[a-z0-9]+", listed)] == []
