"""The compiled core beside the one in plain Python: equal to the last bit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
from fresh import limits
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuscope.serving import fleet
from gpuscope.serving.engine import Engine, engine
from gpuscope.serving.fleet import serve_all
from gpuscope.serving.iteration import KEYS, SEQUENCES, Curve, IterationCost
from gpuscope.serving.record import Record
from gpuscope.serving.requests import Requests
from gpuscope.serving.schedulers import Beside, Limits

Uncompiled = Callable[..., tuple[Record, Record] | None]

NAMES = tuple(f"gpuscope.serving.compiled{part}" for part in ("_cost", "_state", "_front", ""))

COST = IterationCost(
    dense_s=Curve((1.0, 64.0, 8192.0), (4e-3, 5e-3, 0.2)),
    head_s=Curve((1.0, 256.0), (1e-4, 3e-4)),
    link_s=Curve((1.0, 8192.0), (1e-5, 1e-3)),
    prefill_s=Curve((8256.0, 33558528.0), (1e-4, 0.3)),
    decode=tuple(
        Curve(tuple(map(float, KEYS)), tuple(1e-4 + 1e-10 * n * k for k in KEYS)) for n in SEQUENCES
    ),
    near_s=Curve((128.0, 4194304.0), (2e-5, 0.1)),
    reach=128,
    graph_sizes=(1, 2, 4, 8, 16),
    scale=0.9,
)


@pytest.fixture(scope="module")
def uncompiled() -> Uncompiled:
    """`serve_compiled` with its functions left in Python: the same words, seconds sooner."""
    kept = {name: sys.modules.pop(name, None) for name in ("numba", *NAMES)}
    plain = ModuleType("numba")
    plain.njit = lambda **how: lambda function: function  # type: ignore[attr-defined]
    sys.modules["numba"] = plain
    serve_compiled = import_module(NAMES[-1]).serve_compiled
    for name, module in kept.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module
    found: Uncompiled = serve_compiled
    return found


def drawn(seed: int, count: int, rate: float, places: int) -> Requests:
    random = np.random.default_rng(seed)
    made = Requests(
        np.cumsum(random.exponential(1 / rate, count)),
        random.integers(1, 600, count),
        random.integers(1, 90, count),
    )
    return made.at_concurrency(places) if places else made


def same(one: tuple[Record, Record], other: tuple[Record, Record]) -> None:
    for name in ("intended", "started", "first", "finished", "prefill", "behind", "device", "host"):
        assert one[0].column(name).tobytes() == other[0].column(name).tobytes(), name
    assert [list(a) for a in one[1].rows] == [list(b) for b in other[1].rows]
    assert one[1].busy_s == other[1].busy_s


def plain(requests: Requests, how: Engine, room: Limits) -> tuple[Record, Record]:
    record, rows, _ = serve_all(requests, how, room, COST)
    return record, rows[0]


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000), count=st.integers(1, 60), rate=st.floats(1, 3000),
    places=st.integers(0, 9), sequences=st.integers(1, 40), tokens=st.integers(40, 3000),
    blocks=st.integers(120, 2000), chunked=st.booleans(), overlapped=st.booleans(),
    groups=st.integers(0, 2), state=st.integers(0, 3),
)  # fmt: skip
def test_the_core_is_the_same_in_other_words(
    uncompiled: Uncompiled, seed: int, count: int, rate: float, places: int, sequences: int,
    tokens: int, blocks: int, chunked: bool, overlapped: bool, groups: int, state: int,
) -> None:  # fmt: skip
    requests = drawn(seed, count, rate, places)
    how = replace(engine("vllm"), overlapped=overlapped, host_prompt_s=2e-3 * groups)
    beside = Beside(groups=groups, most=9, state=state)
    room = limits(blocks, sequences, tokens, chunked=chunked, beside=beside)
    slow = plain(requests, how, room)
    quick = uncompiled(requests, how, room, COST)
    assert (quick is None) == (sum(slow[0].preemptions) > 0)
    if quick is not None:
        same(slow, quick)


@pytest.mark.slow  # the first time on a machine it compiles: ten seconds
def test_compiled_code_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for places in (0, 7):
        requests, room = drawn(3, 900, 40.0, places), limits(tokens=1000, sequences=30)
        slow = plain(requests, engine("vllm"), room)
        with monkeypatch.context() as patch:
            patch.setattr(fleet, "LEAST_COMPILED", 0)
            same(slow, plain(requests, engine("vllm"), room))


def test_few_requests_load_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, NAMES[-1], None)  # importing it would fail
    plain(drawn(1, 200, 40.0, 0), engine("vllm"), limits())
