"""Merged projections: fewer products of the same weights, refused where there are none."""

import pytest
import torch
from changed_cases import case_of
from decoding_builds import count, decoding
from live_runs import results
from tiny_models import llama, tiny

from gpuscope.advice.registry import find
from gpuscope.errors import UnsupportedError


def test_three_products_a_block_less():
    plain, merged = case_of(decoding()), case_of(decoding(), "merged-projections")
    # Two blocks: K and V join Q, up joins gate.
    products = ("mm", "addmm", "bmm")
    assert count(plain, *products) - count(merged, *products) == 2 * 3
    assert find("merged-projections").fits(plain).applies
    assert merged.run.peak_memory_bytes <= 1.1 * plain.run.peak_memory_bytes


def test_the_same_logits_really_come():
    torch.testing.assert_close(
        results(decoding("cpu"), "merged-projections"),
        results(decoding("cpu")),
        rtol=1e-4,
        atol=1e-5,
    )


def test_training_and_other_models_are_refused():
    assert not find("merged-projections").fits(case_of(tiny(llama()))).applies

    def build():
        model = torch.nn.Linear(4, 4)
        return lambda: model(torch.ones(1, 4))

    with pytest.raises(UnsupportedError, match="No layers"):
        results(build, "merged-projections")
