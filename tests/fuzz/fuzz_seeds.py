"""Small real inputs of each reader, from which damaged ones are made."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import fuzz_mutations as damage
import kineto_traces
import ncu_tables
import nsys_databases
import rocpd_databases
import snapshots

ROOT = Path(__file__).resolve().parents[2]
SEEDS = Path(__file__).with_name("seeds")
DATA = ROOT / "tests" / "data"


@cache
def traces() -> list[Any]:
    """Kineto traces: one of every sort of event, a bare list, one that gpuscope wrote."""
    training = kineto_traces.document()
    return [training, training, training["traceEvents"], _own()]


def pairs() -> list[Any]:
    """Traces whose events come as a begin and an end."""
    begin = {"ph": "B", "name": "k", "cat": "kernel", "pid": 0, "tid": 7, "ts": 1.5}
    end = {"ph": "E", "pid": 0, "tid": 7, "ts": 4}
    events = [{**begin, "args": {"stream": 7}}, {**begin, "ts": 2}, end, {**end, "args": {"x": 1}}]
    return [{"traceEvents": events, "schemaVersion": 1}, events]


def rocprof() -> list[Any]:
    """rocprofv3's JSON."""
    from test_kineto_rocprof import recording

    return [recording()]


def damaged_layers(random: Random) -> bytes:
    """What an engine's layers are, changed as JSON or as bytes."""
    raw = (DATA / "engine_reports" / "trtexec_layers.json").read_bytes()
    if random.random() < 0.6:
        return damage.as_json(random, [json.loads(raw)])
    return damage.bytes_of(random, raw)


def damaged_report(random: Random) -> bytes:
    """An engine's report, changed as JSON or as bytes."""
    path = random.choice(sorted((DATA / "engine_reports").glob("*.[jc]s*")))
    raw = path.read_bytes()
    if path.suffix == ".json" and random.random() < 0.6:
        whole = json.loads(raw)
        return damage.as_json(random, [whole[:20] if isinstance(whole, list) else whole])
    return damage.bytes_of(random, raw[:4000])


def damaged_xplane(random: Random) -> bytes:
    """A profile of XLA, changed as bytes."""
    return damage.bytes_of(random, (DATA / "traces" / "jax" / "cpu.xplane.pb").read_bytes())


@cache
def onnx_model() -> bytes:
    """A small graph."""
    from onnx_models import mlp

    with tempfile.TemporaryDirectory() as folder:
        return mlp(Path(folder) / "mlp.onnx").read_bytes()


def dialects() -> list[Any]:
    """Traces of XLA's and of Ascend's profiler."""

    def named(what: str, pid: int, tid: int, name: str) -> Any:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}

    work = {"ph": "X", "pid": 1, "tid": 20, "ts": 10.5, "dur": 5, "name": "fusion"}
    xla = [
        named("process_name", 1, 0, "/device:GPU:0"),
        named("thread_name", 1, 20, "Stream #20(Compute)"),
        {**work, "args": {"hlo_op": "f"}},
        {**work, "name": "MemcpyD2H", "ts": 17},
    ]
    ascend = [
        named("process_name", 1, 0, "Ascend Hardware"),
        named("thread_name", 1, 20, "Stream 3"),
        {**work, "ts": "169.123", "args": {"Task Type": "AI_CORE"}},
        {**work, "name": "hcom_allReduce_", "ts": "189.123"},
    ]
    return [{"traceEvents": xla, "displayTimeUnit": "ns"}, ascend]


def _own() -> Any:
    from gpuscope.run.reader import load_runs
    from gpuscope.timeline.perfetto import write_chrome_trace

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.json"
        write_chrome_trace(load_runs(SEEDS / "predicted.json.gz")[0].timeline, path, name="own")
        whole = json.loads(path.read_bytes())
    del whole["traceEvents"][80:]
    return whole


@cache
def databases() -> list[bytes]:
    """Exports of Nsight Systems, one whole and one of few tables."""
    tables = nsys_databases.step_tables()
    few = {name: tables[name] for name in ("StringIds", "CUPTI_ACTIVITY_KIND_KERNEL")}
    return [_database(tables), _database(tables), _database(few)]


