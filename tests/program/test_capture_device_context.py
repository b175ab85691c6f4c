"""`with torch.device("cuda")` around ordinary constructors, whatever ran in the process before."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gpuscope.program.capture import capture  # noqa: E402


def test_constants_made_under_a_device_context_are_captured() -> None:
    """PyTorch lists its constructors once: here before the capture replaces some of them."""
    from torch.utils._device import _device_constructors

    assert torch.tensor in _device_constructors()

    def build():
        with torch.device("cuda"):
            scale = torch.tensor(2.0)
            layer = torch.nn.Linear(8, 8)
            x = torch.randn(4, 8)

        def step():
            return (layer(x) * scale).sum()

        return step

    program = capture(build)
    assert any(op.name == "aten::mul" for op in program.ops)
