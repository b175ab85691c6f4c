"""Whose attention kernel runs on a device."""

from __future__ import annotations

import pytest
from attention_work import forward, main, seconds

from gpuscope.cost.attention.choice import has_flash
from gpuscope.hardware import device


def test_hopper_takes_cudnn_for_half_precision() -> None:
    assert main(forward()).name.startswith("cudnn")


def test_ampere_takes_flash() -> None:
    assert main(forward(on="a100-80gb")).name.startswith("flash")


def test_single_precision_takes_the_memory_efficient_one() -> None:
    kernel = main(forward(dtype="float32", backend="efficient"))
    assert kernel.name.startswith("efficient")
    assert kernel.dtype == "float32"


def test_what_the_user_chose_is_not_replaced_by_cudnn() -> None:
    shape = {"batch": 4, "heads": 16, "sq": 1024, "dim": 64, "dtype": "bfloat16"}
    names = {
        b: main(forward(**shape, backend=b)).name.partition("_")[0]
        for b in ("flash", "efficient", "flash_only", "efficient_only")
    }
    assert names == {
        "flash": "cudnn",
        "efficient": "cudnn",
        "flash_only": "flash",
        "efficient_only": "efficient",
    }
    # Recorded: 147 us, three times what cuDNN's kernel takes.
    assert seconds(forward(**shape, backend="efficient_only")) == pytest.approx(147e-6, rel=0.1)


def test_wide_heads_go_through_the_memory_efficient_kernel() -> None:
    assert main(forward(dim=256)).name.startswith("cudnn")
    assert main(forward(dim=257)).name.startswith("efficient")
    assert main(forward(on="a100", dim=512)).name.startswith("efficient")


def test_no_other_kernel_stands_in_for_a_mask_that_ends_at_the_last_key() -> None:
    args = {"sq": 2048, "sk": 8192, "causal": True, "backend": "flash", "on": "h200"}
    assert "flash" in main(forward(to_end=True, **args)).name
    assert "cudnn" in main(forward(**args)).name


@pytest.mark.parametrize(("name", "has"), [("a100-80gb", True), ("mi300x", True), ("t4", False)])
def test_flash_begins_with_capability_8_and_cdna(name: str, has: bool) -> None:
    assert has_flash(device(name)) is has