@cache
def executions() -> list[Any]:
    """PyTorch's execution traces: of two operators."""
    tensor = [8, 9, 0, 128, 4, "cpu"]
    inputs = {
        "values": [tensor, tensor, 1],
        "shapes": [[8, 16], [16, 32], []],
        "types": ["Tensor(float)", "Tensor(c10::BFloat16)", "Int"],
        "strides": [[16, 1], [32, 1], []],
    }
    nodes = [
        {
            "id": number, "name": "aten::mm", "ctrl_deps": 1, "inputs": inputs,
            "attrs": [{"name": "rf_id", "type": "uint64", "value": number}],
        }
        for number in (5, 6)
    ]  # fmt: skip
    return [{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": nodes}]


@cache
def traced_operators() -> bytes:
    """A profiler's trace without shapes that knows the operators of `executions`."""
    events = [
        {
            "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
            "ts": 100 * number, "dur": 50, "args": {"Record function id": number},
        }
        for number in (5, 6)
    ]  # fmt: skip
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


@cache
def rocpd() -> list[bytes]:
    """Databases of rocprofv3: of one process, and of two."""
    one, two = rocpd_databases.process(17), rocpd_databases.process(18, "correlation_id")
    return [rocpd_databases.database(one), rocpd_databases.database(one, two)]


def _database(tables: dict[str, list[tuple[object, ...]]]) -> bytes:
    with sqlite3.connect(":memory:") as database:
        for name, rows in tables.items():
            database.execute(f"CREATE TABLE {name} ({nsys_databases.SCHEMA[name]})")
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        database.commit()
        raw = database.serialize()
    database.close()
    return raw


@cache
def memory() -> list[Any]:
    """Memory snapshots: with a history, one out of memory, and the old list of segments."""
    training = snapshots.training()
    full = snapshots.training()
    full["device_traces"][0].append(
        {"action": "oom", "size": 1 << 30, "device_free": 1 << 20, "frames": snapshots.ACTIVATION}
    )
    return [training, full, training["segments"]]


@cache
def documents() -> list[Any]:
    """Saved runs: predicted, a predicted job, recorded, several, a sweep."""
    from gpuscope.loading import load
    from gpuscope.run.document import run_document

    predicted, job = (
        json.loads(gzip.decompress((SEEDS / f"{name}.json.gz").read_bytes()))
        for name in ("predicted", "job")
    )
    with tempfile.TemporaryDirectory() as folder:
        trace = kineto_traces.write(Path(folder) / "t.json", kineto_traces.document())
        recorded = json.loads(json.dumps(run_document(load(trace))))
    head = {key: predicted[key] for key in ("version", "gpuscope_version")}
    runs = {"schema": "gpuscope.runs", **head, "runs": [predicted, job], "refused": []}
    bare = {**predicted, "timeline": None}
    points = [{"value": 1.0, "run": bare}, {"value": 2.0, "run": bare}]
    sweep = {"schema": "gpuscope.sweep", **head, "field": "batch", "points": points, "worth": []}
    return [predicted, predicted, job, job, recorded, recorded, runs, sweep]


@cache
def configurations() -> list[Any]:
    """Hugging Face configurations of a few kinds."""
    llama = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 100,
        "max_position_embeddings": 128,
        "rope_scaling": None,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        "_name_or_path": "tiny",
    }
    bert = {**llama, "architectures": ["BertForMaskedLM"], "model_type": "bert"}
    t5 = {"model_type": "t5", "d_model": 64, "num_layers": 2, "d_kv": 16, "num_heads": 4}
    vit = {"model_type": "vit", "image_size": 32, "patch_size": 8, "hidden_size": 64}
    nested = {"model_type": "llava", "text_config": llama, "quantization_config": {"bits": 4}}
    return [llama, llama, bert, t5, vit, nested]


@cache
def samples() -> list[list[Any]]:
    """Recorded samples, a few of each of some files."""
    found = []
    for path in sorted((DATA / "watch").glob("*.jsonl")):
        lines = path.read_text("utf-8").splitlines()
        found.append([json.loads(line) for line in lines[:6]])
    return found


@cache
def device_logs() -> list[str]:
    """Logs of nvidia-smi: two devices by index, one by its bus, one not named; dcgmi dmon's."""
    times = [f"2026/05/28 10:00:{second:02d}.000" for second in range(6)]
    asked = "name, utilization.gpu [%], memory.used [MiB], power.draw [W], clocks.sm [MHz]"
    said = "NVIDIA H200, 97 %, 8000 MiB, 650.50 W, 1980 MHz"
    held = "clocks_event_reasons.active, clocks_event_reasons.sw_power_cap"
    each = [f"{at}, {index}, {said}, 0x4, Active" for at in times for index in (0, 1)]
    return [
        "\n".join([f"timestamp, index, {asked}, {held}", *each]) + "\n",
        "\n".join(
            [
                f"{asked}, timestamp, pci.bus_id",
                *(f"{said}, {at}, 00000000:3B:00.0" for at in times),
            ]
        ),
        "\n".join(["timestamp, temperature.gpu", *(f"{at}, [N/A]" for at in times)]),
        "#Entity   GPUTL   POWER   SMACT\nID                W\n"
        + "GPU 0   61   650.5   0.367\n" * 6,
    ]


@cache
def ncu_pages() -> list[str]:
    """Tables of Nsight Compute: both pages, with what the program printed before."""
    rows = ncu_tables.LAUNCHES
    return [ncu_tables.details(rows), ncu_tables.raw(rows)]


@cache
def ladders() -> list[Any]:
    """Recorded ladders, with few trials."""
    found = []
    for path in sorted((ROOT / "benchmarks/results/ladders").glob("*/ladder.json"))[:4]:
        ladder = json.loads(path.read_bytes())
        ladder["trials"] = ladder["trials"][:6]
        found.append(ladder)
    return found


@cache
def machines() -> list[Any]:
    """Recorded machines of the doctor."""
    found = []
    for path in sorted((DATA / "machines").glob("*.json")):
        machine = json.loads(path.read_bytes())
        if isinstance(machine, dict) and machine.get("schema") == "gpuscope.machine":
            found.append(machine)
    return found[:4]


@cache
def diagnoses() -> list[Any]:
    """A diagnosis of a recorded machine."""
    from gpuscope.doctor.diagnose import diagnose
    from gpuscope.doctor.machine import Recording
    from gpuscope.views.doctor_document import diagnosis_document

    found = diagnose(Recording.load(DATA / "machines" / "h200-x2.json"))
    return [json.loads(json.dumps(diagnosis_document(found)))]


@cache
def dumps() -> list[Any]:
    """Dumps of the flight recorder, as plain data."""
    folder = DATA / "errors" / "flight_recorder"
    return [json.loads(path.read_bytes()) for path in sorted((folder / "json").glob("*.json"))[:2]]


@cache
def calibrations() -> list[str]:
    """Calibration files, cut to a few dozen lines; a small one by hand."""
    own = 'device = "nvidia-h200-sxm"\nmeasured_with = "a"\n'
    constant = '[host.launch_s]\nvalue = 2e-6\nunit = "s"\nlow = 1e-6\nhigh = 3e-6\nnote = "b"\n'
    folder = ROOT / "src/gpuscope/hardware/catalogue/calibrations"
    files = sorted(folder.glob("nvidia-h200-sxm/*.toml"))[:3]
    cut = ["\n\n".join(path.read_text("utf-8").split("\n\n")[:12]) for path in files]
    head = 'device = "nvidia-h200-sxm"\n'
    return [own + constant, own + constant, *(head + text for text in cut)]


@cache
def devices() -> list[str]:
    """A device file of the catalogue."""
    folder = ROOT / "src/gpuscope/hardware/catalogue/devices"
    return [(folder / "nvidia-h200-sxm.toml").read_text("utf-8")]


@cache
def interconnects() -> list[str]:
    """An interconnect file of the catalogue."""
    folder = ROOT / "src/gpuscope/hardware/catalogue/interconnects"
    return [(folder / "nvlink-4.toml").read_text("utf-8")]


@cache
def kernel_names() -> list[str]:
    """Symbols that the readers of kernel names give as their examples."""
    from gpuscope.explanation.kernel_names.registry import known_examples

    return list(known_examples())


@cache
def error_texts() -> list[str]:
    """Recorded error messages."""
    return [p.read_text("utf-8") for p in sorted((DATA / "errors").glob("*.txt"))]


@cache
def benches() -> list[list[Any]]:
    """The lines of a bench that was interrupted."""
    from gpuscope.measurement.bench.store import failure_document, head_document, point_document
    from gpuscope.measurement.bench.types import BenchResult, BenchRun, Failure, KernelTime, Point

    kernel = KernelTime("k", "kernel", 1, 1e-3, 9e-4, 2e-3, None, "132x1x1", "128x1x1", 168)
    params = {"dtype": "bf16", "layout": "NN", "m": 64, "n": 64, "k": 64, "set": "square"}
    product = Point("matmul", "mm", params, "hot", 1e-3, 9e-4, 2e-3, 8, 5e5, 2e4, "compute")
    product = replace(product, bound_s=5e-4, kernels=(kernel,), sm_clock_hz=1.98e9, throttled=())
    copied = Point(
        "memory", "copy", {"op": "copy", "mib": 64.0}, "hot", 1e-4, values={"power_w": 9}
    )
    failed = Failure("matmul", "bmm", params, "out of memory")
    machine = {"device": "NVIDIA H200", "driver": "580.1", "host": "node7", "l2_bytes": "52428800"}
    runs = (BenchRun("matmul", 1.0, 2), BenchRun("link", 0.0, 0, 0, "one device"))
    head = head_document(BenchResult(machine, "nvidia-h200-sxm", (), (), runs, ("warm",)))
    head = {"schema": "gpuscope.bench", "version": 1, **head}
    points = [point_document(product), point_document(copied)]
    return [[head, *points, failure_document(failed)]]


@cache
def readings() -> list[Any]:
    """A recording of a sensor."""
    info = {"vendor": "nvidia", "index": 0, "name": "NVIDIA H200", "uuid": "GPU-1", "notes": ["a"]}
    reading = {"time_s": 1.0, "power_w": 600.0, "energy_j": 1e5, "utilisation": 0.9}
    held = {"throttle_reasons": ["power cap"], "throttled_s": {"power": 1.0}}
    used = {"processes": [{"pid": 7, "name": "python", "memory_bytes": 1 << 30}]}
    head = {"schema": "gpuscope.sensor", "version": 1, "info": info}
    return [{**head, "readings": [reading, {**reading, **held, **used, "time_s": 2.0}]}]


@cache
def servings() -> list[Any]:
    """A serving run of two requests, one of which failed."""
    import numpy as np

    from gpuscope.serving.document import serving_document
    from gpuscope.serving.result import FAILED, FINISHED, Served, Serving

    served = Served(
        intended_s=np.array([0.0, 1.0]),
        sent_s=np.array([0.0, 1.1]),
        input_tokens=np.array([10, 20]),
        output_tokens=np.array([5, 0]),
        first_token_s=np.array([0.5, float("nan")]),
        finished_s=np.array([0.9, 2.0]),
        status=np.array([FINISHED, FAILED]),
        reason=np.array([-1, 0]),
    )
    found = Serving("measured", "m", "vllm", "1", "h200", served, reasons=("404",))
    return [json.loads(json.dumps(serving_document(found)))]


@cache
def tunings() -> list[Any]:
    """Constants of an engine, fitted to runs."""
    from gpuscope.serving.tuning import Factor, Tuning, tuning_document

    factors = {"device": Factor(value=1.1, spread=0.05), "stream": Factor(value=1.0)}
    found = Tuning(
        engine="vllm", model="m", devices="h200", factors=factors, runs=2, requests=90,
        error_before=0.2, error_after=0.1,
    )  # fmt: skip
    return [json.loads(json.dumps(tuning_document(found)))]


@cache
def loads() -> list[list[Any]]:
    """A recorded load of three requests, as Mooncake's traces are."""
    line = {"timestamp": 0, "input_length": 900, "output_length": 20, "hash_ids": [1, 2]}
    return [[line, {**line, "timestamp": 40}, {**line, "timestamp": 90, "hash_ids": [1, 3]}]]


@cache
def tritons() -> list[str]:
    """A config.pbtxt of Triton, by hand and by gpuscope."""
    from gpuscope.serving.triton_config import TritonConfig, config_text

    own = config_text(TritonConfig("m", 8, (2, 4), 500, 2))
    more = 'parameters: { key: "x" value: { string_value: "y" } }\n'
    return [own, own.replace("{", "<").replace("}", ">") + more]


@cache
def plans() -> list[str]:
    """An existing plan in our own words, and one of torchtitan's."""
    own = 'tp = 2\ndp = 4\nfsdp = "zero1"\nmicrobatch = 4\nglobal_batch = 32\nseq = 1024\n'
    titan = (
        "[training]\nlocal_batch_size = 2\nseq_len = 2048\nglobal_batch_size = 32\n"
        "[parallelism]\ntensor_parallel_degree = 2\npipeline_parallel_degree = 2\n"
        'pipeline_parallel_schedule = "1F1B"\ndata_parallel_shard_degree = -1\n'
        '[activation_checkpoint]\nmode = "full"\n'
    )
    more = titan.replace(
        "[parallelism]\n", '[parallelism]\nmodule_fqns_per_model_part = [["layers.0"]]\n'
    )
    more += '[model]\nconverters = ["quantize.linear.float8"]\n'
    own_more = f'{own}precision = "fp8"\nstages = "17+15"\n'
    return [own, own_more, f'[plan]\nrecompute = "full"\n{own}', titan, more]


@cache
def deepspeed_plans() -> list[Any]:
    """Plans as DeepSpeed's configuration."""
    home = {"device": "cpu", "pin_memory": True}
    zero = {"stage": 2, "offload_optimizer": home}
    given = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}
    return [{**given, "train_batch_size": 64, "zero_optimization": zero}, given]


