"""Time the held-out kernels on a GPU: `python validation/held_out_kernels.py OUT.jsonl.gz`.

What is drawn, how it is split and how each is called: `validation/held_out`. Each point is called
twice to settle, then up to eight times under the profiler; its time is the median over the calls of
the sum of the true durations of all kernels, copies and memsets that the call launched. "hot": the
same buffers again and again; "cold": a buffer of 256 MB is written before each call. One line a
point and state. Needs torch alone; stops before `--seconds`, points in an order that mixes kinds.
"""

from __future__ import annotations

import argparse
import bisect
import gzip
import json
import re
import statistics
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from held_out.points import KINDS, Point, all_points, calibration_points  # noqa: E402

CHUNK = 100
"""Points per profiler session."""

MOST_CALLS, STATE_S, FLUSH_BYTES = 8, 0.05, 256 * 2**20
REST_ABOVE_S, REST_MOST_S = 0.003, 0.15
"""Rest as long as a state worked, so that the power limit does not lower the next one's clock."""

RUNTIME = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime"})
DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
NO_JSON = re.compile(r":\s*-?(?:nan|inf)\b")


class Clock:
    """The SM clock, where the driver tells it."""

    def __init__(self) -> None:
        try:
            import pynvml
            import torch

            pynvml.nvmlInit()
            self._read = pynvml.nvmlDeviceGetClockInfo
            # Not by its number: NVML counts the devices that the process does not see, too.
            uuid = torch.cuda.get_device_properties(0).uuid
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except Exception:
            self._read = None

    def mhz(self) -> int | None:
        """Now; None if not told."""
        return int(self._read(self._handle, 1)) if self._read else None  # 1: the SMs


def timed(points: list[Point], clock: Clock, deadline_s: float) -> Iterator[dict[str, Any]]:
    """One profiler session over the points; a row a point and state, or one that says why not."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    marks: list[tuple[str, Point, str, int | None]] = []
    failed: list[dict[str, Any]] = []
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as session:
        for number, point in enumerate(points):
            if time.perf_counter() > deadline_s:
                break
            try:
                _run(number, point, marks, clock)
            except Exception as error:
                why = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                failed.append({"kind": point.kind, "params": point.params, "failed": why})
                torch.cuda.synchronize()
            if torch.cuda.memory_reserved() > 40e9:
                torch.cuda.empty_cache()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        session.export_chrome_trace(str(path))
        text = NO_JSON.sub(": null", path.read_text(errors="replace"))
    found = by_range(json.loads(text)["traceEvents"])
    yield from failed
    for mark, point, state, mhz in marks:
        yield row(point, state, mhz, [v for k, v in found.items() if k.startswith(mark)])


def _run(number: int, point: Point, marks: list[Any], clock: Clock) -> None:
    import torch
    from torch.profiler import record_function

    call: Callable[[], object] = point.build()
    call()
    torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    torch.cuda.synchronize()
    once_s = time.perf_counter() - began
    calls = max(2, min(MOST_CALLS, int(STATE_S / max(once_s, 1e-6))))
    for state in point.states:
        began = time.perf_counter()
        mark = f"@{number}{state}:"
        for i in range(calls + 1):
            if state == "cold":
                _flush().fill_(float(i))
            # The first one finds the cache, and the clock, as what went before left them.
            with record_function(f"{mark if i else '-'}{i}"):
                call()
        marks.append((mark, point, state, clock.mhz()))
        torch.cuda.synchronize()
        worked_s = time.perf_counter() - began
        if worked_s > REST_ABOVE_S and point.kind in ("matmul", "attention", "convolution"):
            time.sleep(min(REST_MOST_S, worked_s))


_BUFFERS: list[Any] = []


def _flush() -> Any:
    import torch

    if not _BUFFERS:
        _BUFFERS.append(torch.randn(FLUSH_BYTES // 4, device="cuda"))
    return _BUFFERS[0]


def by_range(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Device events of each marked range, in launch order."""
    launches: dict[int, float] = {}
    ranges: list[tuple[float, float, str]] = []
    for e in events:
        cat = e.get("cat")
        if cat in RUNTIME:
            at = e["args"].get("correlation", -1)
            launches[at] = min(e["ts"], launches.get(at, e["ts"]))
        elif cat == "user_annotation" and str(e["name"]).startswith("@"):
            ranges.append((e["ts"], e["ts"] + e["dur"], e["name"]))
    ranges.sort()
    starts = [r[0] for r in ranges]
    found: dict[str, list[tuple[float, dict[str, Any]]]] = {r[2]: [] for r in ranges}
    for e in events:
        if e.get("cat") not in DEVICE:
            continue
        launched = launches.get(e["args"].get("correlation", -1))
        if launched is None:
            continue
        at = bisect.bisect_right(starts, launched) - 1
        if at >= 0 and launched <= ranges[at][1]:
            found[ranges[at][2]].append((launched, e))
    return {k: [e for _, e in sorted(v, key=lambda x: x[0])] for k, v in found.items()}


