"""The README for a package index: without what leads nowhere there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n*")
_LONE_LINK = re.compile(r"^\[[^\]]*\]\((?!https?:)[^)]*\)\n+", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)[^)]*\)")


def for_index(text: str) -> str:
    """Take a README's relative pictures out, and leave the words of its relative links."""
    return _LINK.sub(r"\1", _LONE_LINK.sub("", _IMAGE.sub("", text)))


class ReadmeHook(MetadataHookInterface):
    """Puts it into the metadata of what is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(text)}