@cache
def plan_lines() -> list[str]:
    """Plans as accelerate's YAML and Megatron-LM's arguments."""
    return [
        "distributed_type: FSDP\nmixed_precision: fp8\nfsdp_config:\n  fsdp_version: 2\n"
        "  fsdp_reshard_after_forward: true\n  fsdp_offload_params: true\n",
        "torchrun pretrain_gpt.py \\\n --tensor-model-parallel-size 2 --seq-length 2048 \\\n"
        "--pipeline-model-parallel-layout 'Et*17|t*15L' --exp-avg-dtype bf16\n",
    ]


@cache
def prices() -> list[str]:
    """Prices of two devices."""
    row = 'usd_per_hour = 2.49\ndate = 2026-11-01\nregion = "eu-north-1"\nsource = "contract"\n'
    return [f"[h200]\n{row}[a100]\n{row}"]


@cache
def lengths() -> list[str]:
    """Lengths of examples."""
    return ["300\n1200\n2000\n", "\ufeff17 64\n\n512"]


@cache
def guards() -> list[str]:
    """Settings of a guard."""
    return [
        'on = "h100"\nbaseline = "b.toml"\n[limits]\nlaunches = "10%"\nfindings = 1\n'
        '[workloads.train]\nrun = "gpt2"\nbatch = 2\ncheckpointing = true\narguments = ["1"]\n'
        'limits = { step_time = "1.5 %", findings = "off" }\n'
        '[workloads.a]\nrun = "a.py:build"\non = ["h200", "8xh200"]\n'
    ]


