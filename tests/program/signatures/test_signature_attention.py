"""Attention under its many names is one operator with one order of dimensions."""

from __future__ import annotations

import pytest
import torch
from signature_oracle import meta, recorded

from gpuscope.program.signatures import complete

B, H, S, D = 2, 4, 128, 64


def heads_first() -> list[torch.Tensor]:
    return [meta(B, H, S, D) for _ in range(3)]


def heads_last() -> list[torch.Tensor]:
    return [meta(B, S, H, D) for _ in range(3)]


@pytest.mark.parametrize("causal", [False, True])
def test_forward(causal: bool) -> None:
    mask_type = 1 if causal else 0
    calls = {
        "flash": recorded(
            "aten::_flash_attention_forward",
            *heads_last(),
            None,
            None,
            S,
            S,
            0.0,
            causal,
            False,
            0.125,
            None,
            None,
        ),
        "cudnn": recorded(
            "aten::_cudnn_attention_forward",
            *heads_first(),
            None,
            None,
            None,
            S,
            S,
            True,
            0.0,
            causal,
            False,
        ),
        "efficient": recorded(
            "aten::_efficient_attention_forward",
            *heads_last(),
            None,
            None,
            None,
            S,
            S,
            0.0,
            mask_type,
            True,
            0.125,
            None,
            None,
        ),
    }
    for backend, call in calls.items():
        found = complete(call, values_recorded=True)
        assert found is not None
        assert found.name == "gpuscope::attention"
        assert found.args["causal"] is causal
        assert found.args["implementation"] == backend
        assert [t.shape for t in found.inputs] == [(B, H, S, D)] * 3
        assert found.outputs[0].shape == (B, H, S, D)


def test_backward_and_its_dropout() -> None:
    q, k, v = heads_last()
    call = recorded(
        "aten::_flash_attention_backward",
        meta(B, S, H, D),
        q,
        k,
        v,
        meta(B, S, H, D),
        meta(B, H, S, dtype=torch.float32),
        None,
        None,
        S,
        S,
        0.1,
        True,
        None,
        None,
        0.125,
    )
    found = complete(call, values_recorded=True)
    assert found is not None
    assert found.name == "gpuscope::attention_backward"
    assert found.args["dropout_p"] == pytest.approx(0.1)
    assert found.args["causal"] is True
    assert [t.shape for t in found.outputs] == [(B, H, S, D)] * 3


def test_what_is_not_told_is_not_guessed() -> None:
    q, k, v = heads_first()
    whole = recorded(
        "aten::_cudnn_attention_forward", q, k, v, None, None, None, S, S, True, 0.0, True, False
    )
    without = type(whole)(0, whole.name, inputs=whole.inputs)
    assert complete(without, values_recorded=False) is None
    packed = recorded(
        "aten::_flash_attention_forward",
        meta(300, H, D),
        meta(300, H, D),
        meta(300, H, D),
        meta(4),
        meta(4),
        S,
        S,
        0.0,
        True,
        False,
    )
    assert complete(packed, values_recorded=True) is None
