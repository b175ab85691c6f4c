"""One fuzz target for each reader: where its inputs come from, and how it is asked to read one.

A target passes where reading gives a result, or one of gpuscope's own errors. What is read is also
shown as its verb would show it: a value that a view cannot draw is as bad as one that a reader
cannot read.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import fuzz_mutations as damage
import fuzz_seeds as seeds

Make = Callable[[Random], bytes]


@dataclass(frozen=True, slots=True)
class Target:
    """A reader under test.

    Attributes:
        name: for people.
        file: what the input is called.
        make: an input, from a random generator.
        read: reads the file and shows what is in it.
        ci: inputs tried in CI.
        why: the reason for fewer than a thousand; "" for none.
        apart: users read such a file in a process of its own, whose limit of memory is told.
    """

    name: str
    file: str
    make: Make
    read: Callable[[Path], object]
    ci: int = 1000
    why: str = ""
    apart: bool = False


def _from(damaged: Callable[[Random, Sequence[Any]], bytes], of: Callable[[], Any]) -> Make:
    return lambda random: damaged(random, of())


# -- recordings -----------------------------------------------------------------------------------


def _layers(path: Path) -> object:
    from gpuscope.loading import load

    return load([seeds.DATA / "engine_reports" / "trtexec_profile.json", path])


def _timeline(path: Path) -> None:
    from gpuscope.loading.job import Job, run_job
    from gpuscope.timeline.trace_files import find_traces

    for file in find_traces(path).files:
        if file.kind in ("kineto", "nsys", "engine"):
            run_job(Job(str(file.path), file.kind, file.rank), alone=True)


def _onnx(path: Path) -> None:
    from gpuscope.capturing import capture
    from gpuscope.program.models.settings import WorkloadOptions

    capture(str(path), options=WorkloadOptions(batch=2))


def _execution(path: Path) -> None:
    """An execution trace, joined with a profiler's trace that knows its operators."""
    from gpuscope.loading.job import Job, run_job

    trace = path.parent / "trace.json"
    trace.write_bytes(seeds.traced_operators())
    run_job(Job(str(trace), "kineto", execution=str(path)), alone=True)


def _archive(path: Path) -> None:
    from gpuscope.loading.archives import unpacked

    with unpacked(path) as folders:
        for folder in folders:
            _timeline(Path(folder))


def _recording(path: Path) -> None:
    from gpuscope.loading import load

    _told(load(path))


def _snapshot(path: Path) -> None:
    from gpuscope.timeline.snapshot.read import snapshot_of

    snapshot_of(path)


def _memory(path: Path) -> None:
    from gpuscope.loading.memory_run import run_of
    from gpuscope.timeline.snapshot.read import snapshot_of

    _told(run_of(snapshot_of(path), path))


# -- documents ------------------------------------------------------------------------------------


def _document(path: Path) -> None:
    from gpuscope.run.reader import load_runs

    load_runs(path)


def _views(path: Path) -> None:
    """Every view that a saved run has."""
    from gpuscope.analysis.compare import compare
    from gpuscope.run.document import comparison_document
    from gpuscope.run.reader import load_runs
    from gpuscope.views.check import check_run, render_checked
    from gpuscope.views.compare import difference, side_by_side
    from gpuscope.views.html import render_report

    runs = load_runs(path)
    for run in runs:
        _told(run)
        _shown(render_checked(check_run(run), "en"))
        _traced(run, path.parent)
    other = _whole()
    for run in runs[:1]:
        both = compare(run, other)
        _shown(difference(both, "en"), side_by_side([run, other], "zh"))
        json.dumps(comparison_document(both), allow_nan=False).encode()
    render_report(runs, "zh", what_if=False).encode()


@cache
def _whole() -> Any:
    from gpuscope.run.reader import load_runs

    return load_runs(seeds.SEEDS / "predicted.json.gz")[0]


def _told(run: Any) -> None:
    """A run in the terminal, in both languages, and as its document."""
    from gpuscope.run.document import run_document
    from gpuscope.views.terminal import render_run

    _shown(render_run(run, "en", 10), render_run(run, "zh", 3))
    json.dumps(run_document(run), allow_nan=False).encode()


def _traced(run: Any, folder: Path) -> None:
    from gpuscope.timeline.perfetto import write_chrome_trace

    write_chrome_trace(run.timeline, folder / "written.json", name=run.name)


def _pictures(path: Path) -> None:
    from gpuscope.run.reader import load_runs
    from gpuscope.views.pictures import write_blocks
    from gpuscope.views.run_figures.figures import runs_figures

    write_blocks(runs_figures(load_runs(path)), path.parent / "pictures", "en")


