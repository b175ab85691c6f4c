"""PyTorch function by function, and plain encoders: launches and device time, predicted and real.

    python validation/functions.py measure OUT [--seconds 230]      # on a GPU; without gpuscope
    python validation/functions.py judge [--only WORD] [--most 40]  # anywhere, of the recording

A line of `functions.txt` is a program: what is made once, ";;", what a step computes; with "g " in
front the gradients of all that `w(...)` made are taken, too. One process takes program after
program, a row is written at once, and what has a row is not run again. A row: peak memory, seconds
of a step, and the device's work in order with the operators around it, equal launches in a row
together.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import math
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RECORDING = HERE / "recordings" / "h200" / "functions.jsonl.gz"
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
NEAR = 1.25

Step = Callable[[], object]
Row = dict[str, Any]

PLAIN = {
    "kind": "encoder",
    "dtype": "float32",
    "sizes": (8, 256, 512, 8, 2048, 2),  # batch, length, width, heads, inner width, layers
    "activation": "relu",
    "norm_first": False,
    "mask": "",
    "mode": "inference_mode",
    "tf32": False,
    "autocast": False,
    "nested": True,
}
SMALL = (4, 32, 64, 4, 128, 2)
HALF = {"dtype": "bfloat16"}
ENCODERS: dict[str, Row] = {
    "fp32-relu": {},
    "tf32-gelu": {"activation": "gelu", "tf32": True},
    "bf16-gelu": {**HALF, "activation": "gelu"},
    "fp16-relu-first": {"dtype": "float16", "norm_first": True},
    "bf16-relu-big": {**HALF, "sizes": (16, 1024, 1024, 16, 4096, 2)},
    "bf16-gelu-no-grad-parameters": {**HALF, "activation": "gelu", "mode": "no_grad"},
    "fp32-padded-nested": {"mask": "padding"},
    "fp16-padded-nested": {"mask": "padding", "dtype": "float16"},
    "bf16-padded-nested": {**HALF, "mask": "padding", "activation": "gelu"},
    "bf16-padded-not-nested": {**HALF, "mask": "padding", "nested": False},
    "fp32-padded-not-nested": {"mask": "padding", "nested": False},
    "bf16-causal": {**HALF, "mask": "causal"},
    "fp32-causal": {"mask": "causal"},
    "bf16-causal-and-padding": {**HALF, "mask": "both"},
    "fp32-autocast-bf16": {"autocast": True},
    "bf16-odd-heads": {**HALF, "sizes": (8, 256, 384, 3, 2048, 2)},
    "fp32-head-12": {"sizes": (8, 256, 192, 16, 2048, 2)},
    "bf16-sequence-first": {**HALF, "kind": "sequence-first"},
    "bf16-mha": {**HALF, "kind": "mha"},
    "bf16-mha-weights": {**HALF, "kind": "mha-weights"},
    "fp32-mha-weights": {"kind": "mha-weights"},
    "fp32-mha-weights-each": {"kind": "mha-weights-each"},
    "bf16-mha-weights-padding": {**HALF, "kind": "mha-weights", "mask": "padding"},
    "bf16-mha-cross": {**HALF, "kind": "mha-cross"},
    "bf16-mha-cross-weights": {**HALF, "kind": "mha-cross-weights"},
    "bf16-mha-training-weights": {**HALF, "kind": "mha-training"},
    "bf16-decoder": {**HALF, "kind": "decoder"},
    "fp32-whole-transformer": {"kind": "transformer"},
    "fp32-small": {"sizes": SMALL},
    "fp32-padded-nested-small": {"sizes": SMALL, "mask": "padding"},
}


# -- programs -------------------------------------------------------------------------------------


def programs() -> Iterator[tuple[str, Callable[[str], Step]]]:
    """Names, and what makes a step for a device."""
    for name, how in ENCODERS.items():
        yield f"encoder/{name}", lambda device, how=how: encoder({**PLAIN, **how}, device)
    for line in (HERE / "functions.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line, lambda device, line=line: function(line, device)


def encoder(how: Row, device: str) -> Step:
    """One of `ENCODERS`: a step of inference, or of training where its kind says so."""
    import torch
    from torch import nn

    torch.backends.cuda.matmul.allow_tf32 = how["tf32"]
    dtype, kind = getattr(torch, how["dtype"]), how["kind"]
    batch, length, width, heads, inner, layers = how["sizes"]
    shape = (length, batch, width) if kind == "sequence-first" else (batch, length, width)
    x = torch.randn(shape, device=device, dtype=dtype)
    memory = torch.randn(batch, 2 * length, width, device=device, dtype=dtype)
    more = {"activation": how["activation"], "norm_first": how["norm_first"]}
    first = {"batch_first": kind != "sequence-first"}
    if kind in ("encoder", "sequence-first"):
        layer = nn.TransformerEncoderLayer(width, heads, inner, **more, **first)
        net: Any = nn.TransformerEncoder(layer, layers, enable_nested_tensor=how["nested"])
    elif kind == "decoder":
        layer = nn.TransformerDecoderLayer(width, heads, inner, **more, **first)
        net = nn.TransformerDecoder(layer, layers)
    elif kind == "transformer":
        net = nn.Transformer(width, heads, layers, layers, inner, batch_first=True)
    else:
        net = nn.MultiheadAttention(width, heads, batch_first=True)
    net = net.to(device, dtype).train(kind == "mha-training")
    kept = [length - (length // 2) * i // max(batch - 1, 1) for i in range(batch)]
    ends = torch.tensor(kept, device=device)
    padding = torch.arange(length, device=device)[None] >= ends[:, None]
    causal = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
    call = _call(net, kind, how["mask"], (x, memory), (padding, causal))
    if kind == "mha-training":
        return lambda: call()[0].sum().backward()

    def step() -> Any:
        low = torch.autocast("cuda", torch.bfloat16) if how["autocast"] else None
        with getattr(torch, how["mode"])(), low or contextlib.nullcontext():
            return call()

    return step


def _call(net: Any, kind: str, mask: str, given: Any, masks: Any) -> Callable[[], Any]:
    (x, memory), (padding, causal) = given, masks
    named: Row = {}
    if kind.startswith("mha"):
        if mask:
            named["key_padding_mask"] = padding
        named["need_weights"] = "weights" in kind or kind == "mha-training"
        if kind == "mha-weights-each":
            named["average_attn_weights"] = False
        other = memory if "cross" in kind else x
        return lambda: net(x, other, other, **named)
    if kind == "decoder":
        return lambda: net(x, memory, tgt_mask=causal)
    if kind == "transformer":
        return lambda: net(memory, x)
    if mask in ("padding", "both"):
        named["src_key_padding_mask"] = padding
    if mask in ("causal", "both"):
        named["mask"] = causal
    return lambda: net(x, **named)


def function(line: str, device: str) -> Step:
    """A line of `functions.txt` as a step."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    wants = line.startswith("g ")
    setup, expression = (line[2:] if wants else line).split(" ;; ")
    names, leaves = _names(device)
    exec(setup.strip(), names)
    code = compile(expression.strip(), "expression", "eval")
    if not wants:
        return lambda: eval(code, names)
    if "net" in names:
        leaves.extend(names["net"].parameters())
    kept: list[Any] = []

    def step() -> None:
        out = eval(code, names)
        if not kept:
            kept.append(torch.ones_like(out))
        torch.autograd.grad(out, leaves, kept[0], allow_unused=True)

    return step


