"""Sorting in place of hashing gives numpy's own answers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gpuscope.analysis.columns import distinct, group_rows, longest_of

numbers = st.integers(-(2**40), 2**40)


@given(arrays.arrays(np.int64, st.integers(0, 60), elements=numbers))
def test_distinct(values: npt.NDArray[np.int64]) -> None:
    assert distinct(values).tolist() == sorted(set(values.tolist()))


@given(
    arrays.arrays(
        np.int64,
        st.tuples(st.integers(1, 4), st.integers(0, 40)),
        elements=st.one_of(st.integers(-2, 3), st.integers(-(2**61), 2**61)),
    )
)
def test_group_rows(table: npt.NDArray[np.int64]) -> None:
    first, code = group_rows(*table)
    keys, expected = np.unique(table, axis=1, return_inverse=True)
    assert code.tolist() == expected.reshape(-1).tolist()
    assert table[:, first].tolist() == keys.tolist()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=20))
def test_the_longest_of_each_group_is_the_first_of_equal_ones(rows: list[tuple[int, int]]) -> None:
    group = np.array([g for g, _ in rows], np.int64)
    length = np.array([v for _, v in rows], np.int64)
    found = longest_of(group, length, 5)
    for g in range(5):
        own = [i for i, (each, _) in enumerate(rows) if each == g]
        if own:
            assert found[g] == max(own, key=lambda i: (rows[i][1], -i))
