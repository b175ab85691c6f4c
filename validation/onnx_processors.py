"""ONNX graphs on processors: `python validation/onnx_processors.py VERB FOLDER [...]`.

    export FOLDER           the graphs of `onnx_graphs.py` and larger ones, weights left out
    predict FOLDER --on X   what `predict` says of each on a processor, into RESULT
    measure FOLDER OUT      ONNX Runtime's CPU provider really runs each here; facts of the machine
    measure FOLDER OUT --engine openvino

A graph's weights lie in a file of external data, which `predict` does not read; `measure` fills one
with random numbers, so that what travels is small. Rows are written as they come: a name that has
one already is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULT = HERE / "results" / "onnx_processors.json"
MACHINES = HERE / "results" / "onnx_processors_machines.json"
"""What cores and caches of two machines reached when they were timed with NumPy and PyTorch."""

WEIGHTS = "weights.bin"
THREADS = (1, 0)
"""One, and as many as ONNX Runtime takes by itself: one a core."""

_PROFILED = 30
"""Runs that are profiled; the first five are left out."""

Row = dict[str, Any]


def models() -> dict[str, Callable[[], tuple[Any, str, Any]]]:
    """The ten small ones, six of a size that a processor serves, and four that came later."""
    import torch
    import transformers as hf

    sys.path.insert(0, str(HERE))
    from onnx_graphs import MODELS

    eager = {"attn_implementation": "eager"}
    image, tokens = torch.zeros(1, 3, 224, 224), torch.zeros(1, 128, dtype=torch.long)
    larger: dict[str, Callable[[], tuple[Any, str, Any]]] = {
        "resnet18 224": lambda: (
            hf.ResNetModel(
                hf.ResNetConfig(
                    hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic"
                )
            ),
            "pixel_values",
            image,
        ),
        "mobilenet v2 224": lambda: (
            hf.MobileNetV2Model(hf.MobileNetV2Config()), "pixel_values", image,
        ),
        "vit small 224": lambda: (
            hf.ViTModel(
                hf.ViTConfig(
                    hidden_size=384, num_hidden_layers=6, num_attention_heads=6,
                    intermediate_size=1536, **eager,
                ),
                add_pooling_layer=False,
            ),
            "pixel_values",
            image,
        ),
        "bert 4x512": lambda: (
            hf.BertModel(
                hf.BertConfig(
                    hidden_size=512, num_hidden_layers=4, num_attention_heads=8,
                    intermediate_size=2048, vocab_size=30522, **eager,
                ),
                add_pooling_layer=False,
            ),
            "input_ids",
            tokens,
        ),
        "gpt2 4x768": lambda: (
            hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=4, vocab_size=8192, **eager)),
            "input_ids",
            tokens,
        ),
        "whisper encoder 4x384": lambda: (
            hf.WhisperModel(
                hf.WhisperConfig(
                    d_model=384, encoder_layers=4, decoder_layers=1, encoder_attention_heads=6,
                    decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536, **eager,
                )
            ).encoder,
            "input_features",
            torch.zeros(1, 80, 3000),
        ),
    }  # fmt: skip
    later: dict[str, Callable[[], tuple[Any, str, Any]]] = {
        "regnet 160": lambda: (
            hf.RegNetModel(
                hf.RegNetConfig(hidden_sizes=[64, 128, 256], depths=[1, 2, 2], groups_width=32)
            ),
            "pixel_values",
            torch.zeros(1, 3, 160, 160),
        ),
        "distilbert 3x384": lambda: (
            hf.DistilBertModel(
                hf.DistilBertConfig(
                    dim=384, n_layers=3, n_heads=6, hidden_dim=1536, vocab_size=8000, **eager
                )
            ),
            "input_ids",
            torch.zeros(2, 96, dtype=torch.long),
        ),
        "deit 4x256": lambda: (
            hf.DeiTModel(
                hf.DeiTConfig(
                    hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                    intermediate_size=1024, image_size=160, **eager,
                ),
                add_pooling_layer=False,
            ),
            "pixel_values",
            torch.zeros(1, 3, 160, 160),
        ),
        "swin 64": lambda: (
            hf.SwinModel(
                hf.SwinConfig(image_size=128, embed_dim=64, depths=[2, 2], num_heads=[2, 4],
                              window_size=4),
                add_pooling_layer=False,
            ),
            "pixel_values",
            torch.zeros(1, 3, 128, 128),
        ),
    }  # fmt: skip
    return {**MODELS, **larger, **later}


def _file(name: str) -> str:
    return name.split(" (")[0].replace(" ", "-") + ".onnx"


def export(folder: Path) -> None:
    """Every model as a graph whose large weights are named, not there."""
    import onnx
    import torch
    from onnx_graphs import Results

    folder.mkdir(parents=True, exist_ok=True)
    for name, make in models().items():
        path = folder / _file(name)
        if path.exists():
            continue
        model, argument, x = make()
        with tempfile.TemporaryDirectory() as there, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = Path(there) / "model.onnx"
            torch.onnx.export(
                Results(model.eval(), argument), (x,), str(whole), dynamo=True, verbose=False,
                optimize=True,
            )  # fmt: skip
            found = onnx.load(str(whole))
            _strip_notes(found)
            onnx.save_model(
                found, str(Path(there) / "out.onnx"), save_as_external_data=True,
                location=WEIGHTS, size_threshold=1024,
            )  # fmt: skip
            path.write_bytes((Path(there) / "out.onnx").read_bytes())
        print(f"{name}: {path.stat().st_size:,} bytes", flush=True)


def _strip_notes(model: Any) -> None:
    """Leave out what exporters note down about the code."""
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        del value.metadata_props[:]
    for each in model.graph.initializer:
        del each.metadata_props[:]


def filled(path: Path, folder: Path) -> Path:
    """The graph in `folder` beside a file of its weights: random numbers, zeros for whole ones."""
    import numpy as np
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    raw, rng = bytearray(), np.random.default_rng(0)
    for each in model.graph.initializer:
        told = {entry.key: entry.value for entry in each.external_data}
        if not told:
            continue
        offset, length = int(told.get("offset", 0)), int(told["length"])
        raw.extend(bytes(max(0, offset + length - len(raw))))
        if each.data_type == onnx.TensorProto.FLOAT:
            raw[offset : offset + length] = _weight(rng, tuple(each.dims)).tobytes()
    (folder / WEIGHTS).write_bytes(raw)
    (folder / path.name).write_bytes(path.read_bytes())
    return folder / path.name


def _weight(rng: Any, shape: tuple[int, ...]) -> Any:
    """Numbers that keep what flows through about as large as it is: no denormal ones arise."""
    import numpy as np

    if len(shape) < 2:
        return rng.uniform(0.5, 1.0, shape).astype(np.float32)
    summed = shape[0] if len(shape) == 2 else np.prod(shape[1:])
    return (rng.standard_normal(shape) * (2.0 / summed) ** 0.5).astype(np.float32)


def predict(folder: Path, names: Sequence[str], engine: str) -> None:
    """A row in RESULT for every graph on every processor."""
    import gpuscope as gs
    from gpuscope.on_processor import predict_on_processor

    rows = json.loads(RESULT.read_text()) if RESULT.exists() else []
    for path in sorted(folder.glob("*.onnx")):
        for on in names:
            run = predict_on_processor(str(path), known(on), gs.WorkloadOptions(engine=engine))
            low_s, high_s = run.step_time_interval_s
            row = {
                "graph": path.stem, "on": on, "engine": engine, "step_time_s": run.step_time_s,
                "low_s": low_s, "high_s": high_s, "nodes": nodes_of(run),
            }  # fmt: skip
            rows = [each for each in rows if _key(each) != _key(row)] + [row]
            print(f"{path.stem} on {on}: {1e3 * run.step_time_s:.3f} ms", flush=True)
    text = ",\n".join(json.dumps(row) for row in sorted(rows, key=_key))
    RESULT.write_text(f"[\n{text}\n]\n")


def known(name: str) -> Any:
    """A processor of the catalogue, this machine's, or one of MACHINES as it was timed."""
    from gpuscope.hardware.processors import Processor, processor

    whole, _, cores = name.partition(":")
    machines = json.loads(MACHINES.read_text())
    if whole not in machines:
        return processor(name)
    told = machines[whole]
    rates = {key: {"fp32": told.pop(key)} for key in ("core_flops_per_s", "flops_per_s")}
    made = Processor(id=whole, vendor="", architecture="", origin="measured", **told, **rates)
    return made.with_cores(int(cores)) if cores else made


