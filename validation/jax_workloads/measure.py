"""Measure the JAX programs on this machine's GPUs: `python measure.py --out DIR [name ...]`.

Each program has two processes. The first compiles (which tries out algorithms and so allocates)
into a cache; the second loads what was compiled and runs it, so that its peak of memory is the
program's own. The second is started early and waits, so that importing costs nothing. Written as
it goes: a row in `steps.jsonl`, the optimised HLO in `hlo.zip`, the profiler's own trace in
`traces.zip`. A name that has a row already is left out.

XLA's flags are left as they are by default.
"""

from __future__ import annotations

import argparse
import glob
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from programs import PROGRAMS, TWO_DEVICES  # noqa: E402

_LARGEST_TRACE = 700_000
"""Bytes of a compressed trace that is kept whole."""


def built(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The step and its arguments."""
    file, _, function = PROGRAMS[name].partition(".py:")
    found: tuple[Any, tuple[Any, ...]] = getattr(importlib.import_module(file), function)()
    return found


class Fed:
    """A step that gets back what it returns for its donated arguments."""

    def __init__(self, step: Any, arguments: tuple[Any, ...], lowered: Any) -> None:
        import jax

        self.step, self.arguments = step, list(arguments)
        told = lowered.args_info[0]
        self.donated = [
            at for at, tree in enumerate(told) if any(x.donated for x in jax.tree.leaves(tree))
        ]

    def __call__(self) -> Any:
        import jax

        result = self.step(*self.arguments)
        if len(self.donated) == 1:
            own = jax.tree.structure(self.arguments[self.donated[0]])
            whole = jax.tree.structure(result) == own
            self.arguments[self.donated[0]] = result if whole else result[0]
        else:
            for place, at in enumerate(self.donated):
                self.arguments[at] = result[place]
        return result


def compile_only(name: str) -> None:
    """The first process: what is compiled goes to the cache."""
    step, arguments = built(name)
    started = time.perf_counter()
    step.lower(*arguments).compile()
    print(json.dumps({"compile_s": time.perf_counter() - started}))


def measure(name: str, out: Path, seconds: float) -> dict[str, Any]:
    """The second process: a row of figures."""
    import jax

    started = time.perf_counter()
    step, arguments = built(name)
    jax.block_until_ready(arguments)
    device = jax.devices()[0]
    memory = device.memory_stats() or {}
    row: dict[str, Any] = {
        "program": name,
        "devices": 2 if name in TWO_DEVICES else 1,
        "device": device.device_kind,
        "jax": jax.__version__,
        "jaxlib": jax.lib.__version__,
        "platform_version": device.client.platform_version,
        "arguments_bytes": memory.get("bytes_in_use"),
        "arguments_peak_bytes": memory.get("peak_bytes_in_use"),
        "build_s": time.perf_counter() - started,
    }
    started = time.perf_counter()
    lowered = step.lower(*arguments)
    fed = Fed(step, arguments, lowered)
    del arguments
    jax.block_until_ready(fed())
    row["first_step_s"] = time.perf_counter() - started
    for _ in range(3):
        jax.block_until_ready(fed())
    row.update(timed(fed, seconds))
    memory = device.memory_stats() or {}
    row["memory_stats"] = memory
    row["peak_memory_bytes"] = memory.get("peak_bytes_in_use")
    compiled = lowered.compile()
    row.update(told_of(compiled))
    with zipfile.ZipFile(out / "hlo.zip", "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(f"{name}.txt", compiled.as_text())
    row.update(profiled(name, fed, out))
    return row


def timed(fed: Fed, seconds: float) -> dict[str, Any]:
    """Blocks of steps between two waits, single steps, and the host's part of one."""
    import jax

    single, issued = [], []
    for _ in range(8):
        start = time.perf_counter()
        result = fed()
        issued.append(time.perf_counter() - start)
        jax.block_until_ready(result)
        single.append(time.perf_counter() - start)
    rough = statistics.median(single)
    per_block = max(1, round(seconds / 20 / rough))
    blocks = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(per_block):
            result = fed()
        jax.block_until_ready(result)
        blocks.append((time.perf_counter() - start) / per_block)
    ordered = sorted(blocks)
    return {
        "step_time_s": statistics.median(blocks),
        "p10_s": ordered[2],
        "p25_s": ordered[5],
        "p75_s": ordered[14],
        "p90_s": ordered[17],
        "steps_per_block": per_block,
        "blocks_s": blocks,
        "single_step_s": rough,
        "host_issue_s": statistics.median(issued),
    }


def told_of(compiled: Any) -> dict[str, Any]:
    """What the executable says of its memory and work."""
    memory = compiled.memory_analysis()
    names = ("argument", "output", "alias", "temp", "generated_code")
    found: dict[str, Any] = {
        f"{name}_bytes": getattr(memory, f"{name}_size_in_bytes", None) for name in names
    }
    try:
        cost = compiled.cost_analysis()
        cost = cost[0] if isinstance(cost, list) else cost
        found["xla_flops"], found["xla_bytes"] = cost.get("flops"), cost.get("bytes accessed")
    except Exception as error:  # not every backend tells
        found["xla_flops_failed"] = str(error)[:200]
    return found


def profiled(name: str, fed: Fed, out: Path, steps: int = 3) -> dict[str, Any]:
    """Kernels of some steps: name, HLO instruction, how often, how long; and the trace itself."""
    import jax

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    try:
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder, profiler_options=options):
                for number in range(steps):
                    with jax.profiler.StepTraceAnnotation("step", step_num=number):
                        jax.block_until_ready(fed())
            found = _kernels(folder, steps)
            _keep(folder, name, out)
        return found
    except Exception as error:
        return {"profile_failed": f"{type(error).__name__}: {error}"[:400]}


