"""What is written as TOML is read as the same values."""

from __future__ import annotations

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.measurement.bench.toml_text import toml_text

# Surrogates are no text; whole numbers of TOML have 64 bits.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PLAIN = st.one_of(TEXT, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
VALUE = st.one_of(PLAIN, st.lists(PLAIN, max_size=4), st.dictionaries(TEXT, PLAIN, max_size=3))
TABLE = st.dictionaries(TEXT, VALUE, max_size=5)


@given(st.dictionaries(TEXT, st.one_of(VALUE, TABLE, st.lists(TABLE, min_size=1, max_size=3))))
def test_any_document_survives(document) -> None:
    assert tomllib.loads(toml_text(document)) == document


def test_what_is_missing_is_left_out() -> None:
    assert tomllib.loads(toml_text({"a": None, "b": {"c": None, "d": 1}})) == {"b": {"d": 1}}


def test_special_numbers() -> None:
    read = tomllib.loads(toml_text({"x": math.nan, "y": -math.inf, "z": 1e300}))
    assert math.isnan(read["x"])
    assert (read["y"], read["z"]) == (-math.inf, 1e300)


def test_what_toml_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        toml_text({"a": object()})
