"""Write each notebook's Python cells as a script, for type checkers: cells.py FOLDER NOTEBOOK…"""

import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for notebook in map(Path, sys.argv[2:]):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    code = [cell for cell in code if not cell.startswith("%%")]  # of a shell
    (folder / f"notebook_{notebook.stem}.py").write_text("\n\n".join(code) + "\n", encoding="utf-8")
