"""Views written to in place: a capture copies their gradients as often as plain tensors do."""

from __future__ import annotations

from collections import Counter

import pytest
from captured import base, of

torch = pytest.importorskip("torch")
nn = torch.nn

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

COUNTED = {"new_zeros", "copy_", "clone", "slice_backward", "threshold_backward", "add_"}


class Counting(TorchDispatchMode):
    """Operators below autograd, of plain tensors on the processor."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names[func.name().partition("::")[2].partition(".")[0]] += 1
        return func(*args, **(kwargs or {}))


def linear_then_relu(x, layers):
    for layer in layers:
        x = torch.relu_(layer(x))
    return x


def turned(x, layers):
    return layers[1](torch.relu_(layers[0](x).transpose(1, 2)).transpose(1, 2))


def residual(x, layers):
    h = layers[0](x)
    h += x
    return layers[1](h)


def not_a_view(x, layers):
    return layers[1](torch.relu_(layers[0](x).sin()))


def twice(x, layers):
    return layers[1](torch.relu_(layers[0](x).mul_(2.0)))


@pytest.mark.parametrize("forward", [linear_then_relu, turned, residual, not_a_view, twice])
def test_as_many_copies_as_plain_tensors(forward) -> None:
    def step(device):
        layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)]).to(device)
        x = torch.randn(3, 4, 8, device=device)

        def run():
            for p in layers.parameters():
                p.grad = None
            forward(x, layers).sum().backward()

        return run

    real = step("cpu")
    with Counting() as counting:
        real()
    captured = Counter(base(op) for op in of(lambda: step("cuda")).ops)
    for name in COUNTED:
        assert captured[name] == counting.names[name], name


def test_a_compiler_writes_to_nothing() -> None:
    def build():
        layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8)).cuda()
        run, x = torch.compile(layers), torch.randn(3, 4, 8, device="cuda")
        return lambda: run(x).sum().backward()

    assert not [op for op in of(build).ops if base(op) == "new_zeros"]


def test_gradients_of_gradients_pass_through() -> None:
    def build():
        layer = nn.Linear(8, 8).cuda()
        x = torch.randn(3, 4, 8, device="cuda", requires_grad=True)

        def step():
            out = torch.relu_(layer(x)).square().sum()
            (slope,) = torch.autograd.grad(out, x, create_graph=True)
            assert slope.shape == x.shape
            slope.square().sum().backward()

        return step

    assert len([op for op in of(build).ops if base(op) == "new_zeros"]) >= 1