def nodes_of(run: Any) -> dict[str, float]:
    """Seconds of a predicted run by operator."""
    found: dict[str, float] = defaultdict(float)
    events = run.timeline.events
    for name, length in zip(events.name, events.duration_ns, strict=True):
        found[run.timeline.names[name]] += float(length) * 1e-9
    return {name: round(value, 9) for name, value in found.items()}


def _key(row: Row) -> tuple[str, str, str]:
    return row["on"], row["engine"], row["graph"]


def machine() -> Row:
    """What the processor is and does: the first block of /proc/cpuinfo, and some ceilings."""
    import torch

    block = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    found: Row = {
        "cpuinfo": {
            key.strip(): value.strip()
            for key, _, value in (line.partition(":") for line in block.splitlines())
        },
        "processors": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0)),
        "caches": _caches(),
    }
    for threads in sorted({1, len(os.sched_getaffinity(0))}):
        torch.set_num_threads(threads)
        found[f"threads {threads}"] = {
            **{
                f"{each} flop/s": _product_rate(getattr(torch, each))
                for each in ("float32", "bfloat16")
            },
            "copy bytes/s": _copy_rate(1 << 26, 5),
            "copy in cache bytes/s": _copy_rate(1 << 16, 200),
        }
    return found


def _product_rate(dtype: Any) -> float:
    import torch

    a, b = torch.randn(2048, 2048).to(dtype), torch.randn(2048, 2048).to(dtype)
    return 2 * 2048**3 / best(lambda: a @ b, 5)


