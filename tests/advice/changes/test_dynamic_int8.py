"""Dynamic 8 bits: products of integers; they pay for many rows, not for one."""

import torch
from changed_cases import case_of
from decoding_builds import count, decoding, prompts
from live_runs import results

from gpuscope.advice.registry import find


def test_products_are_of_integers():
    plain = case_of(prompts(dtype=torch.bfloat16))
    changed = case_of(prompts(dtype=torch.bfloat16), "dynamic-int8")
    assert count(changed, "_int_mm") == 8  # seven of a block and the head
    assert count(plain, "_int_mm") == 0
    assert find("dynamic-int8").fits(plain).applies


def test_one_row_gets_slower():
    build = decoding(width=1024, dtype=torch.bfloat16)
    assert case_of(build, "dynamic-int8").run.step_time_s > case_of(build).run.step_time_s


def test_the_logits_are_close():
    plain, small = results(prompts("cpu")), results(prompts("cpu"), "dynamic-int8")
    assert 0 < (plain[0] - small[0]).abs().max() < 0.05 * plain[0].abs().max()