def row(
    point: Point, state: str, mhz: int | None, calls: list[list[dict[str, Any]]]
) -> dict[str, Any]:
    """The medians over the calls that launched what most of them launched."""
    out: dict[str, Any] = {
        "kind": point.kind,
        "params": point.params,
        "state": state,
        "sealed": point.sealed,
    }
    names = Counter(tuple(e["name"] for e in call) for call in calls)
    common = names.most_common(1)[0][0] if names else ()
    if not common:
        return {**out, "failed": "It ran nothing on the device."}
    kept = [call for call in calls if tuple(e["name"] for e in call) == common]
    sums = sorted(sum(e["dur"] for e in call) for call in kept)
    spans = [max(e["ts"] + e["dur"] for e in c) - min(e["ts"] for e in c) for c in kept]
    out |= {
        "us": round(statistics.median(sums), 3),
        "least_us": round(sums[0], 3),
        "most_us": round(sums[-1], 3),
        "span_us": round(statistics.median(spans), 3),
        "n": len(sums),
        "sm_mhz": mhz,
        "kernel_count": len(common),
        "kernels": _kernels(kept),
    }
    return out


def _kernels(kept: list[list[dict[str, Any]]]) -> list[list[Any]]:
    """[name, grid, block, how many, median microseconds of one] in order of the first."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for call in kept:
        for e in call:
            grid, block = ("x".join(map(str, e["args"].get(k, []))) for k in ("grid", "block"))
            groups.setdefault((e["name"][:160], grid, block), []).append(e["dur"])
    return [
        [*key, max(1, round(len(v) / len(kept))), round(statistics.median(v), 3)]
        for key, v in groups.items()
    ]


def main() -> int:
    """Time what was asked for, a line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=KINDS)
    parser.add_argument("--seconds", type=float, default=235)
    parser.add_argument(
        "--calibration",
        nargs="*",
        type=int,
        metavar="SEED",
        default=[],
        help="instead: points that constants may be fitted to, from other seeds",
    )
    args = parser.parse_args()
    deadline_s = time.perf_counter() + args.seconds * 0.95
    import torch

    torch.cuda.init()
    drawn = (
        calibration_points(args.kinds, args.calibration)
        if args.calibration
        else all_points(args.kinds)
    )
    points = sorted(drawn, key=lambda p: zlib.crc32(b"order" + p.text.encode()))
    clock, done, failed = Clock(), 0, 0
    facts = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "gpu": torch.cuda.get_device_name(),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    # An idle clock and the libraries' first loads are not the first point's.
    warm = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for _ in range(50):
        warm @ warm
    with gzip.open(args.out, "wt") as out:
        out.write(json.dumps({"machine": facts}) + "\n")
        for at in range(0, len(points), CHUNK):
            if time.perf_counter() > deadline_s:
                break
            for made in timed(points[at : at + CHUNK], clock, deadline_s):
                failed += "failed" in made
                done += "us" in made
                out.write(json.dumps(made, separators=(",", ":")) + "\n")
            print(
                f"{at + CHUNK} of {len(points)} points, {done} rows, {failed} failed, "
                f"{deadline_s - time.perf_counter():.0f} s left",
                flush=True,
            )
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