def _copy_rate(elements: int, times: int) -> float:
    import torch

    source, into = torch.ones(elements), torch.empty(elements)
    return 2 * source.nbytes / best(lambda: into.copy_(source), times)


def _caches() -> list[str]:
    return [
        " ".join((each / name).read_text().strip() for name in ("level", "type", "size"))
        + " shared by "
        + (each / "shared_cpu_list").read_text().strip()
        for each in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    ]


def best(call: Callable[[], object], times: int) -> float:
    """The shortest of some calls' times."""
    call()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def _inputs(session: Any) -> dict[str, Any]:
    import numpy as np

    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
    given = {}
    for each in session.get_inputs():
        dtype = kinds[each.type]
        made = np.random.default_rng(0).standard_normal(each.shape)
        given[each.name] = (
            made.astype(dtype) if dtype is np.float32 else np.zeros(each.shape, dtype)
        )
    return given


def by_onnxruntime(path: Path, threads: int, seconds: float, provider: str) -> Row:
    """One graph: the median of runs, and the mean time of every node of a few more."""
    import onnxruntime as ort

    def session(profile: str = "") -> Any:
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.log_severity_level = 3
        if profile:
            settings.enable_profiling = True
            settings.profile_file_prefix = profile
        return ort.InferenceSession(str(path), settings, providers=[provider])

    made = session()
    given = _inputs(made)
    times = _timed(lambda: made.run(None, given), seconds)
    with tempfile.TemporaryDirectory() as folder:
        made = session(f"{folder}/p")
        for _ in range(_PROFILED):
            made.run(None, given)
        events = json.loads(Path(made.end_profiling()).read_text())
    return {
        "graph": path.stem, "engine": "onnxruntime", "version": ort.__version__,
        "provider": provider, "threads": threads, **times, "nodes": _nodes(events),
    }  # fmt: skip


