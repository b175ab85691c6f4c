"""Host tensors hold values: what a real run would see, a captured one sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gpuscope.program.capture import capture
from gpuscope.program.types import Program

Step = Callable[[], object]


def seen(code: Callable[[], Any], inside: Callable[[], Any] | None = None) -> tuple[Any, Program]:
    """What `code` returns in the recorded step, and the program."""
    found: list[Any] = []

    def build() -> Callable[[], object]:
        def step() -> object:
            found.append(code())
            return torch.ones(2, device="cuda") * 2

        return step

    program = capture(build)
    return found[-1], program


def split_sizes() -> Any:
    sizes = torch.tensor([10, 20, 34])
    parts = torch.split(torch.zeros(64, 4, device="cuda"), sizes.tolist())
    return [p.shape[0] for p in parts]


def masks() -> Any:
    mask = torch.arange(64) % 4 == 0
    chosen = torch.zeros(64, 3, device="cuda")[mask]
    here = torch.arange(64)[mask]
    return chosen.shape[0], mask.sum().item(), torch.nonzero(mask).shape[0], here.tolist()[:3]


def sampler() -> Any:
    order = torch.randperm(1_000_000)
    first = order[:1000].tolist()
    return len(set(first)), max(first) < 1_000_000, order.max().item()


def numpys() -> Any:
    array = np.asarray(torch.arange(5))
    array[0] = 9
    return array.tolist(), torch.from_numpy(np.arange(6).reshape(2, 3)).sum(1).tolist()


def writes_through_views() -> Any:
    x = torch.zeros(5)
    x[2] = 3
    x.data.add_(1)
    x.view(5, 1)[4].mul_(7)
    x.detach().sub_(1)
    return x.tolist()


def distinct() -> Any:
    counts = torch.tensor([0, 1, 1, 3])
    values, times = torch.unique(counts, return_counts=True)
    spread = torch.repeat_interleave(torch.arange(4), counts)
    return torch.bincount(counts).tolist(), values.tolist(), times.tolist(), spread.tolist()


def comparisons() -> Any:
    a = torch.arange(3)
    same, other = torch.equal(a, torch.tensor([0, 1, 2])), torch.equal(a, torch.tensor([0, 1, 3]))
    return same, other, bool((a > 1).all()), bool((a > 1).any()), torch.allclose(a, a + 1)


def choices() -> Any:
    weights = torch.tensor([0.0, 0.0, 1.0])
    return torch.multinomial(weights, 1).item(), weights.argmax().item()


def metric() -> Any:
    matrix = torch.zeros(3, 3)
    for want, got in zip([0, 1, 2, 2], [0, 1, 1, 2], strict=True):
        matrix[want, got] += 1
    return (matrix.diag() / matrix.sum(1)).tolist()


def offsets_on_the_device() -> Any:
    lengths = torch.tensor([3, 5, 8]).cuda()
    ends = torch.cumsum(lengths, 0)
    return ends.tolist(), lengths.max().item(), ends[-1].item()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (split_sizes, [10, 20, 34]),
        (masks, (16, 16, 16, [0, 4, 8])),
        (sampler, (1000, True, 999_999)),
        (numpys, ([9, 1, 2, 3, 4], [3, 12])),
        (writes_through_views, [0.0, 0.0, 3.0, 0.0, 6.0]),
        (distinct, ([1, 2, 0, 1], [0, 1, 3], [1, 2, 1], [1, 2, 3, 3, 3])),
        (comparisons, (True, False, False, True, False)),
        (choices, (2, 2)),
        (metric, [1.0, 1.0, 0.5]),
        (offsets_on_the_device, ([3, 8, 16], 8, 16)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_host_sees_what_a_real_run_sees(code: Callable[[], Any], expected: Any) -> None:
    found, program = seen(code)
    assert found == expected
    assert not program.assumptions


def test_what_a_kernel_computed_is_assumed_and_said() -> None:
    def code() -> Any:
        x = torch.arange(4).cuda()
        x += torch.randint(3, (4,), device="cuda")
        return x.tolist(), x.cpu().tolist()

    found, program = seen(code)
    assert found == ([1] * 4, [1] * 4)
    assert any("1 is taken" in text for text in program.assumptions)


def test_a_write_that_is_not_followed_makes_all_views_unknown() -> None:
    def code() -> Any:
        x = torch.zeros(4, dtype=torch.int64)
        view = x[:2]
        x.copy_(torch.randint(3, (4,), device="cuda"))
        return view.tolist(), x.tolist()

    _, program = seen(code)
    assert any("1 is taken" in text for text in program.assumptions)


def test_a_large_tensor_that_is_written_to_is_not_told_as_it_was() -> None:
    def code() -> Any:
        x = torch.zeros(2**17, dtype=torch.int64)
        x[0] = 5
        return x.sum().item()

    found, program = seen(code)
    assert found == 5 or program.assumptions


def test_a_model_made_before_is_given_back_as_it_was() -> None:
    norm = torch.nn.BatchNorm1d(4)
    before = {name: value.clone() for name, value in norm.state_dict().items()}

    def build() -> Callable[[], object]:
        def step() -> object:
            norm(torch.randn(8, 4))
            return torch.ones(2, device="cuda") * 2

        return step

    capture(build)
    assert all(torch.equal(before[name], value) for name, value in norm.state_dict().items())


def test_more_than_is_made_is_unknown_and_takes_no_memory() -> None:
    found, _ = seen(lambda: torch.zeros(10**11).sum().item())
    assert found == 1.0


def test_flags_counted_against_their_number_are_a_check_of_all() -> None:
    def build() -> Callable[[], Any]:
        ones = torch.ones(2, 8, device="cuda", dtype=torch.long)
        scores = torch.randn(2, 8, device="cuda")
        seen: list[tuple[bool, ...]] = []

        def step() -> Any:
            mask = torch.cat([ones, ones[:, :1]], 1).to(torch.bool)
            half = mask.sum() == 9
            guessed = (scores > 0).sum() == 16
            seen.append((bool(mask.sum() == mask.numel()), bool(half), bool(guessed)))
            assert seen[-1] == (True, False, True)
            return scores * 2

        return step

    told = capture(build).assumptions
    assert any("taken as passed" in str(text) for text in told)


def test_positions_are_known_on_the_device_in_whatever_type() -> None:
    found: list[int] = []

    def step() -> object:
        places = torch.arange(0, 8, device="cuda").to(torch.float32)
        first = places.new_tensor([-1])
        pooled = torch.cat([first, places[1:-1][::2]])
        steps = torch.arange(pooled[-1] + 2, pooled[0] - 1, -2, dtype=torch.long, device="cuda")
        found.append(steps.numel())
        return steps

    capture(lambda: step)
    assert found[-1] == len(range(7, -2, -2))


def test_counts_of_what_was_picked_add_up() -> None:
    def build() -> Step:
        x, experts = torch.randn(10, 8, device="cuda"), 4

        def step() -> object:
            picked = x[:, :experts].topk(3, dim=1).indices
            gates = torch.zeros(10, experts, device="cuda").scatter(1, picked, 1)
            counts = gates.long().sum(0).tolist()
            assert sum(counts) == 30
            assert max(counts) - min(counts) <= 1
            again = torch.bincount(picked.flatten(), minlength=experts).cpu().tolist()
            assert again == counts
            return x.repeat(3, 1).split(counts)

        return step

    assert "spread evenly" in " ".join(str(said) for said in capture(build).assumptions)


def test_a_shape_read_from_the_device_may_have_an_empty_part() -> None:
    def build() -> Step:
        x = torch.randn(12, device="cuda")

        def step() -> object:
            parts = [torch.as_tensor(part, dtype=torch.long, device="cuda") for part in ([3], [])]
            return x.view([*torch.cat(parts).tolist(), 4]) * 2

        return step

    (made,) = [op for op in capture(build).ops if op.name == "aten::mul"]
    assert made.outputs[0].shape == (3, 4)
