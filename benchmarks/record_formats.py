"""Record small files of other forms than one profiler's trace, with known contents, on a GPU.

    python benchmarks/record_formats.py --out DIR [jax graph execution flight ...]

What each holds is fixed here, so tests know what must be read from it:

- `jax.xplane.pb`, `jax.trace.json.gz`: three steps of two bfloat16 products under JAX's profiler.
- `graph.json.gz`: a CUDA graph of three linear layers and their GELUs, captured and replayed twice
  in one trace; `capture.json.gz` and `replay.json.gz`: the same in two, as serving engines write
  them.
- `execution.json.gz`, `shapeless.json.gz`: an execution trace beside a trace without shapes.
- `flight-0.pickle`, `flight-1.pickle`: NCCL's flight recorder (two GPUs) while rank 1 has not yet
  called the fourth of four all-reduces.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = 3


def jax_profile(out: Path) -> None:
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(x, w):
        with jax.named_scope("mlp"):
            return jax.nn.gelu(x @ w) @ w

    x, w = (jnp.ones((2048, 2048), jnp.bfloat16) for _ in range(2))
    step(x, w).block_until_ready()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        jax.profiler.start_trace(folder, profiler_options=options)
        for number in range(STEPS):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                step(x, w).block_until_ready()
        jax.profiler.stop_trace()
        for ending in ("xplane.pb", "trace.json.gz"):
            for found in Path(folder).rglob(f"*.{ending}"):
                shutil.copy(found, out / f"jax.{ending}")


def _graph(torch):
    """Return a static input, and functions that capture the graph and replay it."""
    layers = [part for _ in range(3) for part in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers).cuda().bfloat16().requires_grad_(False)
    x = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()

    def capture():
        with torch.cuda.graph(graph):
            model(x)

    return capture, graph.replay


def _traced(torch, path: Path, run, **options) -> None:
    with torch.profiler.profile(**options) as profile:
        run()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(plain))
        path.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))


def graph_traces(out: Path) -> None:
    import torch

    capture, replay = _graph(torch)
    _traced(torch, out / "graph.json.gz", lambda: (capture(), replay(), replay()))
    capture, replay = _graph(torch)
    _traced(torch, out / "capture.json.gz", capture, record_shapes=True)
    _traced(torch, out / "replay.json.gz", lambda: (replay(), replay()))


def execution_trace(out: Path) -> None:
    import torch
    from torch.profiler import ExecutionTraceObserver

    model = torch.nn.Linear(512, 256).cuda()
    x = torch.randn(64, 512, device="cuda")
    model(x).sum().backward()
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "execution.json"
        observer = ExecutionTraceObserver()
        observer.register_callback(str(plain))
        _traced(
            torch,
            out / "shapeless.json.gz",
            lambda: model(x).sum().backward(),
            execution_trace_observer=observer,
        )
        (out / "execution.json.gz").write_bytes(gzip.compress(plain.read_bytes(), mtime=0))


def flight_recorder(out: Path) -> None:
    """Two processes over NCCL; starts itself under torchrun."""
    import torch

    if torch.cuda.device_count() < 2:
        print("flight: two GPUs are needed", flush=True)
        return
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        __file__, "--out", str(out), "flight-rank",
    ]  # fmt: skip
    sizes = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "100", "TORCH_FR_BUFFER_SIZE": "100"}
    subprocess.run(command, check=True, env=os.environ | sizes, timeout=90)


def flight_rank(out: Path) -> None:
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    x = torch.ones(1 << 20, device="cuda")
    for _ in range(3):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    late = rank == 1
    if not late:
        dist.all_reduce(x)
    time.sleep(3)
    dump = torch._C._distributed_c10d._dump_nccl_trace()
    (out / f"flight-{rank}.pickle").write_bytes(dump)
    time.sleep(1)
    if late:
        dist.all_reduce(x)
    torch.cuda.synchronize()
    dist.destroy_process_group()


KINDS = {
    "jax": jax_profile,
    "graph": graph_traces,
    "execution": execution_trace,
    "flight": flight_recorder,
    "flight-rank": flight_rank,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("kinds", nargs="*")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    alone = given.kinds == ["flight-rank"]
    for kind in given.kinds or [kind for kind in KINDS if kind != "flight-rank"]:
        try:
            KINDS[kind](given.out)
        except Exception as error:  # each is tried, whatever another lacks
            if alone:
                raise
            print(f"{kind}: {type(error).__name__}: {error}", flush=True)
    for path in sorted(given.out.iterdir()):
        print(path.name, path.stat().st_size, flush=True)


if __name__ == "__main__":
    main()
