"""Folding is exact for every family of layers: decoders, encoders, mixtures, several stacks."""

from __future__ import annotations

import pytest
from program_equality import differences

from gpuscope.program.capture import capture
from gpuscope.program.fold import capture_folded
from gpuscope.program.workload import WorkloadOptions, resolve
from sweeps import sweep

pytest.importorskip("torch")
pytest.importorskip("transformers")


def check(name: str, options: WorkloadOptions) -> None:
    workload = resolve(name, options)
    assert workload.at_depth is not None
    direct = capture(workload.build, task=workload.task)
    folded = capture_folded(workload.build, workload.at_depth, task=workload.task, largest_share=2)
    assert differences(folded, direct) == []


@pytest.mark.parametrize(
    "name", sweep(["llama-3.2-1b", "bert-base", "vit-b-16", "dit-xl-2"], "vit-b-16", "llama-3.2-1b")
)
def test_one_stack_of_equal_layers(name: str) -> None:
    check(name, WorkloadOptions(layers=6))


@pytest.mark.parametrize(
    ("name", "layers"),
    sweep([("mixtral-8x7b", 6), ("gemma-2-2b", 10), ("deepseek-v3", 9)], ("deepseek-v3", 9)),
)
def test_mixtures_and_mixed_layers(name: str, layers: int) -> None:
    check(name, WorkloadOptions(layers=layers, task="prefill"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5-small", "whisper-tiny"])
def test_encoder_and_decoder(name: str) -> None:
    check(name, WorkloadOptions(layers=6))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layers"), [("mixtral-8x7b", 6), ("gemma-3-270m", 20), ("gemma-2-2b", 10)]
)
def test_training_of_mixed_layers(name: str, layers: int) -> None:
    check(name, WorkloadOptions(layers=layers))
