"""Which device is there, whatever version of PyTorch is asked."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpuscope.measurement.accelerator import _available_kind


def _refuse() -> None:
    raise RuntimeError("Cannot access accelerator device when none is available.")


@pytest.mark.parametrize(
    ("there", "current", "kind"),
    [
        (False, _refuse, None),  # PyTorch 2.6, built for CUDA, without a driver
        (False, lambda: SimpleNamespace(type="cuda"), None),  # later ones name what they could use
        (True, lambda: SimpleNamespace(type="xpu"), "xpu"),
        (True, lambda: None, None),
    ],
)
def test_the_accelerator_that_can_be_used(there, current, kind) -> None:
    accelerator = SimpleNamespace(is_available=lambda: there, current_accelerator=current)
    assert _available_kind(SimpleNamespace(accelerator=accelerator)) == kind


def test_without_torch_accelerator_each_kind_is_asked() -> None:
    yes, no = (SimpleNamespace(is_available=lambda value=value: value) for value in (True, False))
    assert _available_kind(SimpleNamespace(cuda=no, xpu=yes)) == "xpu"
    assert _available_kind(SimpleNamespace(cuda=no)) is None