def _names(device: str) -> tuple[Row, list[Any]]:
    """What a line may use, and the tensors that want a gradient."""
    import torch
    import torch.nn.attention.flex_attention
    import torch.nn.utils.prune
    import torch.optim.swa_utils
    from torch import nn

    leaves: list[Any] = []

    def wanting(*shape: int) -> Any:
        leaves.append(torch.randn(shape, device=device, requires_grad=True))
        return leaves[-1]

    def optimizer(name: str, only: int | None = None, **more: Any) -> Any:
        parts = nn.Linear(256, 512), nn.Linear(512, 128, bias=False), nn.LayerNorm(128)
        net = nn.Sequential(*parts).to(device)
        got = [q for q in net.parameters() if only is None or q.dim() == only]
        if only == 0:
            got = [nn.Parameter(torch.randn(100, 16, device=device))]
        for q in got:
            q.grad = torch.randn(q.shape, device=device)
        return getattr(torch.optim, name)(got, **{"lr": 1e-3, **more})

    names: Row = {"torch": torch, "nn": nn, "F": nn.functional, "d": device}
    names |= {"opt": optimizer, "w": wanting}
    names["t"] = lambda *s: torch.randn(s, device=device)
    names["u"] = lambda *s: torch.rand(s, device=device)
    names["p"] = lambda *s: torch.rand(s, device=device) + 0.1
    names["b"] = lambda *s: torch.rand(s, device=device) > 0.5
    names["i"] = lambda n, *s: torch.randint(0, n, s, device=device)
    return names, leaves


# -- on the device --------------------------------------------------------------------------------


