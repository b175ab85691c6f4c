"""Packed and padded sequences: the shapes and lengths of a real run, the device's work recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from captured import named, of, one, work
from torch import nn
from torch.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
)

Step = Callable[[], object]
OPTIONS: Any = {"num_layers": 2, "bidirectional": True, "batch_first": True}


def run(device: str, layer: nn.Module, sort: bool) -> list[Any]:
    """Shapes, lengths and places of sorting, through a recurrent layer and back."""
    x, lengths = torch.zeros(3, 9, 8, device=device), torch.tensor([4, 9, 4])
    given = torch.sort(lengths, descending=True).values if sort else lengths
    packed = pack_padded_sequence(x, given, batch_first=True, enforce_sorted=sort)
    out, state = layer(packed)
    padded, back = pad_packed_sequence(out, batch_first=True, total_length=10)
    states = state if isinstance(state, tuple) else (state,)
    assert all(t.device.type == device for t in (padded, out.data, *states))
    shapes = [tuple(t.shape) for t in (packed.data, out.data, padded, *states)]
    order = None if sort else packed.unsorted_indices.numel()
    return [shapes, packed.batch_sizes.tolist(), back.tolist(), order]


def test_they_are_those_of_a_real_run() -> None:
    for make in (nn.LSTM, nn.GRU, nn.RNN):
        for sort in (False, True):
            real = run("cpu", make(8, 16, **OPTIONS), sort)
            found: list[Any] = []

            def build(make: Any = make, sort: bool = sort, found: Any = found) -> Step:
                layer = make(8, 16, **OPTIONS).cuda()
                return lambda: found.append(run("cuda", layer, sort))

            program = of(build)
            assert found[-1] == real
            (recurrent,) = named(program, "rnn")
            assert recurrent.args["steps"] == 9


def test_their_gradients_are_copied_back_step_by_step() -> None:
    def build() -> Step:
        layer = nn.GRU(8, 16).cuda()

        def step() -> object:
            x = torch.randn(5, 2, 8, device="cuda", requires_grad=True)
            out, _ = layer(pack_padded_sequence(x, torch.tensor([5, 3])))
            return out.data.sum().backward()

        return step

    program = of(build)
    assert one(program, "rnn_backward").args["steps"] == 5
    backward = work(program, "backward")
    assert backward[backward.index("rnn_backward") :].count("copy_") == 5


def test_sequences_are_padded_on_their_device() -> None:
    def step() -> object:
        parts = [torch.randn(n, 8, device="cuda") for n in (5, 3)]
        with torch.inference_mode():
            assert pad_sequence(parts, batch_first=True).is_cuda
        assert pack_sequence(parts).data.shape == (8, 8)
        return pad_sequence(parts, padding_value=1.0)

    made = of(lambda: step)
    assert work(made)[-3:] == ["new_full", "copy_", "copy_"]
    assert all(spec.device == "device" for spec in made.ops[-1].outputs)


def test_a_share_of_an_example_is_not_rounded_to_a_rate() -> None:
    """1.74 examples a row were shown as 2: a throughput 15 % too high."""
    from gpuscope.program.workload import _whole

    assert _whole(1.74) is None
    assert [_whole(samples) for samples in (1.0, 8.0, 139.2)] == [1, 8, 139]