def _kernels(folder: str, steps: int) -> dict[str, Any]:
    import jax

    [path] = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
    sums: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0, 0.0])
    lines, spans = {}, []
    for plane in jax.profiler.ProfileData.from_file(path).planes:
        if not plane.name.startswith("/device:GPU"):
            continue
        for line in plane.lines:
            events = list(line.events)
            lines[f"{plane.name} {line.name}"] = len(events)
            if not line.name.startswith("Stream") or not plane.name.endswith(":0"):
                continue
            for event in events:
                told = dict(event.stats)
                key = (event.name, str(told.get("hlo_op", "")), line.name)
                sums[key][0] += 1
                sums[key][1] += event.duration_ns * 1e-9
                spans.append((event.start_ns, event.start_ns + event.duration_ns))
    busy, last = 0.0, 0.0
    for start, end in sorted(spans):
        busy += max(0.0, end - max(start, last))
        last = max(last, end)
    return {
        "profiled_steps": steps,
        "lines": lines,
        "device_busy_s": busy * 1e-9 / steps,
        "kernels": [
            [kernel, op, line, count, total]
            for (kernel, op, line), (count, total) in sorted(sums.items(), key=lambda i: -i[1][1])
        ],
    }


def _keep(folder: str, name: str, out: Path) -> None:
    with zipfile.ZipFile(out / "traces.zip", "a") as archive:
        for path in glob.glob(f"{folder}/**/*.*", recursive=True):
            end = "xplane.pb" if path.endswith(".xplane.pb") else "trace.json.gz"
            if path.endswith(end) and end == "trace.json.gz":
                if os.path.getsize(path) < _LARGEST_TRACE:
                    archive.write(path, f"{name}.{end}")
            elif path.endswith(end) and name in ("products-batched", "rows-bandwidth"):
                archive.write(path, f"{name}.{end}", zipfile.ZIP_DEFLATED)


def _child(name: str, phase: str, out: Path, cache: Path, seconds: float) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    command = [sys.executable, __file__, "--phase", phase, "--out", str(out)]
    command += ["--seconds", str(seconds), name]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=(out / "log.txt").open("a"),
    )  # fmt: skip


def _in_child(args: argparse.Namespace, out: Path) -> None:
    import jax

    # JAX is there, its device is not yet taken: until the parent says so.
    if not sys.stdin.readline():
        return
    [name] = args.names
    if args.phase == "compile":
        compile_only(name)
    else:
        print(json.dumps(measure(name, out, args.seconds)))
    _ = jax


def _finish(child: subprocess.Popen[str]) -> dict[str, Any]:
    printed, _ = child.communicate("go\n")
    if child.returncode != 0 or not printed.strip():
        return {"failed": f"exit {child.returncode}, see log.txt"}
    found: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    return found


def main() -> None:
    """Measure what is asked and not there yet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1.2)
    parser.add_argument("--budget", type=float, default=1e9, help="begin nothing after so long, s")
    parser.add_argument("--phase", default="")
    parser.add_argument("--two", action="store_true", help="the programs of two devices")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if args.phase:
        _in_child(args, out)
        return
    names = args.names or [name for name in PROGRAMS if (name in TWO_DEVICES) == args.two]
    rows = out / "steps.jsonl"
    if rows.exists():
        there = {json.loads(line)["program"] for line in rows.read_text().splitlines()}
        names = [name for name in names if name not in there]
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        plan = [(name, phase) for name in names for phase in ("compile", "measure")]
        children: dict[int, subprocess.Popen[str]] = {}

        def ready(at: int) -> None:
            if at < len(plan) and at not in children:
                name, phase = plan[at]
                children[at] = _child(name, phase, out, Path(folder), args.seconds)

        compiled: dict[str, Any] = {}
        for at, (name, phase) in enumerate(plan):
            if phase == "compile" and time.perf_counter() - begun > args.budget:
                break
            ready(at)
            ready(at + 1)
            ready(at + 2)
            found = _finish(children.pop(at))
            if phase == "compile":
                compiled = found
                continue
            row = {"program": name, **compiled, **found, "at_s": time.perf_counter() - begun}
            with rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
            step_s, peak = row.get("step_time_s"), row.get("peak_memory_bytes")
            print(
                f"{row['at_s']:6.1f} s  {name}: "
                + (row.get("failed") or f"{step_s * 1e3:.3f} ms, peak {peak}, ")
                + f"compiled in {row.get('compile_s', float('nan')):.1f} s",
                flush=True,
            )
        for child in children.values():
            child.kill()


if __name__ == "__main__":
    main()
