"""Grouped heads without repeated keys: less to move beside a cache of a fixed size."""

import torch
from changed_cases import case_of
from decoding_builds import decoding, prompts
from live_runs import results

from gpuscope.advice.registry import find


def test_less_is_moved_with_a_fixed_cache():
    fixed = case_of(decoding(tokens=1200, width=512), "static-cache")
    both = case_of(decoding(tokens=1200, width=512), "static-cache", "grouped-attention")
    assert both.run.device_busy_s < fixed.run.device_busy_s
    assert find("grouped-attention").fits(fixed).applies
    assert not find("grouped-attention").fits(case_of(prompts())).applies


def test_transformers_gets_its_function_back():
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    before = ALL_ATTENTION_FUNCTIONS["sdpa"]
    changed = results(decoding("cpu"), "static-cache", "grouped-attention")
    assert ALL_ATTENTION_FUNCTIONS["sdpa"] is before
    torch.testing.assert_close(changed, results(decoding("cpu")), rtol=1e-4, atol=1e-5)
