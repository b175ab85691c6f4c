"""Effects of warps, memory and multiprocessors, each measured by a small kernel on a real GPU.

The lessons and the claims show these figures beside what the models say. Run on a machine with an
NVIDIA GPU and torch 2.9 or later:  python benchmarks/warp_effects.py --out effects.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("warp_kernels.cu")
Row = dict[str, object]
GIB = 2**30


class Kernels:
    """Compiled kernels of `warp_kernels.cu` by name."""

    def __init__(self) -> None:
        self._source = SOURCE.read_text()
        self._known: dict[str, object] = {}

    def __call__(self, name: str) -> object:
        if name not in self._known:
            # The source has its own extern "C"; the compiler is told which kernel is wanted.
            self._known[name] = torch.cuda._compile_kernel(self._source, name)
        return self._known[name]


K = Kernels()


def timed(run: Callable[[], object], repeats: int = 7, inner: int = 3) -> float:
    """Median seconds of one call, by events around `inner` calls."""
    run()
    torch.cuda.synchronize()
    found = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(inner):
            run()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1e-3 / inner)
    return statistics.median(found)


def floats(n: int) -> torch.Tensor:
    return torch.zeros(n, device="cuda")


def coalescing() -> Iterator[Row]:
    n = 2**26
    source, out = floats(n * 32 + 64), floats(n)
    for stride in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
        yield _strided("stride", stride, source, out, n, stride, 0)
    for offset in (0, 1, 2, 4, 8, 16, 31):
        yield _strided("offset", offset, source, out, n, 1, offset)


def _strided(what: str, value: int, source, out, n: int, stride: int, offset: int) -> Row:
    kernel = K("strided")
    s = timed(
        lambda: kernel(((n + 255) // 256, 1, 1), (256, 1, 1), [source, out, n, stride, offset])
    )
    return {"effect": f"read_{what}", what: value, "time_s": s, "useful_bytes": 8 * n}


def banks() -> Iterator[Row]:
    out = torch.zeros(2, dtype=torch.int32, device="cuda")
    hops = 4096
    for stride in (0, 1, 2, 3, 4, 5, 8, 16, 32, 33):
        for _ in range(2):
            K("banks")((1, 1, 1), (32, 1, 1), [out, stride, hops])
        yield {"effect": "bank_conflict", "stride": stride, "cycles_per_load": out[0].item() / hops}


def divergence() -> Iterator[Row]:
    out = floats(132 * 8 * 256)
    for branches in (1, 2, 4, 8, 16, 32):
        s = timed(lambda b=branches: K("divergent")((132 * 8, 1, 1), (256, 1, 1), [out, b, 32768]))
        yield {"effect": "divergence", "branches": branches, "time_s": s}


def occupancy(units: int) -> Iterator[Row]:
    n = 2**28
    source, out = floats(n), floats(n)
    for name, width, unroll in (("copy4", 4, 1), ("copy16", 16, 1), ("copy16x4", 16, 4)):
        for threads, blocks in (
            (32, 1),
            (64, 1),
            (128, 1),
            (256, 1),
            (256, 2),
            (256, 3),
            (256, 4),
            (256, 6),
            (256, 8),
        ):
            count = n * 4 // width
            grid, block = (units * blocks, 1, 1), (threads, 1, 1)
            s = timed(lambda: K(name)(grid, block, [source, out, count]), 3, 1)
            yield {
                "effect": "occupancy",
                "bytes_per_load": width,
                "loads_in_flight": unroll,
                "threads_per_sm": threads * blocks,
                "time_s": s,
                "moved_bytes": 8 * n,
            }


def atomics() -> Iterator[Row]:
    n = 2**24
    grid, block = (n // 256, 1, 1), (256, 1, 1)
    for name, dtype in (("atomics", torch.int32), ("atomics_float", torch.float32)):
        for addresses in (1, 32, 1024, 2**15, 2**20, 2**24):
            counters = torch.zeros(addresses, dtype=dtype, device="cuda")
            s = timed(lambda: K(name)(grid, block, [counters, addresses - 1, n]), 3, 1)
            yield {
                "effect": "atomics",
                "dtype": str(dtype)[6:],
                "addresses": addresses,
                "time_s": s,
                "operations": n,
            }


def latency() -> Iterator[Row]:
    """One load that nothing hides: the second walk over few lines, the first over many (cold)."""
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    spoil = floats(2**27)
    for size in (2**14, 2**17, 2**18, 2**20, 2**22, 2**24, 2**25, 2**26, 2**28, 2**30, 2**32):
        nodes = size // 128
        order = torch.randperm(nodes, device="cuda", dtype=torch.int64)
        following = torch.zeros(size // 4, dtype=torch.int32, device="cuda")
        following[order * 32] = (order.roll(-1) * 32).to(torch.int32)
        hops = min(nodes * 4, 100_000)
        warm = _walk(following, out, hops, lambda: None)
        cold = _walk(following, out, min(nodes, 100_000), lambda: spoil.add_(1.0))
        yield {
            "effect": "latency",
            "memory": "global",
            "bytes": size,
            "load_s": warm,
            "cold_load_s": cold,
        }
        del following, order
    s = timed(lambda: K("chase_shared")((1, 1, 1), (32, 1, 1), [out, 20_000]), 3, 1)
    yield {"effect": "latency", "memory": "shared", "bytes": 4096, "load_s": s / 20_000}


def _walk(
    following: torch.Tensor, out: torch.Tensor, hops: int, before: Callable[[], object]
) -> float:
    found = []
    for _ in range(4):
        before()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        K("chase")((1, 1, 1), (1, 1, 1), [following, out, hops])
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1e-3 / hops)
    return statistics.median(found[1:])


def transposes() -> Iterator[Row]:
    n = 8192
    source, out = torch.randn(n, n, device="cuda"), floats(n * n)
    for name in ("transpose_naive", "transpose_shared", "transpose_padded"):
        s = timed(lambda k=name: K(k)((n // 32, n // 32, 1), (32, 8, 1), [source, out, n]))
        assert torch.equal(out.view(n, n), source.t()), name
        yield {"effect": "transpose", "kernel": name[10:], "time_s": s, "moved_bytes": 8 * n * n}
    plain = timed(lambda: out.copy_(source.view(-1)))
    yield {"effect": "transpose", "kernel": "plain copy", "time_s": plain, "moved_bytes": 8 * n * n}


def matmuls() -> Iterator[Row]:
    n = 4096
    a, b, c = (torch.randn(n, n, device="cuda") for _ in range(3))
    flops = 2.0 * n**3
    for name in ("matmul_naive", "matmul_tiled"):
        s = timed(lambda k=name: K(k)((n // 32, n // 32, 1), (32, 32, 1), [a, b, c, n]), 3, 1)
        assert torch.allclose(c, a @ b, atol=0.1, rtol=1e-3), name
        yield {"effect": "matmul", "kernel": name[7:], "time_s": s, "flops": flops}
    for label, dtype, tf32 in (
        ("float32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("float16", torch.float16, False),
        ("bfloat16", torch.bfloat16, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        x, y = a.to(dtype), b.to(dtype)
        s = timed(lambda x=x, y=y: x @ y)
        yield {"effect": "matmul", "kernel": f"library {label}", "time_s": s, "flops": flops}
    torch.backends.cuda.matmul.allow_tf32 = False


def waves(units: int) -> Iterator[Row]:
    out = floats(1)
    slots = 2 * units
    regular = range(units // 6, 4 * slots + 1, units // 6)
    edges = (k * slots + d for k in range(1, 5) for d in (0, 1))
    for blocks in sorted({*regular, *edges}):
        for kernel, amount in (("spin", 16384), ("hold", 200_000)):
            s = timed(
                lambda b=blocks, k=kernel, a=amount: K(k)((b, 1, 1), (1024, 1, 1), [out, a]), 5, 2
            )
            yield {
                "effect": "waves",
                "kernel": kernel,
                "blocks": blocks,
                "slots": slots,
                "time_s": s,
            }


def rates(units: int) -> Iterator[Row]:
    out = floats(1)
    hops = 4096
    for name, lanes in (
        ("fma_f32", 1),
        ("fma_f64", 1),
        ("fma_f16x2", 2),
        ("mad_s32", 1),
        ("add_s32", 1),
        ("exp2_f32", 1),
    ):
        s = timed(lambda k=name: K(f"rate_{k}")((units * 8, 1, 1), (256, 1, 1), [out, hops]), 5, 2)
        yield {
            "effect": "rate",
            "instruction": name,
            "time_s": s,
            "operations": hops * 8.0 * units * 8 * 256 * lanes,
        }


def sums() -> Iterator[Row]:
    n = 2**26
    source, out = torch.ones(n, device="cuda"), floats(1)
    for name in ("sum_atomic", "sum_thread", "sum_warp"):
        s = timed(lambda k=name: K(k)((132 * 8, 1, 1), (256, 1, 1), [source, out, n]), 3, 1)
        yield {"effect": "sum", "kernel": name[4:], "time_s": s, "moved_bytes": 4 * n}
    yield {"effect": "sum", "kernel": "library", "time_s": timed(source.sum), "moved_bytes": 4 * n}


def overlap() -> Iterator[Row]:
    """A gigabyte to the device and work on it: one after the other, and in chunks on two streams."""
    chunks, total = 16, GIB
    host = torch.empty(total // 4, pin_memory=True)
    device = torch.empty(total // 4, device="cuda")
    copying, computing = torch.cuda.Stream(), torch.cuda.Stream()
    parts = list(zip(host.chunk(chunks), device.chunk(chunks), strict=True))
    copy_s = timed(lambda: device.copy_(host, non_blocking=True), 3, 1)

    def work(x: torch.Tensor) -> None:
        K("spin")((132 * 2, 1, 1), (1024, 1, 1), [x, hops])

    hops = 4096
    one = timed(lambda: work(device), 3, 1)
    hops = int(4096 * copy_s / chunks / one)
    work_s = timed(lambda: [work(d) for _, d in parts], 3, 1)

    def serial() -> None:
        device.copy_(host, non_blocking=True)
        for _, d in parts:
            work(d)

    def both() -> None:
        for source, target in parts:
            with torch.cuda.stream(copying):
                target.copy_(source, non_blocking=True)
                done = copying.record_event()
            computing.wait_event(done)
            with torch.cuda.stream(computing):
                work(target)

    def wall(run: Callable[[], object]) -> float:
        found = []
        for _ in range(5):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            run()
            torch.cuda.synchronize()
            found.append(time.perf_counter() - begin)
        return statistics.median(found)

    pageable = torch.empty(total // 4).fill_(1.0)
    yield {
        "effect": "overlap",
        "way": "pageable copy",
        "time_s": wall(lambda: device.copy_(pageable)),
        "bytes": total,
    }
    yield {
        "effect": "overlap",
        "way": "pinned copy",
        "time_s": wall(lambda: device.copy_(host, non_blocking=True)),
        "bytes": total,
    }
    yield {"effect": "overlap", "way": "work", "time_s": work_s, "bytes": total}
    yield {
        "effect": "overlap",
        "way": "one after the other",
        "time_s": wall(serial),
        "bytes": total,
    }
    yield {
        "effect": "overlap",
        "way": "in 16 chunks, overlapped",
        "time_s": wall(both),
        "bytes": total,
    }


def powers(units: int) -> Iterator[Row]:
    """Power and clock after two seconds of each load."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    n = 8192
    random, zeros = (
        torch.randn(n, n, device="cuda", dtype=torch.bfloat16),
        torch.zeros(n, n, device="cuda", dtype=torch.bfloat16),
    )
    big, big2, out = floats(2**29), floats(2**29), floats(1)
    loads: dict[str, Callable[[], object]] = {
        "at rest": lambda: time.sleep(0.02),
        "copy in device memory": lambda: big2.copy_(big),
        "float32 multiply-adds": lambda: K("rate_fma_f32")(
            (units * 8, 1, 1), (256, 1, 1), [out, 65536]
        ),
        "bfloat16 products of zeros": lambda: zeros @ zeros,
        "bfloat16 products of random numbers": lambda: random @ random,
    }
    for name, load in loads.items():
        begin, readings, clocks, done = time.perf_counter(), [], [], 0
        energy = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
        since = time.perf_counter()
        while (now := time.perf_counter()) - begin < 3.0:
            load()
            done += 1
            if done % 8 == 0:
                torch.cuda.synchronize()
            if now - begin > 1.0 and not readings:
                energy, since = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), now
            if now - begin > 1.0:
                readings.append(now)
                clocks.append(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
        torch.cuda.synchronize()
        spent = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) - energy
        yield {
            "effect": "power",
            "load": name,
            "average_w": spent * 1e-3 / (time.perf_counter() - since),
            "sm_clock_hz": statistics.median(clocks) * 1e6,
        }
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    properties = torch.cuda.get_device_properties(0)
    units = properties.multi_processor_count
    groups = {
        "coalescing": coalescing,
        "banks": banks,
        "divergence": divergence,
        "occupancy": lambda: occupancy(units),
        "atomics": atomics,
        "latency": latency,
        "transposes": transposes,
        "matmuls": matmuls,
        "waves": lambda: waves(units),
        "rates": lambda: rates(units),
        "sums": sums,
        "overlap": overlap,
        "powers": lambda: powers(units),
    }
    rows: list[Row] = []
    for name, group in groups.items():
        try:
            rows += list(group())
        except Exception as error:  # one effect that fails must not cost the others
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
        torch.cuda.empty_cache()
        print(name, len(rows), flush=True)
    document = {
        "schema": "gpuscope.effects",
        "version": 1,
        "machine": {
            "device": properties.name,
            "sm_count": units,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
        },
        "effects": rows,
    }
    lines = ",\n  ".join(json.dumps(row) for row in document.pop("effects"))
    head = json.dumps(document, indent=1)[:-2]
    out.write_text(f'{head},\n "effects": [\n  {lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
