from __future__ import annotations

import pytest
import torch

from gpuscope.doctor.probes import deep_products
from gpuscope.doctor.probes.deep_products import PRECISIONS, compared, exact, reference
from gpuscope.measurement.accelerator import Accelerator

SHAPE = (96, 64, 128)


@pytest.fixture(scope="module")
def refs() -> dict:
    return {"": reference(SHAPE, 64, 1), "fp8": reference(SHAPE, 2, 2)}


def test_the_reference_is_exact(refs) -> None:
    ref = refs[""]
    by_integers = ref.a.to(torch.int64) @ ref.b.to(torch.int64)
    assert torch.equal(ref.product, by_integers.double())
    assert ref.trusted
    assert int(ref.a.max()) <= 64
    assert int(ref.a.min()) >= -64


def test_sums_fit_the_accumulators() -> None:
    _, _, depth = deep_products.SHAPE
    assert depth * deep_products.LARGEST**2 < 2**24
    assert depth * deep_products.LARGEST_FP8**2 < 2**14
    half = depth * deep_products.LARGEST**2 * deep_products.HALF_SCALE
    assert half < torch.finfo(torch.float16).max
    assert torch.finfo(torch.float16).smallest_normal < deep_products.HALF_SCALE


@pytest.mark.parametrize("precision", PRECISIONS, ids=lambda p: p.name)
def test_right_products_are_found_right(precision, refs) -> None:
    deep_products.allow(precision.name)
    ref = refs.get(precision.name, refs[""])
    found = exact(precision, ref, "cpu", lambda: None)
    assert found["wrong"] == 0
    assert found["wrong_results"] == 0
    assert found["same_each_time"]
    assert found["elements"] == found["repeats"] * 96 * 64


def _flipping(right: torch.Tensor, at: tuple[int, int], bit: int, times: set[int]):
    """A product that is right but for one bit of one element, in some of the repeats."""
    turn = [-1]

    def call() -> torch.Tensor:
        turn[0] += 1
        out = right.clone()
        if turn[0] in times:
            out.view(torch.int32)[at] ^= 1 << bit
        return out

    return call


@pytest.mark.parametrize("bit", [0, 5, 22, 23, 30])
def test_a_single_flipped_bit_in_one_of_ten_results_is_found(bit) -> None:
    right = torch.arange(1.0, 65.0).reshape(8, 8)
    found = compared(_flipping(right, (3, 2), bit, {6}), right, 10)
    assert found["wrong"] == 1
    assert found["wrong_results"] == 1
    assert not found["same_each_time"]
    assert (found["row"], found["column"]) == (3, 2)
    assert found["flipped_bits"] == 1
    assert found["expected"] == "27.0"
    assert found["largest_deviation"] > 0


def test_a_bit_that_sticks_is_the_same_each_time() -> None:
    right = torch.ones(4, 4)
    found = compared(_flipping(right, (0, 1), 20, set(range(5))), right, 5)
    assert found["wrong"] == 5
    assert found["wrong_results"] == 5
    assert found["same_each_time"]


def test_not_a_number_is_wrong() -> None:
    right = torch.ones(4, 4)
    broken = right.clone()
    broken[2, 2] = float("nan")
    found = compared(lambda: broken, right, 3)
    assert found["wrong"] == 3
    assert found["got"] == "nan"
    assert found["largest_deviation"] > 1


def test_a_wrong_reference_is_not_trusted(monkeypatch) -> None:
    real = torch.Tensor.__matmul__
    calls = []

    def once_wrong(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = real(a, b)
        if not calls:
            out[5, 7] += 1
        calls.append(1)
        return out

    monkeypatch.setattr(torch.Tensor, "__matmul__", once_wrong)
    assert not reference(SHAPE, 64, 1).trusted


def test_a_host_that_is_wrong_is_not_blamed_on_the_devices(monkeypatch, refs) -> None:
    bad = deep_products.Reference(refs[""].a, refs[""].b, refs[""].product, trusted=False)
    monkeypatch.setattr(deep_products, "reference", lambda *_: bad)
    assert deep_products.products([Accelerator("cpu")]) == {"host_wrong": True}


def test_every_device_gets_every_precision(monkeypatch) -> None:
    monkeypatch.setattr(deep_products, "SHAPE", SHAPE)
    small = tuple(
        deep_products.Precision(p.name, p.stored, p.result, 64, p.scale) for p in PRECISIONS
    )
    monkeypatch.setattr(deep_products, "PRECISIONS", small)
    second = Accelerator("cpu")
    second.index = 1
    found = deep_products.products([Accelerator("cpu"), second])
    assert not found["host_wrong"]
    assert [row["index"] for row in found["devices"]] == [0, 1]
    for row in found["devices"]:
        assert set(row["products"]) == {p.name for p in PRECISIONS}
        assert row["products"]["fp32"]["flops_per_s"] > 0


@pytest.mark.parametrize(
    ("rate", "side"), [(700e12, 8192), (10e12, 8192), (1e12, 4096), (1e10, 512), (1.0, 512)]
)
def test_slow_formats_get_smaller_products(rate, side) -> None:
    assert deep_products.side_for(8192, rate) == side


def test_what_a_device_does_not_have_is_said(monkeypatch, refs) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("torch._scaled_mm is only supported on newer devices")

    monkeypatch.setattr(deep_products, "exact", refuse)
    found = deep_products.results_of(PRECISIONS[3], refs, Accelerator("cpu"))
    assert "only supported" in found["unsupported"]


def test_a_lost_device_is_no_missing_feature(monkeypatch, refs) -> None:
    def lose(*_: object, **__: object) -> None:
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(deep_products, "exact", lose)
    with pytest.raises(RuntimeError, match="unspecified"):
        deep_products.results_of(PRECISIONS[0], refs, Accelerator("cpu"))
