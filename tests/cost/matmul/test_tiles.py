from __future__ import annotations

import pytest

from gpuscope.cost.matmul.tiles import tiles_for
from gpuscope.hardware import device, devices


def test_every_device_has_tiles_of_distinct_sizes() -> None:
    for each in devices():
        for unit in ("matrix", "vector"):
            tiles = tiles_for(each, unit)  # type: ignore[arg-type]
            assert tiles
            assert len({tile.name for tile in tiles}) == len(tiles), each.id


def test_hopper_has_the_tiles_that_kernel_names_show() -> None:
    names = {tile.name for tile in tiles_for(device("h200"), "matrix")}
    # Recorded as nvjet_sm90_tst_256x128, 192x192, 320x128, 128x160, 64x8 and 512x64.
    assert {"256x128", "128x256", "192x192", "320x128", "128x160"} <= names
    assert {"64x8", "8x64", "512x64"} <= names


def test_accumulators_fit_in_registers() -> None:
    """Two warpgroups of 128 threads hold at most 160 float32 accumulators a thread here."""
    for tile in tiles_for(device("h200"), "matrix"):
        assert tile.m * tile.n <= 2 * 128 * 160
        assert tile.m % 64 == 0 or tile.n % 64 == 0
        assert tile.m % 8 == tile.n % 8 == 0


@pytest.mark.parametrize(
    ("name", "unit", "largest"),
    [
        ("a100", "matrix", (256, 128)),
        ("mi300x", "matrix", (256, 256)),
        ("h200", "vector", (128, 256)),
        ("m2-max", "vector", (64, 64)),
    ],
)
def test_largest_tiles_of_other_families(name: str, unit: str, largest: tuple[int, int]) -> None:
    tiles = tiles_for(device(name), unit)  # type: ignore[arg-type]
    best = max(tiles, key=lambda tile: tile.m * tile.n)
    assert best.m * best.n == largest[0] * largest[1]


def test_unaligned_operands_fall_back_to_kernels_of_earlier_generations() -> None:
    earlier = tiles_for(device("h200"), "matrix", "earlier")
    assert all(tile.cluster == 1 for tile in earlier)
    assert min(tile.m for tile in earlier) == 32


def test_unaligned_int8_has_the_tiles_of_ampere_on_hopper() -> None:
    """Names read "i16832gemm_s8_64x64" to "256x128" there, whatever the device."""
    names = {tile.name for tile in tiles_for(device("h200"), "matrix", "integer")}
    assert names == {"64x64", "128x64", "64x128", "128x128", "128x256", "256x128"}


def test_float32_on_matrix_units_has_smaller_tiles_than_half_precision() -> None:
    """rocBLAS' kernel names on an MI210: 128 x 128 at most, 64 x 32 often, all within the LDS."""
    tiles = tiles_for(device("mi210"), "matrix", "float")
    assert {"128x64", "96x96", "64x32", "16x16"} <= {tile.name for tile in tiles}
    assert max(tile.m * tile.n for tile in tiles) == 128 * 128
    for tile in tiles:
        assert tile.resident * (tile.m + tile.n) * 2 * tile.k <= 65536


def test_a_systolic_array_holds_as_much_as_it_has_places() -> None:
    assert tiles_for(device("tpu-v6e"), "matrix")[0].name == "256x256"
    assert tiles_for(device("tpu-v5p"), "matrix")[0].name == "128x128"


def test_bfloat16_has_the_smallest_single_loads_for_batches_alone() -> None:
    """3 x 24 x 7: 2.5 us in bfloat16 (64 x 64), 2.0 us in float16 (32 x 32) on an H200."""
    half = {t: tiles_for(device("h200"), "matrix", t) for t in ("single bf16", "single fp16")}
    assert [t.name for t in half["single bf16"] if t.batched] == ["32x32"]
    assert not any(t.batched for t in half["single fp16"])
    assert min(t.m for t in half["single fp16"]) == 32
