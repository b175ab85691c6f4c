"""Parts of a load: of one replica, the first of them, or the same again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpuscope.serving.requests import Ints, Requests


def part_of(requests: Requests, rows: np.ndarray, replicas: int, at: int) -> Requests:
    """The requests of one replica, with its share of the places of a closed loop."""
    if replicas == 1:
        return requests
    places = requests.concurrency
    share = max(1, places // replicas + (at < places % replicas)) if places else 0
    some: dict[str, Any] = {
        name: getattr(requests, name)[rows]
        for name in ("session", "prefix", "prefix_tokens", "priority")
        if len(getattr(requests, name))
    }
    return replace(
        requests,
        arrival_s=requests.arrival_s[rows],
        input_tokens=requests.input_tokens[rows],
        output_tokens=requests.output_tokens[rows],
        concurrency=share,
        **some,
        **_names(requests, rows),
    )


def first_of(requests: Requests, count: int) -> Requests:
    """The first so many of a load that comes at its times; all where there are no more."""
    return requests if len(requests) <= count else part_of(requests, np.arange(count), 2, 0)


def _names(requests: Requests, rows: np.ndarray) -> dict[str, Any]:
    if not len(requests.blocks):
        return {}
    starts, ends = requests.block_start[rows], requests.block_start[rows + 1]
    blocks = [requests.blocks[a:b] for a, b in zip(starts, ends, strict=True)]
    return {
        "blocks": np.concatenate(blocks),
        "block_start": np.concatenate(([0], np.cumsum(ends - starts))),
    }


def anew(requests: Requests, time: Ints) -> Requests:
    """The same requests again are other people's: they find nothing of the first time's."""
    if len(requests.session):
        return replace(requests, prefix=requests.prefix + time * (requests.prefix.max() + 1))
    if len(requests.blocks):
        each = np.repeat(time, np.diff(requests.block_start))
        return replace(requests, blocks=requests.blocks + each * (requests.blocks.max() + 1))
    return requests