def _shown(*parts: Any) -> None:
    """What the terminal gets, as bytes."""
    import io

    from gpuscope.views.terminal import make_console

    out = io.StringIO()
    for part in parts:
        make_console(out).print(part)
    out.getvalue().encode("utf-8", "strict")


def _explained(explanation: Any) -> None:
    from gpuscope.views.explanation import explanation_document
    from gpuscope.views.explanation_terminal import render_explanation

    _shown(render_explanation(explanation, "en"), render_explanation(explanation, "zh"))
    json.dumps(explanation_document(explanation), allow_nan=False).encode()


# -- others ---------------------------------------------------------------------------------------


def _configuration(path: Path) -> None:
    from gpuscope.program.models.config_file import model_of_config

    model = model_of_config(path)
    str(model.description)
    if model.size is not None:
        model.size()


def _samples(path: Path) -> None:
    from gpuscope.views.watch import render_watch
    from gpuscope.views.watch_device import Look
    from gpuscope.watch.history import History
    from gpuscope.watch.recording import Replay, sample_line
    from gpuscope.watch.source import EndOfSamples

    source, history = Replay.load(path, speed=float("inf")), History()
    while True:
        try:
            read = source.read()
        except EndOfSamples:
            break
        history.add(read)
        for sample in read:
            sample_line(sample, history.verdicts(sample.host)).encode()
    _shown(render_watch(history, Look("en", 100), source.notes))


def _calibration(path: Path) -> None:
    from gpuscope.hardware.own import load_own

    load_own(path)


def _device(path: Path) -> None:
    from gpuscope.hardware.loader import load_device

    load_device(path)


def _interconnect(path: Path) -> None:
    from gpuscope.hardware.loader import read_file
    from gpuscope.hardware.schema import InterconnectFile

    read_file(path, InterconnectFile)


def _ladder(path: Path) -> None:
    from gpuscope.advice.trial.ladder_explanation import explain_ladder
    from gpuscope.advice.trial.ladder_store import read_ladder

    _explained(explain_ladder(read_ladder(path)))


def _bench(path: Path) -> None:
    from gpuscope.measurement.bench.store import load_bench
    from gpuscope.views.bench import bench_card
    from gpuscope.views.bench_document import bench_document

    found = load_bench(path)
    _shown(bench_card(found, "en"), bench_card(found, "zh"))
    json.dumps(bench_document(found), allow_nan=False).encode()


def _readings(path: Path) -> None:
    from gpuscope.measurement.sensors.recording import Replay

    sensor = Replay.load(path)
    json.dumps([str(sensor.info), *(str(sensor.read()) for _ in sensor.readings)]).encode()


def _serving(path: Path) -> None:
    from gpuscope.serving.document import load_serving, serving_document

    json.dumps(serving_document(load_serving(path)), allow_nan=False).encode()


def _tuning(path: Path) -> None:
    from gpuscope.serving.engine import engine
    from gpuscope.serving.tuning import load_tuning, tuning_document

    found = load_tuning(path)
    json.dumps(tuning_document(found), allow_nan=False).encode()
    if found.engine == "vllm":
        found.applied(engine("vllm"))


def _load(path: Path) -> None:
    from gpuscope.serving.traces import read_trace

    read_trace(path)


def _triton(path: Path) -> None:
    from gpuscope.serving.triton_config import config_text, read_config

    config_text(read_config(path)).encode("utf-8", "surrogateescape")


def _plan(path: Path) -> None:
    from gpuscope.planning.existing import existing

    str(existing(_question(), path)[1].words)


def _prices(path: Path) -> None:
    import datetime

    from gpuscope.planning.prices import prices_of, told, with_prices

    priced = with_prices(_question().clusters, prices_of(path))
    found = told([each.device for each in priced], datetime.date(2026, 11, 1))
    _shown(*(line.to(lang) for line in found for lang in ("en", "zh")))


def _lengths(path: Path) -> None:
    from gpuscope.program.models.rows import lengths_of, rows_of

    found = lengths_of(str(path))
    for packing in ("padded", "flash"):
        rows = rows_of(found, 512, packing, 2)
        assert 0 < rows.filled < 1.01, rows


@cache
def _question() -> Any:
    from gpuscope.planning.question import question_of

    return question_of(
        "llama-3.1-8b",
        on="h200",
        devices=8,
        global_batch=64,
        seq=4096,
        goal="time",
        tokens=None,
        simulate=1,
    )


def _guarded(path: Path) -> None:
    from gpuscope.guarding.settings import read_settings

    read_settings(path)


