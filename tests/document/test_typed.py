"""The door for plain data: what fits comes in typed, what does not is named by its place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

from gpuscope.document.text import Text, render
from gpuscope.document.typed import MisfitError, check_lengths, check_range, typed


@dataclass(frozen=True)
class Part:
    time_s: float
    count: int = 0
    name: str = ""
    kind: Literal["a", "b"] = "a"
    energy_j: float | None = None


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    by_rank: Mapping[int, Part]
    interval_s: tuple[float, float]
    rows: npt.NDArray[np.int64]
    share: npt.NDArray[np.float64]


def data(**others: object) -> dict[str, Any]:
    return {
        "parts": [{"time_s": 1, "count": 2}, {"time_s": None, "energy_j": None}],
        "by_rank": {"0": {"time_s": 0.5}, "3": {"time_s": 0.25, "count": 4.0}},
        "interval_s": [0.5, None],
        "rows": [[1, 2], [3, 4]],
        "share": [0.5, None],
        "added by a later version": 1,
        **others,
    }


def test_what_fits_comes_in() -> None:
    found = typed(Whole, data())
    assert found.parts[0] == Part(1.0, 2)
    assert math.isnan(found.parts[1].time_s)  # null where a number must stand
    assert found.parts[1].energy_j is None
    assert found.by_rank == {0: Part(0.5), 3: Part(0.25, 4)}
    assert type(found.by_rank[3].count) is int
    assert found.interval_s[0] == 0.5
    assert math.isnan(found.interval_s[1])
    assert found.rows.tolist() == [[1, 2], [3, 4]]
    assert found.rows.dtype == np.int64
    assert np.array_equal(found.share, [0.5, np.nan], equal_nan=True)


def test_texts_stay_texts() -> None:
    name = Text("step {number}", number=3)
    found = typed(Part, {"time_s": 1.0, "name": name})
    assert found.name is name


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"parts": [{"time_s": "fast"}]}, "x.parts[0].time_s: number expected, not text"),
        ({"parts": [{"count": 1}]}, "x.parts[0].time_s: missing"),
        ({"parts": {}}, "x.parts: list expected, not object"),
        ({"parts": [1]}, "x.parts[0]: object expected, not whole number"),
        ({"parts": [{"time_s": 1, "kind": "c"}]}, "x.parts[0].kind: 'c' is not one of"),
        ({"parts": [{"time_s": 1, "count": 1.5}]}, "x.parts[0].count: whole number expected"),
        ({"parts": [{"time_s": True}]}, "x.parts[0].time_s: number expected, not true or false"),
        ({"by_rank": {"0": {"time_s": 1}, "7": {"time_s": ""}}}, "x.by_rank[7].time_s: number"),
        ({"by_rank": {"first": {"time_s": 1}}}, "x.by_rank: whole number expected, not text"),
        ({"interval_s": [1.0]}, "x.interval_s: list of 2 expected, not of 1"),
        ({"rows": [1, "2"]}, "x.rows[1]: whole number expected, not text"),
        ({"rows": [[1, 2], [3, 2**70]]}, "x.rows[1][1]: "),
        ({"rows": [[1, 2], [3]]}, "x.rows: "),
        ({"rows": [1, [2]]}, "x.rows[1]: whole number expected, not list"),
        ({"rows": "12"}, "x.rows: list expected, not text"),
        ({"share": [0.5, "x"]}, "x.share[1]: number expected, not text"),
    ],
)
def test_what_does_not_fit_is_named_by_its_place(others: dict[str, Any], said: str) -> None:
    with pytest.raises(MisfitError) as caught:
        typed(Whole, data(**others), "x")
    assert str(caught.value).startswith(said)
    assert render(caught.value.args[0], "zh").startswith(said.partition(":")[0])


def test_columns() -> None:
    check_lengths({"a": [1, 2], "b": np.zeros(2)}, "t")
    with pytest.raises(MisfitError, match=r"t\.b: 1 rows, but 'a' has 2"):
        check_lengths({"a": [1, 2], "b": [1]}, "t")
    check_range([0, 4], 0, 5, "t.a")
    with pytest.raises(MisfitError, match=r"t\.a\[1\]: 5 points outside"):
        check_range([0, 5], 0, 5, "t.a")
