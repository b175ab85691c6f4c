import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.timeline import intervals

sets = st.lists(st.tuples(st.integers(0, 40), st.integers(-2, 12)), max_size=12).map(
    lambda rows: (
        np.array([s for s, _ in rows], np.int64),
        np.array([s + d for s, d in rows], np.int64),
    )
)


def points(covered):
    """The slow obvious version: the set of covered integer points."""
    return {p for s, e in zip(*covered, strict=True) for p in range(int(s), int(e))}


def is_merged(covered):
    starts, ends = covered
    return bool((ends > starts).all() and (starts[1:] > ends[:-1]).all())


def test_known_answer():
    a = (np.array([0, 5, 20]), np.array([10, 12, 30]))
    b = (np.array([8, 25]), np.array([22, 26]))
    assert intervals.union_length(*a) == 22
    assert [x.tolist() for x in intervals.intersection(a, b)] == [[8, 20, 25], [12, 22, 26]]
    assert [x.tolist() for x in intervals.subtraction(a, b)] == [[0, 22, 26], [8, 25, 30]]


def test_touching_intervals_join_and_do_not_intersect():
    a, b = (np.array([0]), np.array([5])), (np.array([5]), np.array([9]))
    assert intervals.overlap_length(a, b) == 0
    starts, ends = intervals.merge(np.array([5, 0]), np.array([9, 5]))
    assert (starts.tolist(), ends.tolist()) == ([0], [9])


def test_exact_beyond_the_range_of_floats():
    year_ns = 2**60
    a = (np.array([year_ns, year_ns + 3]), np.array([year_ns + 1, year_ns + 4]))
    assert intervals.union_length(*a) == 2


@given(sets)
def test_merge_covers_the_same_points(a):
    merged = intervals.merge(*a)
    assert points(merged) == points(a)
    assert is_merged(merged)
    assert intervals.union_length(*a) == len(points(a))


@given(sets, sets)
def test_set_operations_agree_with_sets_of_points(a, b):
    both, less = intervals.intersection(a, b), intervals.subtraction(a, b)
    assert points(both) == points(a) & points(b)
    assert points(less) == points(a) - points(b)
    assert is_merged(both)
    assert is_merged(less)
    assert intervals.overlap_length(a, b) == len(points(a) & points(b))
    assert intervals.union_length(*a) == intervals.overlap_length(a, b) + int(
        (less[1] - less[0]).sum()
    )


@given(sets, st.integers(0, 40), st.integers(0, 40))
def test_gaps_and_clip_split_the_window(a, x, y):
    low, high = min(x, y), max(x, y)
    inside, outside = intervals.clip(a, low, high), intervals.gaps(a, low, high)
    assert points(inside) == points(a) & set(range(low, high))
    assert points(outside) == set(range(low, high)) - points(a)
