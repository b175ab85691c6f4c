"""Following a thread: the same point has the same number, another iteration another one."""

from __future__ import annotations

import sys

from gpuscope.kernel_lens.visits import Keys, Sources, Walk, is_users


def ragged(rows):
    seen = 0
    for row in rows:
        for _ in range(row):
            seen += 1
    return seen


def helper(x):
    return x + 1


def twice(x):
    a = helper(x)
    b = helper(a)
    return a + b


def _follow(keys, function, *arguments):
    """Visits of a run, as (line below the function's first, number)."""
    found = []
    first = function.__code__.co_firstlineno
    walk = Walk(
        Sources(),
        keys,
        lambda key: found.append((keys.known[keys.places[key]][1] - first, key)),
        lambda code: None,
    )
    sys.settrace(walk.enter)
    try:
        function(*arguments)
    finally:
        sys.settrace(None)
    return found


def test_lanes_meet_in_the_same_iteration_of_the_same_loops():
    keys = Keys()
    short = dict.fromkeys(_follow(keys, ragged, [1, 2]))
    long = dict.fromkeys(_follow(keys, ragged, [3, 1]))
    body = 4
    common = [key for line, key in short if line == body and (line, key) in long]
    # Row 0 has 1 and 3 turns, row 1 has 2 and 1: they meet once in each row.
    assert len(common) == 2
    assert len([1 for line, _ in short if line == body]) == 3
    assert len([1 for line, _ in long if line == body]) == 4


def test_equal_lanes_make_equal_visits():
    keys = Keys()
    assert _follow(keys, ragged, [2, 2]) == _follow(keys, ragged, [2, 2])


def test_calls_are_told_apart():
    keys = Keys()
    found = _follow(keys, twice, 1)
    below = helper.__code__.co_firstlineno + 1 - twice.__code__.co_firstlineno
    inside = [key for line, key in found if line == below]
    assert len(inside) == len(set(inside)) == 2


def test_libraries_are_not_followed():
    import json

    assert not is_users(json.__file__)
    assert not is_users("<string>")
    assert is_users(__file__)
    assert Sources().loops(json.dumps.__code__) is None