def _baseline(path: Path) -> None:
    """A baseline, with what a guard says that holds something against it."""
    from gpuscope.document.plain import dumps, plain
    from gpuscope.guarding.baseline import read_baseline
    from gpuscope.guarding.judge import judge
    from gpuscope.guarding.sources import Sources
    from gpuscope.views import guard as view

    settings, facts = seeds.guarded()
    sources = Sources(findings=dict.fromkeys(facts.findings, ("why", ())))
    found = {("train", "h100"): (facts, sources)}
    report = judge(settings, found, read_baseline(path), {"gpuscope": "0"})
    for lang in ("en", "zh"):
        _shown(view.guard_terminal(report, lang))
        view.guard_markdown(report, lang).encode()
        "".join(view.guard_annotations(report, lang)).encode()
    dumps(plain(report)).encode()


def _kept(path: Path) -> None:
    """A captured program that was kept, damaged although its digest is right."""
    from gpuscope.kept import opened

    opened(path.read_bytes())


def _advice(path: Path) -> None:
    from gpuscope.advice.forecast.store import AdviceOf, read_advice
    from gpuscope.advice.results import Target

    of = AdviceOf(Target("build", "gpt2"), "", "nvidia-h200-sxm", 1, "time", (), "0")
    str(read_advice(path, of).forecasting()(("tf32",)))


def _machine(path: Path) -> None:
    from gpuscope.doctor.diagnose import diagnose
    from gpuscope.doctor.machine import Recording
    from gpuscope.views.doctor import render_diagnosis

    _shown(render_diagnosis(diagnose(Recording.load(path)), "en"))


def _diagnosis(path: Path) -> None:
    from gpuscope.doctor.compare import differences
    from gpuscope.views.doctor_compare import render_differences
    from gpuscope.views.doctor_document import load_diagnosis

    _shown(render_differences(differences(load_diagnosis(path), _healthy()), "en"))


@cache
def _healthy() -> Any:
    from gpuscope.doctor.diagnose import diagnose
    from gpuscope.doctor.machine import Recording

    return diagnose(Recording.load(seeds.DATA / "machines" / "h200-x2.json"))


def _dump(path: Path) -> None:
    from gpuscope.explanation.flight_recorder.shown import explain_dumps

    _explained(explain_dumps(path))


def _counters(path: Path) -> None:
    from gpuscope.explanation.counters import counters

    _explained(counters(path))


def _kernel_name(path: Path) -> None:
    from gpuscope.explanation.kernel import kernel

    _explained(kernel(path.read_bytes().decode("utf-8", "surrogateescape")))


def _error_text(path: Path) -> None:
    from gpuscope.explanation.error import error

    _explained(error(path))


def _as_document(random: Random, found: Sequence[Any]) -> bytes:
    raw = damage.as_json(random, found)
    return gzip.compress(raw, 1, mtime=0) if random.random() < 0.05 else raw


