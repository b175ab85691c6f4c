"""What is offered where a model has no room: only what would give it some."""

from __future__ import annotations

import pytest

import gpuscope as gs


def _offered(model: str, on: str, dtype: str = "bfloat16") -> str:
    with pytest.raises(gs.DoesNotFitError) as told:
        gs.serve(model, on, dtype=dtype, rate=1, requests=5)
    return told.value.next_step


def test_devices_and_dtypes_that_would_do_are_offered() -> None:
    offered = _offered("llama-3.1-70b", "h100")
    assert "--on 2xnvidia-h100-sxm --tp 2" in offered
    for dtype in ("fp8", "fp4", "int4"):
        assert f"--dtype {dtype}" in offered


def test_slices_of_a_device_are_not_linked() -> None:
    assert "--tp" not in _offered("llama-3.1-8b", "h100:1g.10gb")


def test_a_dtype_in_use_or_too_large_or_lacking_is_not_offered() -> None:
    assert "--dtype" not in _offered("deepseek-v3", "2xh100", "fp8")
    assert "--dtype int4" not in _offered("llama-3.1-405b", "h100", "int4")
    assert "fp8" not in _offered("llama-3.1-70b", "a100")


def test_what_is_offered_works() -> None:
    assert gs.serve("llama-3.1-70b", "2xh100", tp=2, rate=1, requests=5)
    assert gs.serve("llama-3.1-70b", "h100", dtype="fp4", rate=1, requests=5)


def test_four_bits_without_four_bit_products_are_told() -> None:
    for device in ("a100", "h100"):
        run = gs.serve("llama-3.1-8b", device, dtype="fp4", rate=1, requests=5)[0]
        assert run.settings["dtype"] == "fp4"
        assert any("unpacked to bfloat16" in note for note in run.notes)
    run = gs.serve("llama-3.1-8b", "b200", dtype="fp4", rate=1, requests=5)[0]
    assert not any("unpacked" in note for note in run.notes)


def test_keys_in_fp8_on_a_device_without_it_are_told() -> None:
    run = gs.serve("llama-3.1-8b", "a100", kv_dtype="fp8", rate=1, requests=5)[0]
    assert any("widened when read" in note for note in run.notes)
    run = gs.serve("llama-3.1-8b", "h100", kv_dtype="fp8", rate=1, requests=5)[0]
    assert not any("widened" in note for note in run.notes)


def test_a_device_without_a_dtype_names_those_that_it_has() -> None:
    with pytest.raises(gs.UnsupportedError, match=r"has no fp8.*float16$"):
        gs.serve("llama-3.1-8b", "v100", dtype="fp8", rate=1)
