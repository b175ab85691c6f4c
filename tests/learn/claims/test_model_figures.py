"""Figures of the cost models and recordings as sources."""

from __future__ import annotations

import pytest

from gpuscope.errors import UnknownNameError, UnsupportedError
from gpuscope.hardware import calibration_for, device
from gpuscope.learn.claims.model_figures import (
    all_reduce_s,
    attention_flops,
    config,
    matmul_busy_units,
    matmul_s,
    matmul_tile,
    measured,
    parameters,
    resident_blocks,
    transfer_s,
)


def test_a_measured_constant_is_only_of_its_own_device() -> None:
    found = measured("h200", "host.launch_s", "µs")
    assert found.value == calibration_for(device("h200")).value("host.launch_s")
    assert found.method == "recorded measurement"
    assert "H200" in found.how
    assert found.sources
    with pytest.raises(UnsupportedError):
        measured("rtx-4090", "host.launch_s")


def test_a_product_is_never_faster_than_its_peak_or_its_traffic() -> None:
    h200 = device("h200")
    seconds = matmul_s("h200", 4096, 4096, 4096, "bf16").value
    assert seconds > 2 * 4096**3 / h200.peak_flops_per_s("bf16")
    assert seconds > 3 * 4096**2 * 2 / h200.memory_bandwidth_bytes_per_s
    assert matmul_s("h200", 512, 512, 128, "bf16", batch=32).value > (
        32 * (512 * 128 * 2 + 512 * 512) * 2 / h200.memory_bandwidth_bytes_per_s
    )


def test_small_products_do_not_fill_a_device() -> None:
    assert matmul_busy_units("rtx-4090", 128, 128, 128, "fp16").value < 128
    assert matmul_busy_units("rtx-4090", 8192, 8192, 8192, "fp16").value == 128
    assert matmul_tile("h200", 4096, 4096, 4096, "bf16").value >= 128 * 128


def test_copies_take_as_long_as_their_link() -> None:
    link = device("rtx-4090").host_link
    assert link is not None
    assert link.bandwidth_bytes_per_s is not None
    pinned = transfer_s("rtx-4090", 1e9, "h2d", pinned=True).value
    assert pinned > 1e9 / link.bandwidth_bytes_per_s
    assert transfer_s("rtx-4090", 1e9, "h2d", pinned=False).value > 2 * pinned
    assert all_reduce_s("8xh200", 1e9).value > 2 * 7 / 8 * 1e9 / (2 * 450e9)


def test_blocks_that_fit() -> None:
    assert resident_blocks("h100", 256, 32, 0).value == 8  # 2048 threads / 256
    assert resident_blocks("h100", 256, 128, 0).value == 2  # 65536 registers / (256 * 128)
    assert resident_blocks("h100", 1024, 32, 0).value == 2
    assert resident_blocks("h100", 32, 32, 0).value == 32  # slots


def test_models() -> None:
    assert parameters("llama-3.1-70b").value == 70_553_706_496
    assert config("llama-3.1-70b", "num_key_value_heads").value == 8
    assert attention_flops(1, 32, 4096, 4096, 128).value == 4 * 32 * 4096**2 * 128
    with pytest.raises(UnsupportedError):
        config("resnet50", "num_key_value_heads")
    with pytest.raises(UnknownNameError):
        parameters("llama-9-1b")
