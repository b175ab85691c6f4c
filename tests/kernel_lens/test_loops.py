"""Which loops a line stands in."""

from __future__ import annotations

from gpuscope.kernel_lens.loops import LoopMap, loops_of


def nested(n):
    total = 0  # 1
    for i in range(n):  # 2
        total += i  # 3
        for j in range(i):  # 4
            total += j  # 5
        while total > 100:  # 6
            total -= 10  # 7
    else:
        total += 1  # 9, once, after the loop
    return total  # 10


def _relative(function) -> LoopMap:
    found, first = loops_of(function.__code__), function.__code__.co_firstlineno
    return LoopMap(
        {line - first: tuple(n - first for n in loops) for line, loops in found.around.items()},
        {line - first: tuple(n - first for n in loops) for line, loops in found.inside.items()},
    )


def test_lines_know_their_loops():
    found = _relative(nested)
    looped = {line: loops for line, loops in found.around.items() if loops and line != 8}
    assert looped == {2: (2,), 3: (2,), 4: (2, 4), 5: (2, 4), 6: (2, 6), 7: (2, 6)}
    assert found.inside == {2: (4, 6), 4: (), 6: ()}


def test_a_function_without_source_has_none():
    namespace: dict = {}
    exec("def f():\n    for i in range(3):\n        pass", namespace)
    assert loops_of(namespace["f"].__code__) == LoopMap({}, {})
