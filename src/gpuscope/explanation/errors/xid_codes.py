"""Xid numbers of NVIDIA's kernel driver: the table `xid_codes.toml`.

It says what each number means, whose fault it is and what to do.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gpuscope.document.text import Text, extracted

Where = Literal["program", "hardware", "driver", "either", "news"]

XID_LINE = re.compile(
    r"Xid\s*\((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\)\s*:\s*(?P<code>\d{1,3})(?:\s*,\s*(?P<rest>[^\n]{0,200}))?"
)

_TABLE: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("xid_codes.toml").read_text("utf-8")
)


class Xid(NamedTuple):
    """What a number stands for.

    Attributes:
        where: where to look for the cause.
        meaning: in words.
        usable: an error of the hardware after which the device still works.
    """

    where: Where
    meaning: Text
    usable: bool


XIDS: Mapping[int, Xid] = {
    row["code"]: Xid(row["where"], extracted(row["what"]), row.get("usable", False))
    for row in _TABLE["xid"]
}

WHERE: Mapping[Where, Text] = {
    name: extracted(each["about"]) for name, each in _TABLE["where"].items()
}

REMEDIES: Mapping[Where, tuple[Text, ...]] = {
    name: tuple(extracted(fix) for fix in each["fix"]) for name, each in _TABLE["where"].items()
}

GRAVITY: Mapping[Where, int] = {name: each["gravity"] for name, each in _TABLE["where"].items()}
"""Lower is graver."""


def xid_where(code: int) -> Where:
    """Return where to look for the cause of a number; "either" for one that is not known."""
    return XIDS[code].where if code in XIDS else "either"
