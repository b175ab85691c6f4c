"""Transparent huge pages."""

from __future__ import annotations

import pytest
from checked import findings, sorts

from gpuscope.doctor.machine import Recording


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("always [madvise] never\n", ["ok"]),
        ("[always] madvise never\n", ["ok"]),
        ("always madvise [never]\n", ["note"]),
        ("nonsense", []),
        (None, []),
    ],
)
def test_each_mode_has_its_severity(text: str | None, expected: list[str]) -> None:
    found = Recording(texts={"/sys/kernel/mm/transparent_hugepage/enabled": text})
    assert sorts(findings("huge_pages", found)) == expected
