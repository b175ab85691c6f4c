"""Triton kernels whose requests are known, where Triton is installed."""

from __future__ import annotations

import textwrap

import pytest
from lens_examples import EXAMPLES, Seen, access, needs_triton

from gpuscope.errors import WorkloadError
from gpuscope.kernel_lens.runner import look

pytestmark = needs_triton

HEAD = """
import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(b + i, tl.load(a + i, mask=i < n), mask=i < n)


@triton.jit
def total(a, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out + row, tl.sum(tl.load(a + row * n + tl.arange(0, BLOCK)), 0))


@triton.jit
def count(values, bins, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(values + i), 1)


@triton.jit
def pointers(a, out, n, BLOCK: tl.constexpr):
    view = tl.make_block_ptr(a, (n, n), (n, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    i = tl.arange(0, BLOCK)
    tl.store(out + i[:, None] * n + i[None, :], tl.load(view))
"""


def _look(tmp_path, body: str, **options) -> Seen:
    file = tmp_path / "kernels.py"
    file.write_text(HEAD + textwrap.dedent(body))
    return Seen(look(str(file), **options))


def test_the_examples():
    seen = Seen(look(str(EXAMPLES / "triton_copies.py")))
    add = seen.one("add")
    for array in ("a", "b"):
        load = access(add, array, "load")
        assert (load.bytes_per_lane, load.sectors_per_request) == (16, 16)
        assert load.requests == 4096 // (32 * 4)
        assert not load.wasteful
    assert add.grid == (4, 1, 1)
    assert add.shared_bytes is None
    assert add.active_share is None
    strided = seen.one("strided")
    load = access(strided, "source", "load")
    assert (load.bytes_per_lane, load.sectors_per_request) == (4, 32)
    assert load.ideal_sectors == load.requests * 4
    turned = seen.one("transpose")
    assert all(found.sectors == found.ideal_sectors for found in turned.accesses)


def test_a_size_that_16_does_not_divide_splits_the_vectors(tmp_path):
    """Lanes still hold 4 elements each, so the 4 requests of a warp each touch all 16 sectors."""
    seen = _look(
        tmp_path,
        """
        def launch():
            add[(4,)](torch.arange(1000.), torch.empty(1000), 1000, BLOCK=256, num_warps=2)
        """,
    )
    launch = seen.one("add")
    load = access(launch, "a", "load")
    assert load.bytes_per_lane == 4
    assert load.worst_sectors == 16
    assert load.lanes == 1000
    assert "mask_splits_vectors" in launch.notes
    assert dict(launch.scalars)["n"] == "1000"


def test_scalars_are_stored_by_one_lane_and_loaded_by_all(tmp_path):
    seen = _look(
        tmp_path,
        """
        def launch():
            out = torch.empty(8)
            total[(8,)](torch.ones(8, 256), out, 256, BLOCK=256)
            assert (out == 256).all()
        """,
    )
    launch = seen.one("total")
    load, store = access(launch, "a", "load"), access(launch, "out", "store")
    assert (load.requests, load.bytes_per_lane, load.sectors_per_request) == (8 * 4, 8, 8)
    assert (store.requests, store.lanes) == (8, 8)


def test_atomics(tmp_path):
    seen = _look(
        tmp_path,
        """
        def launch():
            bins = torch.zeros(4, dtype=torch.int32)
            count[(1,)](torch.zeros(128, dtype=torch.int32), bins, BLOCK=128)
            assert bins[0] == 128
        """,
    )
    found = access(seen.one("count"), "bins", "atomic")
    assert (found.requests, found.worst_rounds, found.address_rounds) == (4, 32, 128)


def test_block_pointers(tmp_path):
    seen = _look(
        tmp_path,
        """
        def launch():
            pointers[(1,)](torch.ones(32, 32), torch.empty(32, 32), 32, BLOCK=32)
        """,
    )
    launch = seen.one("pointers")
    assert access(launch, "a", "load").sectors == 32 * 32 * 4 // 32
    assert access(launch, "a", "load").bytes_per_lane == 16


def test_views_keep_their_alignment(tmp_path):
    seen = _look(
        tmp_path,
        """
        def launch():
            add[(1,)](torch.ones(1025)[1:], torch.empty(1024), 1024, BLOCK=1024)
        """,
    )
    launch = seen.one("add")
    assert access(launch, "a", "load").bytes_per_lane == 4
    assert access(launch, "b", "store").bytes_per_lane == 16


def test_a_pointer_outside_is_an_error_not_a_crash(tmp_path):
    with pytest.raises(WorkloadError, match="OutsideError") as caught:
        _look(
            tmp_path,
            """
            def launch():
                add[(2,)](torch.ones(100), torch.empty(256), 256, BLOCK=128)
            """,
        )
    assert "28 of 128 pointers at line 10" in caught.value.why
    assert "mask it" in caught.value.next_step


def test_a_constant_is_known_to_the_compiler(tmp_path):
    """BLOCK is no multiple of 16, but a constant: 8 contiguous elements are proven."""
    seen = _look(
        tmp_path,
        """
        def launch():
            add[(2,)](torch.ones(16), torch.empty(16), 16, BLOCK=8, num_warps=1)
        """,
    )
    assert access(seen.one("add"), "a", "load").lanes == 64  # both programs, copies included
    assert access(seen.one("add"), "b", "store").lanes == 16


def test_the_limit(tmp_path):
    seen = _look(
        tmp_path,
        """
        def launch():
            add[(64,)](torch.ones(8192), torch.empty(8192), 8192, BLOCK=128)
        """,
        limit=1000,
    )
    assert not seen.lens.complete
    assert not seen.one("add").complete
    assert 0 < access(seen.one("add"), "a", "load").lanes <= 1000


def test_wavefronts_of_64(tmp_path):
    seen = _look(
        tmp_path,
        """
        def launch():
            add[(1,)](torch.ones(1024), torch.empty(1024), 1024, BLOCK=1024)
        """,
        on="mi300x",
    )
    load = access(seen.one("add"), "a", "load")
    assert seen.one("add").block == (4 * 64, 1, 1)
    assert len(load.sample.addresses) == 64
    assert (load.requests, load.bytes_per_lane, load.sectors) == (4, 16, 32)
