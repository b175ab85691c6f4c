"""What is added to a product and where it is copied first."""

from __future__ import annotations

import pytest
from matmul_work import dense, run

from gpuscope.program.types import TensorSpec


def _kernels(name: str, added: TensorSpec) -> list[str]:
    a, b = dense(64, 4096, 128, dtype="float32"), dense(64, 128, 128, dtype="float32")
    out = dense(64, 4096, 128, dtype="float32")
    return [k.name for k in run(name, (added, a, b), (out,))]


def test_a_row_for_each_product_of_a_batch_is_copied_to_all_rows() -> None:
    row = dense(64, 1, 128, dtype="float32")
    a, b = dense(64, 4096, 128, dtype="float32"), dense(64, 128, 128, dtype="float32")
    copy, *products = run("aten::baddbmm", (row, a, b), (dense(64, 4096, 128, dtype="float32"),))
    assert copy.name == "copy_strided"
    assert copy.written_bytes == 64 * 4096 * 128 * 4
    assert copy.read_bytes == 64 * 128 * 4
    assert copy.duration_s == pytest.approx(81e-6, rel=0.25)  # recorded on an H200
    assert products


def test_a_matrix_is_copied_and_a_row_in_place_is_not() -> None:
    assert "copy_added_matrix" in _kernels("aten::baddbmm", dense(64, 4096, 128, dtype="float32"))
    in_place = _kernels("aten::baddbmm_", dense(64, 1, 128, dtype="float32"))
    assert not any("copy" in name for name in in_place)


def test_one_row_of_all_products_has_fewer_dimensions() -> None:
    assert _kernels("aten::baddbmm", dense(128, dtype="float32"))[0] == "copy_strided"


def test_an_ordinary_product_adds_a_row_in_its_epilogue() -> None:
    x, w = dense(4096, 128, dtype="float32"), dense(128, 128, dtype="float32")
    made = run("aten::addmm", (dense(128, dtype="float32"), x, w), (x,))
    assert not any("copy" in k.name for k in made)
