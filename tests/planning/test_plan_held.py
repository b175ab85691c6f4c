"""Memory composed of what a recorded block keeps, against the simulated peak."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made import asked

from gpuscope.planning.blocks import kept_in
from gpuscope.planning.held import held_bytes, message_bytes
from gpuscope.planning.score import kept_bytes
from gpuscope.planning.simulate import Simulator
from gpuscope.planning.space import candidates
from gpuscope.planning.tables import Tables


def test_a_block_keeps_what_the_arithmetic_says() -> None:
    """On one rank both agree; parameters' copies are not counted to it."""
    question = asked(model="llama-3.2-1b", devices="8", seq=512, global_batch=8)
    program = Tables(question)._record((1, 1, 1, ()), 1)
    kept = kept_in(program, "layers.0")
    assert kept.block == pytest.approx(512 * kept_bytes(question.size, "none"), rel=0.01)
    assert 0 < kept.chosen < kept.block
    assert 0 < kept.products < kept.block
    assert kept.around > 512 * question.size.vocabulary * 4  # scores in float32


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "within"),
    [
        ("dp 4, fsdp full, microbatch 2", 0.05),
        ("dp 4, fsdp zero2, microbatch 2", 0.05),
        ("dp 4, fsdp zero1, microbatch 2", 0.05),
        ("dp 2, pp 2, fsdp zero1, microbatch 2", 0.05),
        ("dp 2, pp 2, fsdp zero1, interleaved, virtual 2, microbatch 2", 0.08),
        ("dp 2, tp 2, fsdp full, microbatch 4", 0.08),
    ],
)
def test_it_is_close_to_what_is_simulated(words: str, within: float) -> None:
    question = asked(model="llama-3.2-1b", devices="4", seq=2048, global_batch=64)
    each = next(c for c in candidates(question)[0] if c.words == words)
    found = Simulator(question).judge(each, 0.0).peak_bytes
    assert held_bytes(question, each, Tables(question).of(each)) == pytest.approx(found, rel=within)


def test_more_micro_batches_have_more_buffers() -> None:
    question = asked(model="llama-3.2-1b", devices="4", seq=512, global_batch=64)
    words = "dp 2, pp 2, fsdp zero1, microbatch 1"
    each = next(c for c in candidates(question)[0] if c.words == words)
    block = Tables(question).of(each)
    few, many = (held_bytes(question, each.with_batch(n), block) for n in (8, 32))
    # One stage receives activations, the other gradients.
    assert many - few == pytest.approx(24 * message_bytes(question, each))
    assert message_bytes(question, each) == 2 * 512 * question.size.hidden
    none = held_bytes(question, each, replace(block, kept=replace(block.kept, block=0.0)))
    assert none < few
