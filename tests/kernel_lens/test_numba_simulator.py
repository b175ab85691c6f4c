"""What kernels of the simulator may do, beyond the examples."""

from __future__ import annotations

import pytest
from lens_examples import Seen, access, needs_numba

from gpuscope.kernel_lens.runner import look

pytestmark = needs_numba

KERNELS = """
import numpy as np
from numba import cuda, float32, float64, int32

TABLE = np.arange(64, dtype=np.float32)


@cuda.jit(device=True)
def scaled(x, i):
    return 2 * x[i]


@cuda.jit
def calls(x, y):
    i = cuda.grid(1)
    y[i] = scaled(x, i) + scaled(x, i + 32)


@cuda.jit
def wide(x):
    tile = cuda.shared.array(64, float64)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    x[i] = tile[63 - i]


@cuda.jit
def dynamic(x):
    tile = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    tile[2 * i] = 1
    x[i] = tile[2 * i]


@cuda.jit
def constant(x):
    table = cuda.const.array_like(TABLE)
    i = cuda.threadIdx.x
    x[i] = table[3] + table[i]


@cuda.jit
def backwards(x):
    x[-1 - cuda.threadIdx.x] = 1


@cuda.jit
def rows(x):
    row = x[cuda.threadIdx.x]
    row[1] = row[0]


@cuda.jit
def cleared(x):
    x[cuda.threadIdx.x, :] = 0


@cuda.jit
def views(x, y):
    i = cuda.threadIdx.x
    y[i] = x[i]


@cuda.jit
def early(x):
    i = cuda.threadIdx.x
    if i < 16:
        cuda.syncthreads()
    x[i] = 1


@cuda.jit
def votes(x):
    i = cuda.threadIdx.x
    x[i] = cuda.syncthreads_count(i < 5) + 100 * cuda.syncthreads_or(i == 3)
    if i >= 8:
        return
    x[i] += 1000 * cuda.syncthreads_count(1) + 10 * cuda.syncthreads_and(i < 8)


@cuda.jit
def private(x):
    mine = cuda.local.array(4, int32)
    mine[0] = cuda.threadIdx.x
    x[cuda.threadIdx.x] = mine[0]


@cuda.jit
def records(people):
    people[cuda.threadIdx.x].age += 1


@cuda.jit
def cube(x):
    i, j, k = cuda.grid(3)
    x[k, j, i] = 1


@cuda.jit
def guarded(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 1


def launch():
    f32 = lambda n: cuda.to_device(np.zeros(n, dtype=np.float32))
    calls[1, 32](f32(64), f32(32))
    wide[1, 64](cuda.to_device(np.arange(64.0)))
    dynamic[1, 32, 0, 256](f32(32))
    constant[1, 32](f32(32))
    backwards[1, 32](f32(33))
    rows[1, 32](f32((32, 8)))
    cleared[1, 4](f32((4, 8)))
    base = f32(40)
    views[1, 32](base[8:40], base[1:33])
    early[1, 32](f32(32))
    x = f32(32)
    votes[1, 32](x)
    assert (x.copy_to_host()[8:] == 105).all()
    assert (x.copy_to_host()[:8] == 8115).all()
    private[1, 32](f32(32))
    people = np.zeros(32, dtype=[("age", np.int32), ("size", np.float32)])
    records[1, 32](people)
    assert (people["age"] == 1).all()
    cube[(1, 1, 2), (4, 4, 2)](f32((4, 4, 4)))
    guarded.forall(300)(f32(300))
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    file = tmp_path_factory.mktemp("odd") / "odd.py"
    file.write_text(KERNELS)
    return Seen(look(str(file)))


def test_two_calls_of_a_device_function_are_two_requests(odd: Seen):
    launch = odd.one("calls")
    load = access(launch, "x", "load")
    assert (load.requests, load.lanes, load.sectors) == (2, 64, 8)
    assert [function.name for function in launch.functions] == ["calls", "scaled"]
    inner = launch.functions[1]
    assert inner.lines[load.line - inner.first_line].strip() == "return 2 * x[i]"


def test_doubles_take_two_passes_and_no_more(odd: Seen):
    launch = odd.one("wide")
    for kind in ("load", "store"):
        found = access(launch, "tile", kind)
        assert (found.bytes_per_lane, found.requests) == (8, 2)
        assert (found.passes, found.ideal_passes, found.worst_ways) == (4, 4, 1)
    assert access(launch, "x", "load").sectors_per_request == 8


def test_dynamic_shared_memory(odd: Seen):
    launch = odd.one("dynamic")
    assert access(launch, "tile", "load").worst_ways == 2
    assert launch.shared_bytes == 256


def test_constants_are_fast_only_where_lanes_agree(odd: Seen):
    launch = odd.one("constant")
    (load,) = [a for a in launch.accesses if a.space == "constant"]
    assert (load.array, load.requests, load.lanes) == ("table", 2, 64)
    assert load.passes == 1 + 32


def test_negative_indices_count_from_the_end(odd: Seen):
    store = access(odd.one("backwards"), "x", "store")
    assert store.sample.addresses[:2] == (4 * 32, 4 * 31)
    assert store.sectors == 5


def test_rows_are_views_of_their_array(odd: Seen):
    launch = odd.one("rows")
    load, store = access(launch, "x", "load"), access(launch, "x", "store")
    assert load.sample.addresses[:3] == (0, 32, 64)
    assert store.sample.addresses[:3] == (4, 36, 68)
    assert load.sectors == 32


def test_a_slice_is_as_many_stores(odd: Seen):
    store = access(odd.one("cleared"), "x", "store")
    assert (store.requests, store.lanes) == (8, 32)


def test_views_keep_their_place_in_the_array(odd: Seen):
    """x begins 32 bytes in (aligned), y 4 bytes in: five sectors."""
    launch = odd.one("views")
    (load,) = [a for a in launch.accesses if a.kind == "load"]
    (store,) = [a for a in launch.accesses if a.kind == "store"]
    assert (load.sectors, store.sectors) == (4, 5)
    assert load.array == store.array
    assert len(launch.arrays) == 1


def test_a_barrier_that_not_all_reach_is_told(odd: Seen):
    (barrier,) = odd.one("early").barriers
    assert (barrier.waiting, barrier.elsewhere) == (16, 16)
    told = [launch.kernel for launch in odd.lens.launches if launch.barriers]
    assert told == ["early", "votes"]


def test_what_is_not_followed_is_told(odd: Seen):
    assert odd.one("private").notes == ("local_arrays",)
    assert odd.one("records").notes == ("record_arrays",)
    assert odd.one("records").accesses == ()


def test_three_dimensions_x_fastest(odd: Seen):
    launch = odd.one("cube")
    assert (launch.grid, launch.block) == ((1, 1, 2), (4, 4, 2))
    store = access(launch, "x", "store")
    assert (store.requests, store.lanes, store.sectors) == (2, 64, 8)


def test_what_is_read_and_written_moves_twice(odd: Seen):
    (array,) = odd.one("wide").arrays
    assert (array.touched_bytes, array.once_bytes) == (64 * 8, 2 * 64 * 8)
    assert array.launch_sectors == array.sectors == 2 * 16


def test_forall_makes_warps(odd: Seen):
    launch = odd.one("guarded")
    assert (launch.grid, launch.block) == ((2, 1, 1), (256, 1, 1))
    assert launch.notes == ("forall_block",)
    assert access(launch, "x", "store").requests == 10


def test_the_limit_stops_and_keeps_what_was_seen(tmp_path):
    file = tmp_path / "long.py"
    file.write_text(
        KERNELS.replace("def launch():", "def other():")
        + """
@cuda.jit
def forever(x):
    while True:
        x[cuda.threadIdx.x] += 1


def launch():
    views[1, 32](np.zeros(32), np.zeros(32))
    try:
        forever[1, 32](np.zeros(32, dtype=np.float32))
    except Exception:
        pass
    views[1, 32](np.zeros(32), np.zeros(32))
"""
    )
    lens = look(str(file), limit=2000)
    assert not lens.complete
    assert lens.seen >= 2000
    assert [launch.kernel for launch in lens.launches] == ["views", "forever"]
    assert [launch.complete for launch in lens.launches] == [True, False]
    assert access(lens.launches[1], "x", "load").requests > 100
