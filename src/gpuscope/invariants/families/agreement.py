"""The same quantity has the same value wherever it is said."""

from __future__ import annotations

import math

from gpuscope.document import format as units
from gpuscope.document.text import Text
from gpuscope.invariants.book import Book
from gpuscope.invariants.output import Json, Output
from gpuscope.invariants.registry import invariant


@invariant("agreement")
def agreement(output: Output, book: Book) -> None:
    """Headline, screens, page, JSON, pictures, What-if and the analysis against each other."""
    _step(output, book)
    _device_time(output, book)
    _energy(output, book)
    _memory(output, book)
    _arithmetic(output, book)
    _document(output, book)
    _screens(output, book)
    _what_if(output, book)
    _comparisons(output, book)


def _both(one: str, other: str) -> Text:
    return Text("{one} and {other}", one=one, other=other)


def _step(output: Output, book: Book) -> None:
    run, analysis = output.run, output.run.analysis
    path, job = analysis.critical_path, analysis.job
    if output.predicted or run.measurement is not None:
        book.same(_both("analysis.step_s", "step_time_s"), analysis.step_s, run.step_time_s)
    if job is not None:
        book.same(_both("analysis.job.step_s", "step_time_s"), job.step_s, run.step_time_s)
    low, high = run.step_time_interval_s
    book.at_most(_both("step_time_interval_s: low", "step_time_s"), low, run.step_time_s)
    book.at_most(_both("step_time_s", "step_time_interval_s: high"), run.step_time_s, high)
    if path is not None and output.predicted:
        length_s = math.fsum(path.time_s.values())
        book.same(_both("analysis.critical_path", "step_time_s"), length_s, run.step_time_s)


def _device_time(output: Output, book: Book) -> None:
    run, analysis = output.run, output.run.analysis
    if not analysis.time:
        return
    book.same(_both("analysis.classes", "device_busy_s"), output.busy_s, run.device_busy_s)
    own = next((r for r in run.rank_results if r.rank == output.rank), None)
    if own is None:
        return
    time = analysis.time[output.rank]
    book.same(
        _both("rank_results[0].device_busy_s", "device_busy_s"),
        own.device_busy_s,
        run.device_busy_s,
    )
    book.same(_both("rank_results[0].host_busy_s", "host_busy_s"), own.host_busy_s, run.host_busy_s)
    book.same(
        _both("rank_results[0].communication_s", "analysis.time.communication_s"),
        own.communication_s,
        time.communication_s,
        within=1e-4,
    )
    talk = analysis.communication
    if talk is not None:
        book.same(
            _both("analysis.communication.exposed_s", "analysis.time.exposed_communication_s"),
            talk.exposed_s,
            time.exposed_communication_s,
        )


def _energy(output: Output, book: Book) -> None:
    run, energy, step_s = output.run, output.run.analysis.energy, output.run.analysis.step_s
    own = next((r for r in run.rank_results if r.rank == output.rank), None)
    if own is not None:
        book.same(_both("rank_results[0].energy_j", "energy_j"), own.energy_j, run.energy_j, "J")
    if energy is None:
        return
    if output.predicted:
        book.same(_both("analysis.energy.total_j", "energy_j"), energy.total_j, run.energy_j, "J")
    if energy.total_j is not None and energy.average_w is not None:
        book.same(
            _both("analysis.energy.average_w", "total_j"),
            energy.average_w * step_s,
            energy.total_j,
            "J",
        )
    power = output.series("power")
    if output.predicted and power is not None and energy.average_w is not None:
        # What a job waits for by chance lies after the step that is drawn; it is spent at rest.
        drawn_s = (output.use["end_ns"] - output.use["start_ns"]) * 1e-9
        rest_j = power["parts"]["at rest"] * (step_s / drawn_s - 1.0)
        book.same(
            _both("use.power", "analysis.energy.total_j"),
            power["total"] + rest_j,
            energy.total_j,
            "J",
            within=1e-6,
        )


def _memory(output: Output, book: Book) -> None:
    run, memory = output.run, output.run.analysis.memory
    if memory is not None:
        book.same(
            _both("analysis.memory.peak_bytes", "peak_memory_bytes"),
            memory.peak_bytes,
            run.peak_memory_bytes,
            "bytes",
        )
        if memory.reserved_bytes is not None:
            book.same(
                _both("analysis.memory.reserved_bytes", "reserved_memory_bytes"),
                memory.reserved_bytes,
                run.reserved_memory_bytes,
                "bytes",
            )
        book.same(_both("analysis.memory.fits", "fits"), memory.fits, run.fits, "")
    if run.rank_results:
        fullest = max(rank.peak_memory_bytes for rank in run.rank_results)
        book.same(
            _both("rank_results: peak_memory_bytes", "peak_memory_bytes"),
            fullest,
            run.peak_memory_bytes,
            "bytes",
        )


