"""Small recorded timelines, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuscope.timeline.types import EVENT_KINDS, Events, Lane, Recorded, Step, Timeline


def timeline(
    host: Sequence[tuple[str, int, int]],
    device: Sequence[tuple[int, int, int]],
    steps: Sequence[tuple[int, int]] = (),
) -> Timeline:
    """Events on one host thread and one stream.

    Args:
        host: (kind, start, duration), in order.
        device: (start, duration, row in `host` that launched it, or -1).
        steps: the host's marks.
    """
    rows = [(start, length, EVENT_KINDS.index(kind), 0) for kind, start, length in host]
    rows += [(start, length, 0, 1) for start, length, _ in device]
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], rows[i][3]))
    place = {old: new for new, old in enumerate(order)}
    start, length, kind, lane = (np.array([rows[i][c] for i in order], np.int64) for c in range(4))
    none = np.full(len(rows), -1, np.int64)
    events = Events(start, length, np.zeros(len(rows), np.int64), kind, lane, none, none, none)
    made = sorted(
        (place[len(host) + i], place[launch] if launch >= 0 else -1)
        for i, (_, _, launch) in enumerate(device)
    )
    recorded = None
    if device:
        n = len(made)
        unknown, wide = np.full(n, -1, np.int64), np.full((n, 3), -1, np.int64)
        recorded = Recorded(
            np.array([e for e, _ in made]),
            wide,
            wide,
            unknown,
            unknown,
            np.full(n, np.nan),
            unknown,
            unknown,
            unknown,
            np.array([at for _, at in made]),
            unknown,
            unknown,
            unknown,
        )
    return Timeline(
        ("x",),
        (Lane("host", "host", 0, -1), Lane("stream 7", "stream")),
        events,
        steps=tuple(Step(a, b) for a, b in steps),
        origin="measured",
        recorded=recorded,
    )