@cache
def guarded() -> Any:
    """The settings and figures of one workload that is guarded."""
    from gpuscope.analysis.types import Share
    from gpuscope.guarding.facts import Facts
    from gpuscope.guarding.settings import COUNTS, SHARES, Guarded, GuardSettings
    from gpuscope.program.models.settings import WorkloadOptions

    shares = (Share("aten::mm", 1e-3, 10, 1e9, 1e6), Share("c10d::all_reduce", 1e-3, 1, 0.0, 1e6))
    found = {"host_bound": 0.1, "small_kernels": None}
    facts = Facts(2e-3, 11, 1 << 30, 1, 1 << 20, found, {"parameters": 1 << 29}, shares)
    train = Guarded("train", "gpt2", ("h100",), WorkloadOptions(), {**SHARES, **COUNTS})
    return GuardSettings(Path("gpuscope.toml"), Path("b.toml"), (train,)), facts


@cache
def baselines() -> list[str]:
    """The baseline of that workload, and of one that is gone."""
    from gpuscope.guarding.baseline import Baseline, write_baseline

    facts = guarded()[1]
    found = Baseline({"gpuscope": "0", "torch": "2"}, {("train", "h100"): facts, ("b", "c"): facts})
    with tempfile.TemporaryDirectory() as folder:
        write_baseline(found, Path(folder) / "b.toml")
        return [(Path(folder) / "b.toml").read_text("utf-8")]


