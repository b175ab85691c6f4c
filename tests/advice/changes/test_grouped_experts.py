"""Experts grouped: no loop, no waiting for their sizes, the same losses."""

from dataclasses import replace

import torch
from changed_cases import case_of
from live_runs import results
from tiny_models import gpt2, olmoe, tiny

from gpuscope.advice.registry import find
from gpuscope.advice.source.edits import applied

BUILD = tiny(olmoe(), rows=(4, 64), dtype=torch.bfloat16)


def _waits(case):
    return sum(op.sync == "nonzero" for op in case.program.ops)


def test_the_loop_is_gone():
    plain, grouped = case_of(BUILD), case_of(BUILD, "grouped-experts")
    change = find("grouped-experts")
    assert plain.seen.models[0].experts == "eager"
    assert change.fits(plain).applies
    # Two layers: which experts were picked at all, then the tokens of each of those.
    assert _waits(plain) > 2
    # A histogram between given bounds reads nothing back (aten/src/ATen/native/cuda/SummaryOps.cu).
    assert sum(op.name == "aten::histc" for op in grouped.program.ops) == 2
    assert _waits(grouped) == 0
    products = [op for op in grouped.program.ops if op.name == "aten::_grouped_mm"]
    assert len(products) == 2 * 2 * 3  # two layers, two products each, forward and twice backward
    assert grouped.run.step_time_s < plain.run.step_time_s


def test_grouped_already():
    case = case_of(tiny(olmoe("grouped_mm"), dtype=torch.bfloat16))
    fit = find("grouped-experts").fits(case)
    assert not fit.applies
    assert "grouped_mm" in fit.why


def test_no_experts():
    fit = find("grouped-experts").fits(case_of(tiny(gpt2(layers=1))))
    assert not fit.applies
    assert not fit.relevant


def test_the_same_losses_really_come():
    build = tiny(olmoe(), "cpu", rows=(2, 32))
    torch.testing.assert_close(
        results(build, "grouped-experts"), results(build), rtol=1e-4, atol=1e-5
    )


def test_the_word_in_the_source():
    text = 'config = OlmoeConfig(experts_implementation="eager")\n'
    seen = replace(case_of(tiny(gpt2(layers=1))).seen, file="a.py")
    edits = find("grouped-experts").edits({"a.py": text}, seen)
    assert applied(text, edits) == 'config = OlmoeConfig(experts_implementation="grouped_mm")\n'
