"""Run fits, and report on them:

cd tests
python -m calibration.public --out FOLDER [--programs a,b] [--datasets 0-9] [--limit 120]
python -m calibration.public --report FOLDER [--picture FILE]

The folder calibration/public has the records of 1,000 fits.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from . import cases  # registers them
from .case import CASES, DATASETS
from .fit import fit_within, tell
from .report import picture, report
from .run import read_records, run

__all__ = ["cases", "main"]


def numbers(text: str) -> list[int]:
    """0-3,7 → 0, 1, 2, 3, 7."""
    parts = (part.partition("-") for part in text.split(","))
    return [n for first, _, last in parts for n in range(int(first), int(last or first) + 1)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="folder of records: fits in it are not repeated")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="tables of a folder's fits")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="with --report: of the ranks")
    parser.add_argument("--programs", default=",".join(CASES), help="by name, with commas between")
    parser.add_argument("--datasets", type=numbers, default=list(range(DATASETS)), help="as 0-3,7")
    parser.add_argument("--limit", type=int, default=120, help="processor seconds for a fit")
    parser.add_argument("--one", metavar="PROGRAM", help="fit one data set in this process")
    given = parser.parse_args()
    if given.one:
        tell(fit_within(CASES[given.one], given.datasets[0], given.limit))
    elif given.report:
        records = read_records(given.report)
        print(report(records))
        if given.picture:
            picture(records).savefig(given.picture, dpi=120)
    elif given.out:
        names = given.programs.split(",")
        if unknown := [name for name in names if name not in CASES]:
            parser.error(f"there is no program {unknown[0]!r}; known are {', '.join(CASES)}")
        chosen = [CASES[name] for name in names]
        for record in run(given.out, chosen, given.datasets, given.limit):
            furthest = next(iter(record.furthest.items()), ("", 0.0))
            print(
                f"{record.program} {record.dataset} {record.awkward or '-'}: {record.verdict}, "
                f"{record.processor_seconds:.0f} s, furthest {furthest[0]} {furthest[1]:.1f}, "
                f"{' '.join(record.faults) or (record.reasons or [''])[0][:100]}",
                flush=True,
            )
    else:
        parser.error("give --out FOLDER or --report FOLDER")


if __name__ == "__main__":
    main()
