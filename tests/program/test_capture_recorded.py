"""Captured operators against every kernel that a real step launched on an H200.

The recordings name, for each kernel, the operator that launched it. Operators that launch one
kernel each must agree in number; the few known differences are stated.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

VALIDATION = Path(__file__).resolve().parents[2] / "validation"

ONE_KERNEL_EACH = frozenset(
    """add sub mul div pow neg rsqrt sqrt clamp reciprocal tanh tanh_backward gelu gelu_backward
    sigmoid relu threshold_backward embedding native_layer_norm native_dropout
    native_dropout_backward native_batch_norm_backward _softmax _softmax_backward_data _log_softmax
    _log_softmax_backward_data nll_loss_forward nll_loss_backward mse_loss mse_loss_backward cat
    where le ne argmax bmm max_pool2d_with_indices max_pool2d_with_indices_backward mean
    linalg_vector_norm""".split()
)

OTHER_NAMES = {"clamp_min": "relu", "stack": "cat"}
"""What a composite calls its kernel's operator by: relu is clamp_min(0), stack is cat."""

KNOWN: dict[str, dict[str, tuple[int, str]]] = {
    "vit-l-infer": {"add": (1, "the patch convolution adds its bias by a kernel of its own")},
    "user-gpt2-naive": {
        "mul": (6, "softmax multiplies gradient and result before its own backward kernel")
    },
    "user-mlp-small": {
        "native_batch_norm_backward": (6, "two kernels for tall matrices"),
        "mean": (1, "mse_loss reduces by mean's kernel"),
    },
}


@pytest.fixture(scope="module")
def comparison() -> Any:
    sys.path.insert(0, str(VALIDATION))
    try:
        yield importlib.import_module("by_operator")
    finally:
        sys.path.remove(str(VALIDATION))


def counted(table: Any) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, (count, _) in table.items():
        counts[OTHER_NAMES.get(name, name)] += int(count)
    return counts


@pytest.mark.parametrize(
    "workload",
    [
        "user-mlp-small",
        "user-encoder",
        "user-gpt2-naive",
        "resnet50-train-amp",
        "lstm-train",
        "vit-l-infer",
        "gpt2-train-tiny",
        "gpt2-decode-b1",
    ],
)
def test_as_many_operators_as_kernels(workload, comparison) -> None:
    if workload.startswith("gpt2"):
        pytest.importorskip("transformers")
    recorded = counted(comparison.measured(workload))
    table, program = comparison.predicted(workload, True)
    captured = counted(table)
    different = {
        name: recorded[name] - captured[name]
        for name in ONE_KERNEL_EACH
        if recorded[name] != captured[name]
    }
    assert different == {name: by for name, (by, _) in KNOWN.get(workload, {}).items()}

    # A gradient of a slice is zeros and a copy into them; the rest are conversions and layouts.
    sliced = sum(op.name in ("aten::select_backward", "aten::slice_backward") for op in program.ops)
    assert captured["copy"] + sliced == pytest.approx(recorded["copy"], rel=0.04, abs=2)


def test_attention_and_matrix_products_are_all_there(comparison) -> None:
    """Products may take more kernels than one (split-K and its sum), never fewer."""
    recorded = counted(comparison.measured("user-encoder"))
    captured = counted(comparison.predicted("user-encoder", True)[0])
    assert recorded["mm"] >= captured["mm"] == 112
    assert recorded["addmm"] >= captured["addmm"]
    assert recorded["attention"] == 3 * captured["attention"]  # philox state, memset, the kernel
    assert recorded["attention_backward"] == 4 * captured["attention_backward"]
