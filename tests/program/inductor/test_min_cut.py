"""The cheapest cut: against all cuts of small random graphs."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.program.inductor.min_cut import UNBOUNDED, cheapest_cut


def parts(
    followers: dict[int, list[int]], kept: set[int], given_: set[int], wanted: set[int]
) -> bool:
    """Whether each wanted point can be had from kept ones without making a given one."""
    makers: dict[int, list[int]] = {}
    for point, after in followers.items():
        for other in after:
            makers.setdefault(other, []).append(point)
    stack = [point for point in wanted if point not in kept]
    seen: set[int] = set()
    while stack:
        point = stack.pop()
        if point in given_:
            return False
        if point not in seen:
            seen.add(point)
            stack += [m for m in makers.get(point, ()) if m not in kept]
    return True


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=7),
    st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14),
    st.sets(st.integers(0, 6), max_size=4),
    st.sets(st.integers(0, 6), max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_no_other_cut_is_cheaper(
    weights: list[int], edges: set[tuple[int, int]], given_: set[int], wanted: set[int]
) -> None:
    count = len(weights)
    followers: dict[int, list[int]] = {}
    for start, end in edges:
        if start < end < count:
            followers.setdefault(start, []).append(end)
    given_ = {p for p in given_ if p < count}
    wanted = {p for p in wanted if p < count}
    kept, anew = cheapest_cut(weights, followers, given_, wanted)
    assert parts(followers, kept, given_, wanted)
    assert not kept & anew
    assert wanted <= kept | anew
    cost = sum(weights[p] for p in kept)
    least = min(
        sum(weights[p] for p in chosen)
        for size in range(count + 1)
        for chosen in combinations(range(count), size)
        if parts(followers, set(chosen), given_, wanted)
    )
    assert cost == least


def test_a_chain_is_cut_where_it_is_narrow() -> None:
    # 0 (a product's result) -> 1 -> 2, both of them wider; the last is asked for.
    kept, anew = cheapest_cut([10, 30, 20], {0: [1], 1: [2]}, [0], [2])
    assert (kept, anew) == ({0}, {1, 2})
    kept, anew = cheapest_cut([10, 5, 20], {0: [1], 1: [2]}, [0], [2])
    assert (kept, anew) == ({1}, {2})


def test_what_needs_nothing_is_made_anew_and_what_cannot_be_kept_is_passed() -> None:
    assert cheapest_cut([4], {}, [], [0]) == (set(), {0})
    kept, anew = cheapest_cut([7, UNBOUNDED], {0: [1]}, [0], [1])
    assert (kept, anew) == ({0}, {1})
