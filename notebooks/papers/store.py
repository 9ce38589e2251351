"""Records of an experiment in a folder: written as they come, read when the run is resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stancoreset.errors import OutputError
from stancoreset.files import atomic_path, reading

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Store"]

Record = dict[str, Any]


@dataclass(frozen=True)
class Store:
    """A table of records, and beside it what they depend on.

    Attributes
    ----------
    file : Path
        The table, ``NAME.csv``; `about` is written to ``NAME.json``. The folder exists.
    about : mapping
        Settings that JSON can hold. A run with others cannot be resumed.
    resume : bool
        Whether to take up the records that are there; if not, the first new one replaces them.
    """

    file: Path
    about: Mapping[str, Any] = field(default_factory=dict)
    resume: bool = False

    def earlier(self) -> list[Record]:
        """The records to take up: none if there is no table yet.

        An `OutputError` names a setting in which the run in the folder differs from this one.
        """
        if not (self.resume and self.file.exists() and self.settings.exists()):
            return []
        with reading(self.settings):
            there = json.loads(self.settings.read_text(encoding="utf-8"))
        asked = json.loads(json.dumps(self.about))
        for name in sorted({*there, *asked}):
            if there.get(name) != asked.get(name):
                raise OutputError(
                    f"{self.file} holds the records of another run, which cannot be resumed: "
                    f"{name} was {there.get(name)!r}, now {asked.get(name)!r}; name another "
                    "folder, or leave out --resume to replace them"
                )
        return [{str(k): v for k, v in row.items()} for row in self.read().to_dict("records")]

    def read(self) -> pd.DataFrame:
        """The table; empty words stay empty, other gaps are nan."""
        import pandas as pd

        with reading(self.file):
            table = pd.read_csv(self.file)
        words = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
        return table.fillna(dict.fromkeys(words, ""))

    def keep(self, records: Sequence[Record]) -> None:
        """Replace the table by all records so far, numbers with six digits."""
        import pandas as pd

        with atomic_path(self.settings) as draft:
            draft.write_text(json.dumps(dict(self.about), indent=1) + "\n", encoding="utf-8")
        with atomic_path(self.file) as draft:
            pd.DataFrame(records).to_csv(draft, index=False, float_format="%.6g")

    @property
    def settings(self) -> Path:
        """The file that holds `about`."""
        return self.file.with_suffix(".json")
