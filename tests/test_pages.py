"""README and pages: their snippets run, and their links lead somewhere.

Code cells of notebooks are run by `.ci/run`; what stands in fenced blocks is run here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from problems import BRMS_VECTOR, brms_data

import stancoreset as sc

ROOT = Path(sc.__file__).parents[1]
README = ROOT / "README.md"
NOTEBOOKS = ROOT / "notebooks"
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
PAGES = [README, *sorted(NOTEBOOKS.glob("*.md")), *sorted(NOTEBOOKS.glob("*.ipynb"))]


def prose(page: Path) -> str:
    """The Markdown of a page; of a notebook, that of its text cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def snippets(page: Path) -> list[tuple[str, str]]:
    """Fenced blocks in order, as language and code, but for the commands that install."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", prose(page), re.MULTILINE | re.DOTALL)
    return [(language, code) for language, code in blocks if "pip install" not in code]


def run(snippet: tuple[str, str], place: Path) -> None:
    """Run a snippet in a folder where `stancoreset` is the package under test."""
    commands = place / ".bin"
    commands.mkdir(exist_ok=True)
    (commands / "stancoreset").write_text(f'#!/bin/sh\nexec {sys.executable} -m stancoreset "$@"\n')
    (commands / "stancoreset").chmod(0o755)
    language, code = snippet
    program = {"python": sys.executable, "sh": "sh"}[language]
    done = subprocess.run(
        [program, *(["-e"] if language == "sh" else []), "-c", code],
        cwd=place,
        env={**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "MPLBACKEND": "agg"}
        | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"


def shortened(path: Path, rows: int) -> None:
    """Leave the first rows of the example, which stand in random order."""
    data = json.loads(path.read_text())
    few = {k: v[:rows] if isinstance(v, list) else v for k, v in data.items()}
    path.write_text(json.dumps(few | {"N": rows}))


@pytest.mark.slow  # `.ci/run` runs the first, like the cells of notebooks, with every commit
@pytest.mark.parametrize("rows", [20_000, 327_346])
def test_the_readme_runs(tmp_path, rows):
    example, *found = snippets(README)
    assert [language for language, _ in (example, *found)] == ["sh", "python", "sh"]
    run(example, tmp_path)
    shortened(tmp_path / "data.json", rows)
    for snippet in found:
        run(snippet, tmp_path)
    assert sc.load_fit(tmp_path / "run").certificate.verdict == "certified"
    assert sc.load_fit(tmp_path / "python-run").certificate.verdict == "certified"
    assert (tmp_path / "density.png").stat().st_size


@pytest.mark.cmdstan
@pytest.mark.fit
@pytest.mark.slow
@pytest.mark.parametrize("example", [False, True])
def test_the_snippet_with_cmdstan_runs(tmp_path, cmdstan, example):
    """On a program that other tests compile, or on the example that goes with the snippet."""
    if example:
        run(("sh", "stancoreset example"), tmp_path)
    else:
        (tmp_path / "model.stan").write_text(BRMS_VECTOR)
        data = {name: np.asarray(value).tolist() for name, value in brms_data().items()}
        (tmp_path / "data.json").write_text(json.dumps(data))
    ((language, code),) = snippets(NOTEBOOKS / "guide_programs.ipynb")
    assert 'engine="cmdstan"' in code
    run((language, f"import stancoreset as sc\n{code}"), tmp_path)
    assert len(list((tmp_path / "csv").glob("*.csv"))) == 4


def test_a_guide_leaves_no_other_snippet_unrun():
    """In notebooks it is a code cell that runs."""
    unrun = {page.stem for page in NOTEBOOKS.glob("guide_*.ipynb") if snippets(page)}
    assert unrun == {"guide_programs"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    missing = [
        target
        for target in targets
        if not target.startswith(("http", "attachment:"))
        and not (page.parent / target.partition("#")[0]).exists()
    ]
    assert missing == []


def test_no_link_of_the_package_is_broken_on_an_index():
    """What an index shows is what hatchling makes of README.md."""
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    shown = ProjectMetadata(str(ROOT), PluginManager()).core.readme
    spec = spec_from_file_location("description", ROOT / ".ci" / "description.py")
    assert spec is not None
    assert spec.loader is not None
    description = module_from_spec(spec)
    spec.loader.exec_module(description)
    text = README.read_text(encoding="utf-8")
    assert shown == description.described(text, None)
    assert "](" not in shown
    assert "01_quickstart.ipynb | the flights, step by step" in " ".join(shown.split())
    linked = re.findall(r"\]\(([^)]+)\)", description.described(text, "https://host/us/it/"))
    places = re.findall(r"\]\(([^)]+)\)", text)
    assert len(linked) == len(places) > 10
    for link, place in zip(linked, places, strict=True):
        kind = "raw" if place.endswith(".png") else "blob"
        assert link == f"https://host/us/it/{kind}/HEAD/{place}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_efficiency_and_effective_sample_size_are_two_things(page):
    """Statisticians read "effective draws" as that of the chains."""
    assert "effective draws" not in page.read_text(encoding="utf-8").lower()


def test_the_readme_is_short_and_lists_all_pages():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    listed = set(re.findall(r"\]\(notebooks/([^)]+)\)", text))
    names = {page.name for page in PAGES[1:] if not page.name.startswith("papers_")}
    assert names <= listed


def test_the_contributors_map_names_files_that_exist():
    """Whoever moves a file moves it on the map."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    named = set(re.findall(r"`([\w./]+(?:\.py|\.ipynb|\.md|/))`", text))
    assert len(named) > 80
    roots = (ROOT, ROOT / "stancoreset")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []
