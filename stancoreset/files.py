"""Files that nobody ever sees half of, and names made from content."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stancoreset.errors import OutputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["atomic_path", "content_key", "read_numbers"]


def content_key(*parts: Any) -> str:
    """A short hash of texts and plain values, for names and fingerprints.

    Examples
    --------
    >>> content_key("model", {"a": 1}) == content_key("model", {"a": 1})
    True
    """
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when the block ends well.

    Raises
    ------
    OutputError
        If the folder cannot be written to.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> (folder / "a.txt").read_text()
    'whole'
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent
        )
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_numbers(path: str | Path, **options: Any) -> pd.DataFrame:
    """A CSV file of numbers, read to the last bit; `options` go to ``pandas.read_csv``."""
    import pandas as pd

    # From version 3 on that is what pandas does by itself, and the option is deprecated.
    if int(pd.__version__.split(".")[0]) < 3:
        options["float_precision"] = "round_trip"
    return pd.read_csv(path, **options)
