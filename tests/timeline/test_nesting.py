"""Call trees by columns against a stack that walks event by event."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuscope.timeline.nesting import climb, nearest, parents
from gpuscope.timeline.types import EVENT_KINDS, Events, Lane, Timeline

OPERATOR, KERNEL = EVENT_KINDS.index("operator"), EVENT_KINDS.index("kernel")
LANES = (Lane("host a", "host"), Lane("host b", "host"), Lane("stream 7", "stream"))


def timeline(rows):
    """From (start, duration, lane, kind) in the order of events."""
    rows = sorted(rows, key=lambda r: (r[0], r[2], -r[1]))
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)] or [
        np.zeros(0, np.int64)
    ] * 4
    start, duration, lane, kind = columns
    nothing = np.full(len(start), -1, np.int64)
    events = Events(start, duration, nothing * 0, kind, lane, nothing, nothing, nothing)
    return Timeline(names=("x",), lanes=LANES, events=events)


def by_stack(t):
    """Proper nesting only: the innermost open event of the lane."""
    events, found = t.events, []
    stacks = {0: [], 1: []}
    for i in range(len(events)):
        lane = int(events.lane[i])
        if lane not in stacks or events.kind[i] == KERNEL:
            found.append(-1)
            continue
        stack = stacks[lane]
        while stack and events.end_ns[stack[-1]] <= events.start_ns[i]:
            stack.pop()
        found.append(stack[-1] if stack else -1)
        stack.append(i)
    return found


def test_a_small_tree():
    t = timeline(
        [
            (0, 100, 0, OPERATOR),
            (10, 40, 0, OPERATOR),
            (20, 10, 0, OPERATOR),
            (60, 10, 0, OPERATOR),
            (200, 5, 0, OPERATOR),
            (15, 90, 1, OPERATOR),
            (12, 50, 2, KERNEL),
        ]
    )
    start = t.events.start_ns.tolist()
    got = {s: start[p] if p >= 0 else None for s, p in zip(start, parents(t), strict=True)}
    assert got == {0: None, 10: 0, 12: None, 15: None, 20: 10, 60: 0, 200: None}


def test_a_child_that_ends_a_little_late_is_still_a_child():
    t = timeline([(0, 10, 0, OPERATOR), (4, 7, 0, OPERATOR)])
    assert parents(t).tolist() == [-1, 0]


def test_an_event_that_mostly_lies_after_is_no_child():
    t = timeline([(0, 10, 0, OPERATOR), (9, 20, 0, OPERATOR)])
    assert parents(t).tolist() == [-1, -1]


def test_no_events():
    assert len(parents(timeline([]))) == 0


@st.composite
def trees(draw):
    """Properly nested events on two host lanes, of whole lengths."""
    rows = []

    def fill(low, high, lane, depth):
        at = low
        while at < high and draw(st.booleans()):
            begin = draw(st.integers(at, high - 1))
            end = draw(st.integers(begin + 1, high))
            rows.append((begin, end - begin, lane, OPERATOR))
            if depth < 4 and end - begin > 1:
                fill(begin, end, lane, depth + 1)
            at = end

    for lane in (0, 1):
        fill(0, 64, lane, 0)
    return rows


def spans(t, found):
    """Events with equal windows are each other's parents in either order: compare windows."""
    events = t.events
    return [(int(events.start_ns[p]), int(events.end_ns[p])) if p >= 0 else None for p in found]


@given(trees())
def test_trees_agree_with_a_stack(rows):
    t = timeline(rows)
    got = parents(t).tolist()
    assert spans(t, got) == spans(t, by_stack(t))
    assert all(p < i for i, p in enumerate(got)), "a parent comes before, so there is no circle"


@given(trees(), st.data())
def test_nearest_agrees_with_walking_up(rows, data):
    t = timeline(rows)
    parent = parents(t)
    n = len(parent)
    marked = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)

    def walk(i):
        while i >= 0 and not marked[i]:
            i = int(parent[i])
        return i

    assert nearest(parent, marked).tolist() == [walk(i) for i in range(n)]
    rows = np.array([-1, *range(n), *range(n)], np.int64)
    assert climb(parent, marked, rows).tolist() == [-1, *(walk(i) for i in [*range(n)] * 2)]
    assert nearest(parent, marked, own=False).tolist() == [walk(int(parent[i])) for i in range(n)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30), st.integers(0, 1)), max_size=40))
def test_overlapping_events_end_and_make_no_circles(rows):
    t = timeline([(*row, OPERATOR) for row in rows])
    found = parents(t)
    events = t.events
    for i, p in enumerate(found.tolist()):
        assert p < i
        if p >= 0:
            assert events.lane[p] == events.lane[i]
            assert events.start_ns[p] <= events.start_ns[i] < events.end_ns[p]
