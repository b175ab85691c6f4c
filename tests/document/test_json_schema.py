"""Types as JSON Schemas: what `plain` writes of them fits, and nothing else does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
import pytest

from gpuscope.document.json_schema import Schemas
from gpuscope.document.plain import plain
from gpuscope.document.text import Text
from gpuscope.document.translations import spoken

validators = pytest.importorskip("jsonschema")


class Corner(TypedDict):
    """Written by hand."""

    name: str
    more: NotRequired[int]


@dataclass(frozen=True)
class Part:
    """A part.

    Attributes:
        size_m, width_m: how large it is, over
            two lines.
        within: the part that it belongs to.
    """

    size_m: float
    width_m: float | None
    kind: Literal["a", "b"]
    pair: tuple[int, str]
    columns: npt.NDArray[np.float64]
    said: Text
    by_name: Mapping[str, tuple[bool, ...]]
    within: Part | None = None


def part(**changed: Any) -> Part:
    fields: dict[str, Any] = {"size_m": math.nan, "width_m": None, "kind": "a", "pair": (1, "x")}
    more = {"columns": np.ones(2), "said": Text("parts"), "by_name": {"k": (True,)}}
    return Part(**(fields | more | changed))


def fits(kind: Any, data: object, *, speaking: bool = False) -> bool:
    schemas = Schemas(spoken=speaking)
    schema = {**schemas.of(kind), "$defs": schemas.definitions}
    return bool(validators.Draft202012Validator(schema).is_valid(data))


def test_what_is_written_fits() -> None:
    assert fits(Part, plain(part(within=part())))
    assert fits(Part, plain(part(columns=np.ones((2, 3)))))
    assert fits(Part, spoken(plain(part())), speaking=True)
    assert not fits(Part, plain(part()), speaking=True)


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "c"}, {"pair": (1,)}, {"pair": (1, "x", 2)}, {"size_m": "1"}, {"by_name": {"k": 1}}],
)
def test_nothing_else_does(wrong: dict[str, Any]) -> None:
    assert not fits(Part, plain(part(**wrong)))
    assert not fits(Part, plain(part(within=part(**wrong))))


def test_what_may_be_left_out() -> None:
    assert fits(Corner, {"name": "x"})
    assert not fits(Corner, {"more": 1})


def test_docstrings_describe() -> None:
    schemas = Schemas()
    schemas.of(Part)
    told = {k: v.get("description") for k, v in schemas.definitions["Part"]["properties"].items()}
    assert told["size_m"] == told["width_m"] == "how large it is, over two lines."
    assert told["kind"] is None


def test_what_no_plain_data_is_made_of() -> None:
    with pytest.raises(TypeError, match="no plain data"):
        Schemas().of(complex)
