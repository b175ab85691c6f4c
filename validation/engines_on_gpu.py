"""What other doors measure on a GPU's machine: `python validation/engines_on_gpu.py OUT [GRAPHS]`.

Three things, each in its own file of OUT, each skipped where it is there already:

- `measured.jsonl`, `runs.zip`: `gpuscope measure` of JAX steps through the command line, as a user
  types it: the figures, the saved run and its report.
- `rows.json`: XLA's Triton kernels that normalise rows (softmax, and a sum of squares), by width,
  rows and format: what `gpuscope.cost.fused` says with one number of instructions an element.
- `onnx.jsonl`: the graphs of GRAPHS (by `onnx_processors.py export`), through ONNX Runtime's CUDA
  provider where this build has it, and its CPU provider.
"""

from __future__ import annotations

import argparse
import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

STEPS = (
    "rows-bandwidth",
    "products-batched",
    "perceptron-train",
    "decoder-train-cudnn",
    "resnet18-train",
)
WIDTHS = (64, 128, 256, 512, 1000, 1024, 2048, 4096, 8192)
ELEMENTS = 1 << 26


def measured(out: Path, until: float) -> None:
    """`gpuscope measure` of some steps, and `predict` of one by the compiler that is here."""
    sys.path.insert(0, str(HERE / "jax_workloads"))
    from programs import target

    path = out / "measured.jsonl"
    there = path.read_text() if path.exists() else ""
    wanted = [("measure", name) for name in STEPS]
    wanted.insert(2, ("predict", STEPS[1]))
    for verb, name in wanted:
        if f'"{verb} {name}"' in there or time.perf_counter() > until:
            continue
        row = _through_the_door(verb, name, target(name), out)
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{row['wall_s']:.1f} s", {k: v for k, v in row.items() if k != "told"}, flush=True)


