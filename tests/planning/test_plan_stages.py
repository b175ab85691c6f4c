"""Stages cut anew: the least time of the slowest rank, against all cuts; what starts them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import asked, planned, torchtitan_reads

from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.hardware import parse_target
from gpuscope.planning.blocks import Block, Passes
from gpuscope.planning.composed import composed_s
from gpuscope.planning.dimensions.stages import Ends, least_cut, of_words, words_of
from gpuscope.planning.recut import recut
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.tables import Tables
from gpuscope.planning.types import Candidate
from gpuscope.program.models.parallel.checks import check
from gpuscope.program.models.parallel.options import Parallelism
from gpuscope.program.pipeline.decoder_stages import cut_layers

CUT = (("stages", "17+15"),)


def _slowest(cut: tuple[int, ...], ranks: int, ends: Ends) -> float:
    held = [float(sum(cut[rank::ranks])) for rank in range(ranks)]
    held[0] += ends.first
    held[-1] += ends.last
    return max(held)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 4),
    st.integers(1, 2),
    st.integers(0, 6),
    st.floats(0, 3),
    st.floats(0, 6),
    st.floats(1.0, 2.0),
)
def test_no_other_cut_is_quicker_under_the_same_memory(
    ranks: int, virtual: int, more: int, first: float, last: float, room: float
) -> None:
    stages, ends = ranks * virtual, Ends(first, last)
    layers = stages + more
    bytes_ = tuple(float(ranks - rank) for rank in range(ranks))  # as many micro-batches in flight
    usable = room * layers
    cuts = [
        tuple(b - a for a, b in zip((0, *marks), (*marks, layers), strict=True))
        for marks in combinations(range(1, layers), stages - 1)
    ]
    fitting = [
        cut for cut in cuts if all(sum(cut[r::ranks]) * bytes_[r] <= usable for r in range(ranks))
    ]
    found = least_cut(layers, ranks, virtual, 1.0, ends, bytes_, Ends(0.0, 0.0), usable)
    if not fitting:
        assert found is None
        return
    assert found is not None
    assert sum(found) == layers
    least = min(_slowest(cut, ranks, ends) for cut in fitting)
    assert _slowest(found, ranks, ends) == pytest.approx(least)
    # More memory never makes the slowest rank slower.
    roomy = least_cut(layers, ranks, virtual, 1.0, ends, bytes_, Ends(0.0, 0.0), 2 * usable)
    assert roomy is not None
    assert _slowest(roomy, ranks, ends) <= _slowest(found, ranks, ends) + 1e-9


def test_a_head_of_three_blocks_moves_blocks_to_the_front() -> None:
    found = least_cut(32, 4, 1, 1.0, Ends(0.0, 3.0), (1.0,) * 4, Ends(0.0, 0.0), 1e9)
    assert found is not None
    assert (sum(found), found[-1], max(found)) == (32, 6, 9)  # 35 blocks' worth on four ranks


@pytest.mark.parametrize("cut", [(17, 15), (7, *[8] * 14, 7), (3, 1, 2, 2), (1,)])
def test_words(cut: tuple[int, ...]) -> None:
    assert of_words(words_of(cut)) == cut
    assert words_of((7, *[8] * 14, 7)) == "7+14x8+7"


def test_a_cut_that_is_none_is_refused() -> None:
    size = asked().size
    for cut in ((16, 15), (32,), (32, 0)):
        with pytest.raises(InvalidValueError, match="no cut"):
            check(size, 4096, Parallelism(pp=2, microbatches=4, fsdp="zero1", cut=cut))
    held = cut_layers(32, 2, (17, 15))
    assert [len(each.layers) for each in held] == [17, 15]


def test_a_candidate_is_cut_by_what_its_blocks_cost() -> None:
    none = Passes(0.0, 0.0)
    block = Block(
        forward_s=1.0, backward_s=2.0, inputs_s=1.0, weights_s=1.0, again_s={"none": 0.0},
        first=none, last=Passes(2.0, 4.0), host=none,
        again_host={"none": none}, inputs_host_s=0.0, weights_host_s=0.0,
        ends_host_s=0.0, sorts={("gemm", "compute"): 1.0}, optimizer_s=0.0,  # type: ignore[dict-item]
    )  # fmt: skip
    layout = Parallelism(dp=1, pp=2, microbatches=64, fsdp="none")
    each = Candidate(parse_target("2xh200"), layout)
    question = asked(devices="2")
    found = recut(question, each, block)
    assert found is not None
    assert (found.more, found.asked.cut) == (CUT, (17, 15))
    assert found.dimensions == each.dimensions + 1
    # 64 micro-batches: 18 and 16 of three seconds, against 17 twice.
    before, after = (composed_s(question, one, block) for one in (each, found))
    assert before - after == pytest.approx(64 * 3 - 3, rel=0.02)
    assert recut(question, Candidate(parse_target("h200"), Parallelism()), block) is None
    assert recut(question, each, replace(block, last=none)) is None


def test_what_starts_it(tmp_path: Path) -> None:
    layout = {"dp": 4, "pp": 2, "microbatches": 8}
    text = planned(CUT, fsdp="full", **layout).to("torchtitan")
    read = torchtitan_reads(text, tmp_path)
    parts = read.parallelism.module_fqns_per_model_part
    assert parts[0] == ["tok_embeddings", *(f"layers.{n}" for n in range(17))]
    assert parts[1] == [*(f"layers.{n}" for n in range(17, 32)), "norm", "output"]


def test_megatron_is_told_its_layout() -> None:
    layout = {"dp": 4, "pp": 2, "microbatches": 16, "fsdp": "zero1"}
    words = shlex.split(planned(CUT, **layout).to("megatron"), comments=True)
    assert words[words.index("--pipeline-model-parallel-layout") + 1] == "Et*17|t*15L"
    virtual = (("stages", "9+8+8+7"),)
    with pytest.raises(UnsupportedError, match="uneven virtual stages"):
        planned(virtual, schedule="interleaved", virtual=2, **layout).to("megatron")


@pytest.mark.slow
def test_what_is_cut_anew_is_quicker_when_simulated_too() -> None:
    question = asked(model="llama-3.2-1b", on="h100", devices="2", global_batch=16, seq=2048)
    each = Candidate(parse_target("2xh100"), Parallelism(pp=2, microbatches=16, fsdp="zero1"))
    block = Tables(question).of(each)
    other = recut(question, each, block)
    assert other is not None
    simulator = Simulator(question)
    even, uneven = (simulator.judge(one, 0.0) for one in (each, other))
    assert uneven.step_s < even.step_s
    quick = [composed_s(question, one, block) for one in (each, other)]
    assert quick == pytest.approx([even.step_s, uneven.step_s], rel=0.1)