def measure(out: Path, seconds: float) -> int:
    """Rows of what has none; 3 where a program broke the process, which is to be started again."""
    warnings.filterwarnings("ignore")
    out.mkdir(parents=True, exist_ok=True)
    file, until = out / "functions.jsonl", time.time() + seconds
    done = (
        {json.loads(row)["name"] for row in file.read_text().splitlines()} if file.exists() else ()
    )
    for name, build in programs():
        if name in done:
            continue
        if time.time() > until:
            break
        row: Row = {"name": name}
        try:
            row |= measured(build)
        except BaseException as error:
            row["failed"] = f"{type(error).__name__}: {error}"[:400]
        with file.open("a") as lines:
            lines.write(json.dumps(row, separators=(",", ":")) + "\n")
        if "CUDA error" in row.get("failed", ""):
            return 3
    return 0


def measured(build: Callable[[str], Step]) -> Row:
    """A program's peak, pace and kernels."""
    import gc

    import torch

    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    held = torch.cuda.memory_allocated()
    torch.manual_seed(0)
    step = build("cuda")
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    row: Row = {"peak_bytes": torch.cuda.max_memory_allocated() - held}
    began = time.perf_counter()
    for _ in range(5):
        step()
    row["issued_s"] = round((time.perf_counter() - began) / 5, 8)
    torch.cuda.synchronize()
    row["step_s"] = round((time.perf_counter() - began) / 5, 8)
    return row | {"kernels": _kernels(step)}


def _kernels(step: Step) -> list[list[Any]]:
    """The device's work of a step: operators, shapes, name, microseconds of launches alike."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    sys.path.insert(0, str(HERE.parent))
    from validation.corpus.on_gpu import _around

    kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=kinds, record_shapes=True) as seen:
        step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    around = _around(event for event in events if event.get("cat") == "cpu_op")
    found: list[list[Any]] = []
    for event in sorted((e for e in events if e.get("cat") in WORK), key=lambda e: e["ts"]):
        op, shapes = around.get(event["args"].get("External id", 0), ("", ""))
        launch = [op, shapes[:80], event["name"][:110]]
        if not found or found[-1][:3] != launch:
            found.append([*launch, []])
        found[-1][3].append(round(event["dur"], 2))
    return found


# -- judged ---------------------------------------------------------------------------------------


def judge(only: str, most: int) -> None:
    """Every recorded program with its prediction, the furthest off first, and sums."""
    warnings.filterwarnings("ignore")
    lines = gzip.decompress(RECORDING.read_bytes()).splitlines()
    rows = {row["name"]: row for row in map(json.loads, lines) if "kernels" in row}
    found = []
    for name, build in programs():
        if name in rows and only in name:
            found.append((name, *_both(rows[name], build)))
    told = [f for f in found if f[2] is not None]
    equal = sum(real == made for _, real, made, *_ in told)
    near = sum(abs(math.log(max(b, 0.1) / max(a, 0.1))) < math.log(NEAR) for *_, a, b in told)
    for name, real, made, a, b in sorted(
        told, key=lambda f: -abs(math.log((f[4] + 1) / (f[3] + 1)))
    ):
        if most > 0:
            print(f"{real:5d} {made:5d} launches {a:9.1f} {b:9.1f} us  {name[:110]}")
        most -= 1
    print(f"{len(found)} recorded, {len(told)} predicted; launches equal: {equal}, time within")
    print(f"25 %: {near}; all together {sum(f[3] for f in told) / 1e3:.1f} ms measured, ", end="")
    print(f"{sum(f[4] for f in told) / 1e3:.1f} ms predicted")


def _both(row: Row, build: Callable[[str], Step]) -> tuple[int, int | None, float, float]:
    """Launches and microseconds, measured and predicted."""
    import gpuscope as gs
    from gpuscope.errors import GpuscopeError
    from gpuscope.timeline.types import EVENT_KINDS

    all_us = [us for kernel in row["kernels"] for us in kernel[3]]
    try:
        events = gs.predict(gs.capture(lambda: build("cuda")), on="h200").timeline.events
    except GpuscopeError:
        return len(all_us), None, sum(all_us), 0.0
    device = events.kind < EVENT_KINDS.index("operator")
    return (
        len(all_us),
        int(device.sum()),
        sum(all_us),
        float(events.duration_ns[device].sum()) / 1e3,
    )


def main() -> int:
    """Measure, or judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("measure")
    one.add_argument("out", type=Path)
    one.add_argument("--seconds", type=float, default=230.0)
    two = what.add_parser("judge")
    two.add_argument("--only", default="")
    two.add_argument("--most", type=int, default=40)
    args = parser.parse_args()
    if args.what == "measure":
        return measure(args.out, args.seconds)
    judge(args.only, args.most)
    return 0


if __name__ == "__main__":
    sys.exit(main())
