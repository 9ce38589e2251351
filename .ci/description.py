"""The package's long description: README.md, whose links lead somewhere on a package index too.

An index has none of the repository's files. Links to them lead to the address `Source` of
``[project.urls]``; as long as there is none, they are plain text, and pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


def described(text: str, source: str | None) -> str:
    """README's text with absolute links, or without links."""

    def absolute(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if source is None:
            return "" if picture else words
        kind = "raw" if picture else "blob"
        return f"{picture}[{words}]({source.rstrip('/')}/{kind}/HEAD/{target})"

    return re.sub(r"\n{3,}", "\n\n", _LINK.sub(absolute, text))


class Description(MetadataHookInterface):
    """Hatchling's hook for ``dynamic = ["readme"]``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": described(text, source),
        }