@cache
def captures() -> list[bytes]:
    """What is kept of a small program of two ranks: one of every sort of value."""
    import msgspec

    from gpuscope.document.quantities import Number, Seconds
    from gpuscope.document.text import Text
    from gpuscope.kept.form import packed
    from gpuscope.program.types import ModuleInfo, Op, ProcessGroup, Program, Storage, TensorSpec
    from gpuscope.program.world import RankPrograms

    spec = TensorSpec((2, 3), (3, 1), "bfloat16", storage=7)
    arguments = {"alpha": 1.0, "flag": True, "none": None, "dims": (0, (1, -1), ())}
    program = Program(
        "x",
        tuple(
            Op(n, "aten::mm", inputs=(spec, spec), outputs=(spec,), args=arguments, waits=(-1, n))
            for n in range(3)
        ),
        storages=(Storage(7, 12, "activation", -1, None),),
        modules=(ModuleInfo("", "Net", 3),),
        assumptions=("plain", Text("{n} of {s}", n=Number(3, ","), s=Seconds(0.5))),
        groups=(ProcessGroup("g", "dp", (0, 1)),),
    )
    ranks = RankPrograms((program, replace(program, rank=1)), ((0, 2), (1, 3)))
    return [msgspec.msgpack.encode(["gpt2", [], packed(each)]) for each in (program, ranks)]


