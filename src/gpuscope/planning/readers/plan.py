"""Our own names: `tp = 2`, `fsdp = "zero1"`, `precision = "fp8"`, `global_batch = 64`.

What is left out is as `predict` takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, UnknownNameError
from gpuscope.outside.toml_file import no_value
from gpuscope.planning.dimensions.registry import DIMENSIONS
from gpuscope.planning.readers.registry import READERS, Existing, Reader, count, tables_of

_COUNTS = ("dp", "tp", "pp", "cp", "ep", "virtual", "microbatch")
_WORDS = ("fsdp", "schedule", "recompute")
_OF_QUESTION = ("global_batch", "seq")


def _read(text: str, devices: int, path: Path) -> Existing:
    content = tables_of(text, path)
    content = content.get("plan", content)
    beside = DIMENSIONS.names()
    known = (*_COUNTS, *_WORDS, *_OF_QUESTION, *beside)
    names = Text("A plan has: {names}.", names=", ".join(known))
    if not isinstance(content, Mapping) or not content:
        again = Text("Write for example: tp = 2")
        raise InputFileError(Text("{path} has no plan.", path=path), names, again)
    for name, value in content.items():
        if name not in known:
            raise UnknownNameError(Text("key"), name, known, names)
        if name in (*_WORDS, *beside):
            if name in beside and isinstance(value, int) and not isinstance(value, bool):
                continue
            if not isinstance(value, str):
                raise no_value(name, value, '"1f1b"' if name == "schedule" else '"full"')
        else:
            count(name, value)
    return Existing(
        {name: value for name, value in content.items() if name in (*_COUNTS, *_WORDS)},
        content.get("global_batch"),
        content.get("seq"),
        {name: str(value) for name, value in content.items() if name in beside},
    )


READERS.add("plan", Reader(lambda text: True, _read))