def _arithmetic(output: Output, book: Book) -> None:
    used, job = output.run.analysis.utilisation, output.run.analysis.job
    if used is None or not used.peak_flops_per_s:
        return
    step_s = output.run.analysis.step_s
    book.same(
        _both("analysis.utilisation.mfu", "model_flops"),
        used.mfu,
        used.model_flops / step_s / used.peak_flops_per_s,
        "share",
    )
    if job is not None:
        own = next((rank for rank in job.ranks if rank.rank == output.rank), None)
        if own is not None:
            book.same(
                _both("analysis.job.ranks: hardware_flops", "analysis.utilisation"),
                own.hardware_flops,
                used.hardware_flops,
                "flop",
            )
    if output.predicted:
        drawn = output.use.get("matrix_flops")
        if drawn is not None:
            book.same(
                _both("use.matrix_flops", "analysis.utilisation.hardware_flops"),
                drawn,
                used.hardware_flops,
                "flop",
                within=1e-6,
            )


def _document(output: Output, book: Book) -> None:
    """The page's and the JSON's figures are the run's."""
    for name in ("step_time_s", "device_busy_s", "host_busy_s", "energy_j", "peak_memory_bytes"):
        shown = output.document[name]
        book.same(_both(name, "JSON"), shown, getattr(output.run, name), _unit(name), within=0.0)


def _unit(name: str) -> str:
    return {"_s": "s", "_j": "J"}.get(name[-2:], "bytes")


def _screens(output: Output, book: Book) -> None:
    """The headline of every language has the run's figures, whole."""
    run, shown = output.run, output.figures
    if not run.analysis.time or run.step_time_s <= 0:
        return
    for lang, screen in output.screens.items():
        figures = {
            "step_time_s": units.time(run.step_time_s, lang),
            "peak_memory_bytes": units.size(run.peak_memory_bytes, lang),
        }
        if output.predicted:
            figures["figures.job_energy_j"] = units.energy(shown["job_energy_j"], lang)
        if run.analysis.utilisation is not None:
            figures["figures.mfu"] = units.share(shown["mfu"], lang)
        for name, text in figures.items():
            what = Text("{figure} on the screen ({lang})", figure=name, lang=lang)
            book.holds(what, text in screen, Text("not there"), text)


def _what_if(output: Output, book: Book) -> None:
    """Every figure of "What if" starts from the run itself."""
    if not output.predicted:
        return
    step_s = output.run.step_time_s
    for explorer in output.blocks("explorer"):
        if explorer["sliders"][0]["key"] == "units":
            book.same(
                _both("what_if: explorer", "step_time_s"), _at_start(explorer, "time"), step_s
            )
            book.same(_both("what_if: explorer, speed", "1"), _at_start(explorer, "speed"), 1.0, "")
    for bars in output.blocks("bars"):
        if bars["unit"] == "s" and bars["limit"] is not None:
            book.same(_both("what_if: now", "step_time_s"), bars["limit"], step_s)
            own = [p["value"] for b in bars["bars"] for p in b["parts"] if p["role"] == "tensor"]
            book.same(_both("what_if: devices", "step_time_s"), own[0] if own else None, step_s)
    for table in output.blocks("table"):
        units_of = [column["unit"] for column in table["columns"]]
        if "J" in units_of and table["marked"]:
            row = table["rows"][table["marked"][0]]
            book.same(
                _both("what_if: energy", "figures.job_energy_j"),
                row[units_of.index("J")],
                output.figures["job_energy_j"],
                "J",
            )
            book.same(
                _both("what_if: rent", "figures.usd_per_step"),
                _per_step(row[units_of.index("usd")]),
                output.figures["usd_per_step"],
                "usd",
            )
    _bandwidths(output, book)


def _per_step(of_thousand: float | None) -> float | None:
    return None if of_thousand is None else of_thousand / 1000


def _at_start(explorer: Json, key: str) -> float:
    at = 0
    for slider in explorer["sliders"]:
        at = at * len(slider["values"]) + slider["start"]
    found: float = next(o for o in explorer["outputs"] if o["key"] == key)["values"][at]
    return found


def _bandwidths(output: Output, book: Book) -> None:
    """The curve of the arithmetic goes through the run's MFU."""
    for lines in output.blocks("lines"):
        arithmetic = [s for s in lines["series"] if s["role"] == "tensor"]
        if lines["y"]["unit"] != "share" or lines["x"]["unit"] != "bytes/s" or not arithmetic:
            continue
        x = lines["marks"][0]["x"]
        at = arithmetic[0]["x"].index(x)
        book.same(
            _both("what_if: arithmetic now", "figures.mfu"),
            arithmetic[0]["y"][at],
            output.figures["mfu"],
            "share",
        )


def _comparisons(output: Output, book: Book) -> None:
    runs = output.page["runs"]
    for number, compared in enumerate(output.page["comparisons"], 1):
        book.same(
            _both("comparison.a_s", "analysis.step_s"),
            compared["a_s"],
            runs[0]["analysis"]["step_s"],
        )
        book.same(
            _both("comparison.b_s", "analysis.step_s"),
            compared["b_s"],
            runs[number]["analysis"]["step_s"],
        )