def _timed(call: Callable[[], object], seconds: float) -> Row:
    """Runs' times, and the calling thread's own: on a busy machine that of one thread's runs."""
    found: list[float] = []
    own: list[float] = []
    for _ in range(5):
        call()
    end = time.perf_counter() + seconds
    while len(found) < 7 or time.perf_counter() < end:
        start, begun = time.perf_counter(), time.thread_time()
        call()
        found.append(time.perf_counter() - start)
        own.append(time.thread_time() - begun)
    found.sort()
    return {
        "step_time_s": statistics.median(found),
        "p10_s": found[len(found) // 10],
        "p90_s": found[len(found) * 9 // 10],
        "thread_s": statistics.median(own),
        "runs": len(found),
    }


def _nodes(events: list[Row]) -> list[list[Any]]:
    """Name, operator, output's shape and median seconds of each node, in order."""
    found: dict[str, list[float]] = defaultdict(list)
    told: dict[str, list[Any]] = {}
    for each in events:
        if each.get("cat") == "Node" and each["name"].endswith("_kernel_time"):
            name = each["name"].removesuffix("_kernel_time")
            found[name].append(each["dur"] * 1e-6)
            args = each["args"]
            shapes = [next(iter(kind.values())) for kind in args.get("output_type_shape", [])]
            told[name] = [args.get("op_name", ""), shapes]
    return [
        [name, *told[name], round(statistics.median(times[5:] or times), 9)]
        for name, times in found.items()
    ]


def by_openvino(path: Path, threads: int, seconds: float) -> Row:
    """One graph, latency mode; the mean time of every node from its own counters."""
    import numpy as np
    import openvino as ov

    settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "PERF_COUNT": True}
    if threads:
        settings["INFERENCE_NUM_THREADS"] = threads
    core = ov.Core()
    request = core.compile_model(str(path), "CPU", settings).create_infer_request()
    given = {}
    for each in request.model_inputs:
        whole = "int" in str(each.element_type)
        made = np.zeros(each.shape, np.int64) if whole else np.ones(each.shape, np.float32)
        given[each.any_name] = made
    times = _timed(lambda: request.infer(given), seconds)
    nodes = [
        [each.node_name, each.node_type, each.exec_type, each.real_time.total_seconds()]
        for each in request.profiling_info
        if each.real_time.total_seconds()
    ]
    return {
        "graph": path.stem, "engine": "openvino", "version": ov.__version__, "threads": threads,
        **times, "nodes": nodes,
    }  # fmt: skip


def measure(
    folder: Path,
    out: Path,
    seconds: float,
    budget_s: float,
    engine: str,
    counts: Sequence[int] = THREADS,
) -> None:
    """Rows of all graphs that have none, as long as the budget lasts."""
    begun = time.perf_counter()
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    there = {(row["graph"], row["threads"]) for row in rows if "graph" in row}
    with out.open("a") as file:
        if not any("cpuinfo" in row for row in rows):
            file.write(json.dumps(machine()) + "\n")
        for path in sorted(folder.glob("*.onnx")):
            with tempfile.TemporaryDirectory() as inside:
                whole = filled(path, Path(inside))
                for threads in counts:
                    if (path.stem, threads) in there or time.perf_counter() - begun > budget_s:
                        continue
                    row = _measured(whole, threads, seconds, engine)
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                    took = row.get("failed") or f"{1e3 * row['step_time_s']:.3f} ms"
                    print(f"{path.stem}, {threads or 'all'} threads: {took}", flush=True)


def _measured(path: Path, threads: int, seconds: float, engine: str) -> Row:
    try:
        if engine == "openvino":
            return by_openvino(path, threads, seconds)
        return by_onnxruntime(path, threads, seconds, engine)
    except Exception as error:  # one graph that an engine cannot run leaves the others
        said = f"{type(error).__name__}: {error}"[:300]
        return {"graph": path.stem, "engine": engine, "threads": threads, "failed": said}


def main() -> None:
    """One of the verbs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("export", "predict", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--on", nargs="*", default=["this-cpu"])
    parser.add_argument("--engine", default="onnxruntime")
    parser.add_argument("--provider", default="CPUExecutionProvider")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, nargs="*", default=THREADS)
    parser.add_argument("--budget", type=float, default=1e9, help="begin nothing after so long, s")
    args = parser.parse_args()
    if args.verb == "export":
        export(args.folder)
    elif args.verb == "predict":
        predict(args.folder, args.on, args.engine)
    elif args.out is None:
        parser.error("measure needs a file to write to")
    else:
        ran = "openvino" if args.engine == "openvino" else args.provider
        measure(args.folder, args.out, args.seconds, args.budget, ran, args.threads)


if __name__ == "__main__":
    main()
