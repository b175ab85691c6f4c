"""What compiled kernels and compiled calls take: `benchmarks/compiled_kernels.py --out FILE`.

Kernels: each case of `compiled_cases.py` is compiled by `torch.compile`, run, and every kernel's
true duration is read from `torch.profiler`, with a cold L2 cache (a large fill between) and hot.
Host: wall time of calls whose device work is shorter, by number of kernels, of parameters and of
library calls, without and with CUDA graphs. One JSON object a line; what failed says so and the
others go on. It stops when `--seconds` are over. Needs a GPU and Triton; `--check` runs the cases
eagerly on a CPU instead.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from compiled_cases import CASES, Case, make  # noqa: E402

COLD_BYTES, HOT_BYTES = 256 << 20, 4096
"""Bytes that are filled between repetitions: one empties the L2 cache, the other is a mark."""
MARK = "complex<double>"
"""What the filling kernel has in its name, and no other."""
ROUNDS = {"cold": 6, "hot": 6}
SIZED = {"cold": COLD_BYTES, "hot": HOT_BYTES}


def nbytes(values: Any) -> list[tuple[list[int], str]]:
    """Shapes and types of the tensors in a (nested) result."""
    import torch

    if isinstance(values, torch.Tensor):
        return [(list(values.shape), str(values.dtype)[6:])]
    if isinstance(values, (list, tuple)):
        return [one for value in values for one in nbytes(value)]
    return []


def profiled(body: Callable[[Callable[[], None]], None], mark_bytes: int) -> list[list[Any]]:
    """Kernels (Kineto's events) of each stretch of `body` that a filling of `mark_bytes` ends."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    buffer = torch.empty(mark_bytes // 16, dtype=torch.complex128, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        body(lambda: buffer.fill_(1.0))
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        prof.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    kinds = ("kernel", "gpu_memset", "gpu_memcpy")
    found = sorted((e for e in events if e.get("cat") in kinds), key=lambda e: e["ts"])
    stretches: list[list[Any]] = [[]]
    for event in found:
        if MARK in event["name"]:
            stretches.append([])
        else:
            stretches[-1].append(event)
    return stretches[:-1]


def kernels_of(stretches: list[list[Any]]) -> list[dict[str, Any]]:
    """One row a kernel of the stretch: the median over equal stretches."""
    length = statistics.mode(len(s) for s in stretches)
    same = [s for s in stretches if len(s) == length]
    rows = []
    for at in range(length):
        event = same[-1][at]
        args = event.get("args", {})
        times = sorted(s[at]["dur"] for s in same)
        rows.append(
            {
                "name": event["name"],
                "grid": args.get("grid"),
                "block": args.get("block"),
                "registers": args.get("registers per thread"),
                "shared_bytes": args.get("shared memory"),
                "bytes": args.get("bytes"),
                "median_us": statistics.median(times),
                "min_us": times[0],
                "max_us": times[-1],
                "n": len(times),
            }
        )
    return rows


def measured(case: Case) -> Iterator[dict[str, Any]]:
    """Rows of one case: forward and backward, cold and hot."""
    import torch

    torch._dynamo.reset()
    run, given = make(case, "cuda")
    started = time.perf_counter()
    compiled = torch.compile(run, dynamic=False)
    wanted = [t for t in given if t.requires_grad]

    def forward() -> Any:
        return compiled(*given)

    def backward(out: Any, ones: Any) -> Any:
        return torch.autograd.grad(out, wanted, ones, retain_graph=True, allow_unused=True)

    out = forward()
    outs = [o for o in (out if isinstance(out, tuple) else (out,)) if o is not None]
    outs = [o for o in outs if o.requires_grad] if case.backward else outs
    ones = [torch.randn_like(o) for o in outs]
    if case.backward:
        backward(outs, ones)
    torch.cuda.synchronize()
    compile_s = time.perf_counter() - started
    common = {
        "bench": "kernel",
        "case": case.name,
        "mib": case.mib,
        "params": case.params,
        "inputs": nbytes(given),
        "outputs": nbytes(out),
        "compile_s": round(compile_s, 3),
    }

    for state, rounds in ROUNDS.items():

        def body(mark: Callable[[], None], rounds: int = rounds) -> None:
            for _ in range(2):
                forward()
            mark()
            for _ in range(rounds):
                forward()
                mark()
            if case.backward:
                backward(outs, ones)
                mark()
                for _ in range(rounds):
                    backward(outs, ones)
                    mark()

        stretches = profiled(body, SIZED[state])
        parts = {"forward": stretches[1 : rounds + 1]}
        if case.backward:
            parts["backward"] = stretches[rounds + 2 :]
        for part, of in parts.items():
            yield {**common, "state": state, "part": part, "kernels": kernels_of(of)}


def host_cases() -> Iterator[tuple[str, dict[str, Any], Callable[[], Any]]]:
    """Calls whose device work is tiny: (case, params, a maker of the call)."""

    def slices(count: int) -> Callable[[], Any]:
        import torch

        x = torch.randn(4096, device="cuda")
        return lambda: [x[: 64 + 3 * i] * 2.0 for i in range(count)]

    def matmuls(count: int) -> Callable[[], Any]:
        import torch

        x, w = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")

        def run() -> Any:
            y = x
            for _ in range(count):
                y = y @ w
            return y

        return run

    def blocks(layers: int, train: bool) -> Callable[[], Any]:
        import torch

        class Summed(torch.nn.Sequential):
            def forward(self, x: Any) -> Any:
                return super().forward(x).sum()

        net = Summed(
            *[
                torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64))
                for _ in range(layers)
            ]
        ).cuda()
        x = torch.randn(64, 64, device="cuda")

        def run() -> Any:
            if not train:
                with torch.no_grad():
                    return net(x)
            for p in net.parameters():
                p.grad = None
            return net(x)

        run.module = net  # type: ignore[attr-defined]
        return run

    for count in (1, 10, 50, 200):
        yield "kernels", {"count": count}, lambda count=count: slices(count)
    for count in (10, 100):
        yield "library", {"count": count}, lambda count=count: matmuls(count)
    for layers in (1, 10, 40):
        for train in (False, True):
            yield (
                "layers",
                {"layers": layers, "train": train},
                (lambda layers=layers, train=train: blocks(layers, train)),
            )


