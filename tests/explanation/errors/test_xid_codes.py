"""Xid numbers: what the table says of those that everyone meets."""

from __future__ import annotations

import pytest

from gpuscope.document.text import render
from gpuscope.explanation.errors.xid_codes import (
    GRAVITY,
    REMEDIES,
    WHERE,
    XID_LINE,
    XIDS,
    xid_where,
)


@pytest.mark.parametrize(
    ("code", "where"),
    [
        (13, "program"),
        (31, "program"),
        (45, "news"),
        (48, "hardware"),
        (79, "hardware"),
        (119, "driver"),
        (9999, "either"),
    ],
)
def test_where_to_look(code: int, where: str) -> None:
    assert xid_where(code) == where


def test_each_place_has_words_remedies_and_a_gravity() -> None:
    assert set(WHERE) == set(REMEDIES) == set(GRAVITY)
    assert {xid.where for xid in XIDS.values()} <= set(WHERE)
    assert all(xid.meaning and render(xid.meaning, "zh") for xid in XIDS.values())


@pytest.mark.parametrize(
    ("line", "bus", "code"),
    [
        ("NVRM: Xid (PCI:0000:c6:00): 79, pid=1101, name=python, GPU fell", "0000:c6:00", 79),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "0000:03:00", 14),
    ],
)
def test_lines_are_read(line: str, bus: str, code: int) -> None:
    match = XID_LINE.search(line)
    assert match is not None
    assert (match["bus"], int(match["code"])) == (bus, code)
