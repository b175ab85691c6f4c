"""Sorting in place of hashing gives numpy's own answers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gpuscope.analysis.columns import distinct, group_rows

numbers = st.integers(-(2**40), 2**40)


@given(arrays.arrays(np.int64, st.integers(0, 60), elements=numbers))
def test_distinct(values) -> None:
    assert distinct(values).tolist() == sorted(set(values.tolist()))


@given(
    arrays.arrays(
        np.int64, st.tuples(st.integers(1, 4), st.integers(0, 40)),
        elements=st.one_of(st.integers(-2, 3), st.integers(-(2**61), 2**61)),
    )
)  # fmt: skip
def test_group_rows(table) -> None:
    first, code = group_rows(*table)
    keys, expected = np.unique(table, axis=1, return_inverse=True)
    assert code.tolist() == expected.reshape(-1).tolist()
    assert table[:, first].tolist() == keys.tolist()