@cache
def advices() -> list[Any]:
    """Advice that was kept, with two forecasts."""
    from tempfile import TemporaryDirectory

    from gpuscope.advice.forecast.store import AdviceOf, KeptAdvice, write_advice
    from gpuscope.advice.results import Forecast, Refusal, Target
    from gpuscope.advice.types import Fit, ModelSeen, OptimizerSeen, Seen
    from gpuscope.document.text import recorded

    said = recorded({"en": "why", "zh": "为什么"})
    of = AdviceOf(Target("build", "gpt2"), "", "nvidia-h200-sxm", 1, "time", (), "0")
    optimizer = OptimizerSeen("AdamW", {"betas": (0.9, 0.999)}, 10, ("float32",), "x.py:2")
    model = ModelSeen("M", "torch.nn", "x.py", 10, ("float32",), {"M": 1})
    none = Forecast((), "little", said, 1.0, 1.0, 1.0, 0.03)
    one = Forecast(("tf32",), "helps", said, 1.5, 1.4, 1.6, 0.02, 10, 20, None, said)
    seen = Seen((model,), (optimizer,), file="x.py", function="build", batch=8)
    refused = (Refusal("fp8", Fit(False, said)),)
    kept = KeptAdvice(of, ("tf32",), (one,), (none, one), (), seen, "samples", 8, refused, (said,))
    with TemporaryDirectory() as folder:
        write_advice(Path(folder) / "a.json", kept)
        return [json.loads((Path(folder) / "a.json").read_bytes())]
