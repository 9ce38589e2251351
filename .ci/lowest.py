"""Print a constraints file that holds every dependency at its lowest declared version."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
groups = (project["dependencies"], *project["optional-dependencies"].values())
bounds = (re.match(r"([\w.-]+)(?:\[.*\])?>=([\d.]+)", text) for group in groups for text in group)
print("\n".join(sorted({f"{bound[1]}=={bound[2]}" for bound in bounds if bound})))
