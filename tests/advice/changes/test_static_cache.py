"""A cache of a fixed size: nothing is concatenated, every step has the same shapes."""

import torch
from changed_cases import case_of
from decoding_builds import count, decoding, prompts
from live_runs import results

from gpuscope.advice.registry import find


def _key_tokens(case):
    return {
        op.inputs[1].shape[-2]
        for op in case.program.ops
        if op.name == "gpuscope::attention" and len(op.inputs) > 1
    }


def test_nothing_grows_under_a_capture():
    plain, fixed = case_of(decoding()), case_of(decoding(), "static-cache")
    # Beside the halves of rotary embeddings, keys and values of two layers are concatenated.
    assert count(plain, "cat") - count(fixed, "cat") == 4
    # 12 tokens and room for 1152 at least, rounded up to 256s.
    assert _key_tokens(fixed) == {1280}
    assert find("static-cache").fits(plain).applies
    assert not find("static-cache").fits(fixed).applies


def test_the_same_logits_really_come():
    torch.testing.assert_close(
        results(decoding("cpu"), "static-cache"), results(decoding("cpu")), rtol=1e-4, atol=1e-5
    )


def test_a_prompt_does_not_decode():
    fit = find("static-cache").fits(case_of(prompts()))
    assert not fit.applies
    assert not fit.relevant