def _through_the_door(verb: str, name: str, workload: str, out: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{verb}-{name}{end}" for end in (".json.gz", ".html")]
        command = [sys.executable, "-m", "gpuscope", verb, workload]
        command += ["--seconds", "1.5"] if verb == "measure" else ["--on", "h200"]
        command += ["--output", str(files[0]), "--report", str(files[1])]
        start = time.perf_counter()
        row: dict[str, Any] = {"run": f"{verb} {name}"}
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
            row["exit"], row["said"] = ran.returncode, (ran.stderr + ran.stdout[-500:])[-1500:]
        except subprocess.TimeoutExpired:
            row["exit"], row["said"] = -1, "no end within 120 s"
        row["wall_s"] = time.perf_counter() - start
        if files[0].exists():
            told = json.loads(gzip.decompress(files[0].read_bytes()))
            plain = {k: v for k, v in told.items() if isinstance(v, (int, float, str))}
            row["told"] = {**plain, "interval_s": told.get("step_time_interval_s")}
        with zipfile.ZipFile(out / "runs.zip", "a", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                if file.exists():
                    archive.write(file, file.name)
    return row


def _cases() -> Iterator[tuple[str, int, str]]:
    for width in WIDTHS:
        for dtype in ("bfloat16", "float32"):
            yield "softmax", width, dtype
        if width in (128, 512, 2048):
            yield "norm", width, "bfloat16"
            yield "masked", width, "bfloat16"
            yield "backward", width, "bfloat16"
    for width in (512, 2048):
        for way in ("narrowed", "mask read", "mask read alone", "scaled mask read"):
            yield way, width, "float32"


def rows(out: Path, until: float) -> None:
    """Seconds of the kernels of some ways to normalise rows, and how XLA laid them out."""
    path = out / "rows.json"
    found = json.loads(path.read_text()) if path.exists() else []
    there = {(row["way"], row["width"], row["dtype"]) for row in found}
    for way, width, dtype in _cases():
        if (way, width, dtype) not in there and time.perf_counter() < until:
            found.append(_rows(way, width, dtype))
            path.write_text(json.dumps(found))
            print({k: v for k, v in found[-1].items() if k != "fusions"}, flush=True)


def _rows(way: str, width: int, dtype: str) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    def softmax(x: Any) -> Any:
        return jax.nn.softmax(x, axis=-1)

    def norm(x: Any) -> Any:
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(dtype)

    def masked(x: Any) -> Any:
        seen = jnp.arange(width)[None, :] <= (jnp.arange(x.shape[0]) % width)[:, None]
        wide = jnp.where(seen, x.astype(jnp.float32) * 0.125, -1e30)
        return jax.nn.softmax(wide, axis=-1).astype(dtype)

    def backward(x: Any) -> Any:
        made = softmax(x)
        return made * (x - jnp.sum(made * x, axis=-1, keepdims=True))

    seen = jnp.tril(jnp.ones((width, width), bool))

    def narrowed(x: Any) -> Any:
        return jax.nn.softmax(x, axis=-1).astype(jnp.bfloat16)

    def mask_read(x: Any, seen: Any) -> Any:
        return narrowed(jnp.where(seen, x.reshape(-1, width, width), -1e30))

    def mask_read_alone(x: Any, seen: Any) -> Any:
        return jnp.where(seen, x.reshape(-1, width, width), -1e30).astype(jnp.bfloat16)

    def scaled_mask_read(x: Any, seen: Any) -> Any:
        return mask_read(x * 0.125, seen)

    masks = {"mask read": mask_read, "mask read alone": mask_read_alone}
    masks["scaled mask read"] = scaled_mask_read
    ways = {"softmax": softmax, "norm": norm, "masked": masked, "backward": backward}
    ways["narrowed"] = narrowed
    step = jax.jit({**ways, **masks}[way])
    x = jax.random.normal(jax.random.key(0), (ELEMENTS // width, width), dtype)
    given = (x, seen) if way in masks else (x,)
    compiled = step.lower(*given).compile()
    for _ in range(3):
        jax.block_until_ready(compiled(*given))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(10):
                jax.block_until_ready(compiled(*given))
        kernels = _kernels(folder)
    lines = [each.strip() for each in compiled.as_text().splitlines() if " fusion(" in each]
    return {
        "way": way, "width": width, "dtype": dtype, "rows": x.shape[0], "kernels": kernels,
        "fusions": [f"{x[:120]} … {x.partition('backend_config=')[2][:600]}" for x in lines],
    }  # fmt: skip


def _kernels(folder: str) -> dict[str, list[float]]:
    """Median seconds and calls by a kernel's name."""
    import jax

    [path] = glob.glob(f"{folder}/**/*.xplane.pb", recursive=True)
    times: dict[str, list[float]] = defaultdict(list)
    for plane in jax.profiler.ProfileData.from_file(path).planes:
        if plane.name.startswith("/device:GPU"):
            for line in plane.lines:
                if line.name.startswith("Stream"):
                    for event in line.events:
                        times[event.name].append(event.duration_ns * 1e-9)
    return {name: [sorted(all_)[len(all_) // 2], len(all_)] for name, all_ in times.items()}


def onnx(out: Path, graphs: Path, until: float) -> None:
    """The graphs on this machine's GPU, where ONNX Runtime can, and its processor."""
    from onnx_processors import measure

    providers = subprocess.run(
        [sys.executable, "-c", "import onnxruntime as o; print(*o.get_available_providers())"],
        capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    print("providers:", *providers, flush=True)
    for provider in ("CUDAExecutionProvider", "CPUExecutionProvider"):
        if provider in providers:
            left = until - time.perf_counter()
            measure(
                graphs, out / f"onnx_{provider[:4].strip('E').lower()}.jsonl", 0.3, left, provider
            )


def main() -> None:
    """All of it, within the budget."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("graphs", type=Path, nargs="?")
    parser.add_argument("--rows", action="store_true", help="the kernels of rows alone")
    parser.add_argument("--budget", type=float, default=220.0, help="seconds for all")
    args = parser.parse_args()
    sys.path.insert(0, str(HERE))
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    args.out.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    parts = [] if args.rows else [lambda: measured(args.out, begun + 0.5 * args.budget)]
    if args.graphs:
        parts.append(lambda: onnx(args.out, args.graphs, begun + 0.75 * args.budget))
    parts.append(lambda: rows(args.out, begun + args.budget))
    for part in parts:  # what fails leaves the others
        try:
            part()
        except Exception:
            traceback.print_exc()


if __name__ == "__main__":
    main()
