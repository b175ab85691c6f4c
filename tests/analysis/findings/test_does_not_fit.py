"""Steps that need more memory than there is."""

from __future__ import annotations

from builders import H200, TimelineBuilder, streaming

from gpuscope.analysis import analyze
from gpuscope.program.types import Op, Program, Storage
from gpuscope.timeline.memory import simulate_memory

GIB = 1 << 30


def program(weights: int, activations: int, samples: int | None) -> Program:
    storages = (
        Storage(0, weights, "parameter", -1, None, "fc", "weight"),
        Storage(1, activations, "activation", 0, 1, "fc", "output"),
    )
    return Program("toy", (Op(index=0, name="aten::mm"),), storages, samples=samples)


def first(weights: int, activations: int = 80 * GIB, samples: int | None = 8) -> tuple[str, ...]:
    b = TimelineBuilder()
    b.chain([streaming(100)], op=b.op("aten::mm"))
    toy = program(weights, activations, samples)
    trace = simulate_memory(toy, capacity_bytes=H200.memory_usable_bytes)
    found = analyze(b.build(), program=toy, memory=trace, on=H200).findings
    return found[0].kind, found[0].title, found[0].evidence, found[0].hint


def test_what_does_not_fit_comes_first_with_what_would() -> None:
    kind, title, evidence, hint = first(100 * GIB)
    assert kind == "does_not_fit"
    assert "180 GiB" in title
    assert "140 GiB" in title
    assert "parameters 100 GiB, activations 80.0 GiB" in evidence
    assert hint.startswith("A batch of 3 instead of 8")


def test_what_fits_is_not_mentioned() -> None:
    assert first(10 * GIB)[0] != "does_not_fit"


def test_sharding_is_computed() -> None:
    # 80 GiB of activations stay; of 400 GiB of weights 1/4 does not fit beside them, 1/8 does.
    assert "sharded over 8 devices" in first(400 * GIB)[3]


def test_when_nothing_is_enough_it_says_so() -> None:
    hint = first(80 * GIB, activations=200 * GIB, samples=None)[3]
    assert hint.startswith("None of the usual changes")


def test_it_says_where_memory_runs_out() -> None:
    assert first(100 * GIB)[2].endswith("at operator 1 of 1, aten::mm, which asks for 80.0 GiB.")
    assert first(200 * GIB)[2].endswith("before the step, at 200 GiB for fc weight.")