def host_row(case: str, params: dict[str, Any], maker: Any, mode: str) -> dict[str, Any]:
    """Wall time of a call, and host time until it returns, medians over batches."""
    import torch

    torch._dynamo.reset()
    function = maker()
    net = getattr(function, "module", None)
    train = bool(params.get("train"))
    target = function
    asked = None if mode == "default" else mode
    if net is not None:
        net.compile(mode=asked, dynamic=False)
    else:
        target = torch.compile(function, mode=asked, dynamic=False)

    def step() -> Any:
        if mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        out = target()
        if train:
            out.backward()
        return out

    for _ in range(8):
        step()
    torch.cuda.synchronize()
    wall, issue = [], []
    for _ in range(12):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(20):
            step()
        issued = time.perf_counter()
        torch.cuda.synchronize()
        wall.append((time.perf_counter() - begun) / 20 * 1e6)
        issue.append((issued - begun) / 20 * 1e6)
    parts: dict[str, float] = {}
    if train:
        forward = []
        for _ in range(100):
            begun = time.perf_counter()
            out = target()
            forward.append((time.perf_counter() - begun) * 1e6)
            out.backward()
        parts["forward_us"] = statistics.median(forward)

    def marked(mark: Callable[[], None]) -> None:
        for _ in range(3):
            step()
            mark()

    events = profiled(marked, HOT_BYTES)[-1]
    return {
        "bench": "host",
        "case": case,
        "params": params,
        "mode": mode,
        "wall_us": statistics.median(wall),
        "issue_us": statistics.median(issue),
        "min_us": min(wall),
        "max_us": max(wall),
        **parts,
        "launches": len(events),
        "device_us": sum(e["dur"] for e in events),
        "parameters": len(list(net.parameters())) if net is not None else 0,
        "triton": sum("triton_" in e["name"] for e in events),
    }


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    import torch
    import triton

    return {
        "bench": "machine",
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
        "cpus": os.cpu_count(),
    }


def check() -> int:
    """Run every case eagerly and small on the CPU: do the functions work at all?"""
    import torch

    for case in CASES:
        small = Case(case.name, min(case.mib, 1.0), case.params, case.backward)
        run, given = make(small, "cpu")
        out = run(*given)
        if case.backward:
            outs = [o for o in (out if isinstance(out, tuple) else (out,)) if o.requires_grad]
            torch.autograd.grad(
                outs,
                [t for t in given if t.requires_grad],
                [torch.ones_like(o) for o in outs],
                allow_unused=True,
            )
        print(case.name, case.mib, case.params, nbytes(out))
    return len(CASES)


def main() -> None:
    """Measure, kernels first, in the order of the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=140.0, help="stop after about so long")
    parser.add_argument("--cases", nargs="*", help="these alone, and no calls of the host")
    parser.add_argument("--check", action="store_true", help="only run the cases on the CPU")
    options = parser.parse_args()
    if options.check:
        print(check(), "cases")
        return
    import torch
    import torch._functorch.config

    torch.manual_seed(0)
    torch._functorch.config.donated_buffer = False  # the backward pass runs again and again
    started = time.perf_counter()
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
    with options.out.open("w") as file:

        def write(row: dict[str, Any]) -> None:
            file.write(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n")
            file.flush()

        write(machine())
        plan: list[tuple[str, Callable[[], Iterator[dict[str, Any]]]]] = []
        chosen = [c for c in CASES if not options.cases or c.name in options.cases]
        firsts = [c for c in chosen if c.first]
        plan += [(c.name, lambda c=c: measured(c)) for c in firsts]
        for mode in ("default", "reduce-overhead") if not options.cases else ():
            for case, params, maker in host_cases():
                plan.append((case, lambda a=(case, params, maker, mode): iter([host_row(*a)])))
        plan += [(c.name, lambda c=c: measured(c)) for c in chosen if not c.first]
        for at, (name, rows) in enumerate(plan):
            if time.perf_counter() - started > options.seconds:
                write({"bench": "stopped", "left": len(plan) - at})
                break
            try:
                for row in rows():
                    write(row)
            except Exception as error:  # one case must not cost the others
                write({"bench": "failed", "case": name, "error": repr(error)[:300]})
            torch.cuda.empty_cache()
        write({"bench": "end", "seconds": time.perf_counter() - started})


if __name__ == "__main__":
    main()