_VIEWS = "each is drawn in nine views: 0.1 s"

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("trace", "t.json", _from(damage.as_json, seeds.traces), _timeline),
        Target("engine report", "t.json", seeds.damaged_report, _timeline),
        Target("engine layers", "t.json", seeds.damaged_layers, _layers),
        Target("xplane", "t.xplane.pb", seeds.damaged_xplane, _timeline),
        Target(
            "onnx",
            "t.onnx",
            lambda random: damage.bytes_of(random, seeds.onnx_model()),
            _onnx,
            ci=150,
            why="a model that can be read is captured: 40 ms",
        ),
        Target("gzip", "t.json.gz", _from(damage.as_gzip, seeds.traces), _timeline),
        Target(
            "trace-told",
            "t.json",
            _from(damage.as_json, seeds.traces),
            _recording,
            ci=15,
            why="each is analysed and told: 0.1 s",
        ),
        Target("dialect", "t.json", _from(damage.as_json, seeds.dialects), _timeline),
        Target(
            "rocprof",
            "t.json",
            _from(damage.as_json, seeds.rocprof),
            _timeline,
            ci=300,
            why="each is told anew, then read",
        ),
        Target(
            "execution",
            "e.json",
            _from(damage.as_json, seeds.executions),
            _execution,
            ci=300,
            why="each is joined with a trace, then read",
        ),
        Target("pairs", "t.json", _from(damage.as_json, seeds.pairs), _timeline),
        Target(
            "archive",
            "t.zip",
            _from(damage.as_zip, seeds.traces),
            _archive,
            ci=300,
            why="each makes a folder of files",
        ),
        Target("nsys", "t.sqlite", _from(damage.as_sqlite, seeds.databases), _timeline),
        Target("rocpd", "t.db", _from(damage.as_sqlite, seeds.rocpd), _timeline),
        Target(
            "nsys-told",
            "t.sqlite",
            _from(damage.as_sqlite, seeds.databases),
            _recording,
            ci=15,
            why="each is analysed and told: 0.1 s",
        ),
        Target(
            "snapshot", "s.pickle", _from(damage.as_pickle, seeds.memory), _snapshot, apart=True
        ),
        Target(
            "snapshot-told",
            "s.pickle",
            _from(damage.as_pickle, seeds.memory),
            _memory,
            apart=True,
            ci=100,
            why="each is told in two languages",
        ),
        Target(
            "run",
            "r.json",
            _from(_as_document, seeds.documents),
            _document,
            ci=100,
            why="each is a document of 50 kB",
        ),
        Target(
            "run-views", "r.json", _from(_as_document, seeds.documents), _views, ci=15, why=_VIEWS
        ),
        Target(
            "run-pictures",
            "r.json",
            _from(_as_document, seeds.documents),
            _pictures,
            1,
            "each is drawn by matplotlib",
        ),
        Target(
            "config", "config.json", _from(damage.as_json, seeds.configurations), _configuration
        ),
        Target(
            "samples",
            "s.jsonl",
            _from(damage.as_lines, seeds.samples),
            _samples,
            ci=300,
            why="each is judged and drawn",
        ),
        Target(
            "device log",
            "gpu.csv",
            _from(damage.as_table, seeds.device_logs),
            _samples,
            ci=300,
            why="each is judged and drawn",
        ),
        Target(
            "ncu",
            "ncu.csv",
            _from(damage.as_table, seeds.ncu_pages),
            _counters,
            ci=200,
            why="each is explained in two languages",
        ),
        Target("calibration", "c.toml", _from(damage.as_toml, seeds.calibrations), _calibration),
        Target("device", "nvidia-h200-sxm.toml", _from(damage.as_toml, seeds.devices), _device),
        Target(
            "interconnect",
            "nvlink-4.toml",
            _from(damage.as_toml, seeds.interconnects),
            _interconnect,
        ),
        Target(
            "ladder",
            "ladder.json",
            _from(damage.as_json, seeds.ladders),
            _ladder,
            ci=200,
            why="each is explained in two languages",
        ),
        Target(
            "bench",
            "points.jsonl",
            _from(damage.as_lines, seeds.benches),
            _bench,
            ci=100,
            why="each is drawn in two languages",
        ),
        Target("sensor", "s.json", _from(damage.as_json, seeds.readings), _readings),
        Target("serving", "s.json", _from(damage.as_json, seeds.servings), _serving),
        Target("tuning", "t.json", _from(damage.as_json, seeds.tunings), _tuning),
        Target("load", "t.jsonl", _from(damage.as_lines, seeds.loads), _load),
        Target("triton", "config.pbtxt", _from(damage.as_toml, seeds.tritons), _triton),
        Target("plan", "plan.toml", _from(damage.as_toml, seeds.plans), _plan),
        Target("deepspeed", "p.json", _from(damage.as_json, seeds.deepspeed_plans), _plan),
        Target("plan lines", "p.sh", _from(damage.as_table, seeds.plan_lines), _plan),
        Target("lengths", "l.txt", _from(damage.as_lines, seeds.lengths), _lengths),
        Target("prices", "p.toml", _from(damage.as_toml, seeds.prices), _prices),
        Target("guard", "gpuscope.toml", _from(damage.as_toml, seeds.guards), _guarded),
        Target(
            "baseline",
            "b.toml",
            _from(damage.as_toml, seeds.baselines),
            _baseline,
            ci=300,
            why="each is judged and drawn in two languages",
        ),
        Target("kept", "k.kept", _from(damage.as_msgpack, seeds.captures), _kept),
        Target("advice", "a.json", _from(damage.as_json, seeds.advices), _advice),
        Target(
            "machine",
            "m.json",
            _from(damage.as_json, seeds.machines),
            _machine,
            ci=100,
            why="each runs every check",
        ),
        Target(
            "diagnosis",
            "d.json",
            _from(damage.as_json, seeds.diagnoses),
            _diagnosis,
            ci=300,
            why="each is compared and drawn",
        ),
        Target(
            "dump",
            "nccl_trace_rank_0.json",
            _from(damage.as_json, seeds.dumps),
            _dump,
            ci=400,
            why="each is explained in two languages",
        ),
        Target(
            "kernel-name",
            "k.txt",
            _from(damage.as_name, seeds.kernel_names),
            _kernel_name,
            ci=300,
            why="each is explained in two languages",
        ),
        Target(
            "error-text",
            "e.log",
            _from(damage.as_name, seeds.error_texts),
            _error_text,
            ci=300,
            why="each is explained in two languages",
        ),
    )
}
