"""The headline: how long, how much memory, what it costs, how well the device is used."""

from __future__ import annotations

import math

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gpuscope.analysis.breakdown import WAITING
from gpuscope.analysis.device_of import works_on_host
from gpuscope.document import format as units
from gpuscope.document.text import render
from gpuscope.program.types import Program
from gpuscope.run import Run
from gpuscope.run.figures import Figures, catalogue_host, figures
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import bar
from gpuscope.views.words import word

WAITING_SHARE = 0.05
"""From this share of the step on, waiting in collectives is told apart from the device's work."""

MEAN_DIFFERS = 0.02
"""From here on the mean step, which the breakdowns describe, is told beside the median."""


def headline(run: Run, lang: str) -> RenderableType:
    """The figures that most people came for, in a frame."""
    shown = figures(run)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    timed = not math.isnan(run.step_time_s)  # a memory snapshot holds no times
    if timed:
        grid.add_row(tr("Step time", lang), _step_time(run, lang))
    if shown.samples_per_s is not None or shown.tokens_per_s is not None:
        grid.add_row(tr("Throughput", lang), _throughput(shown, lang))
    grid.add_row(tr("Peak memory", lang), _memory(run, lang))
    if len(run.rank_results) > 1:
        grid.add_row("", Text(_fullest(run, lang), style="dim"))
    # A recording that somebody made elsewhere cannot hold these; a run measured here could.
    recorded = _is_recording(run)
    if not recorded or run.energy_j is not None:
        grid.add_row(tr("Energy", lang), _energy(run, shown, lang))
        grid.add_row(tr("Cost", lang), _cost(shown, lang))
    if not recorded or run.analysis.utilisation is not None:
        grid.add_row("MFU", _mfu(run, shown, lang))
    origin = word(run.origin, lang)
    title = Text.assemble((run.name, "bold"))
    where = Text.assemble(
        (tr("{origin} on", lang, origin=origin), "dim"), " ", (render(run.target, lang), "bold")
    )
    pace = (Text(), _host_and_device(run, lang)) if timed and run.analysis.time else ()
    if run.program is not None and run.program.ops and run.program.on_host_alone:
        pace = (Text(), Text(_never_on_device(run.program, lang), style="bold red"))
    body = Group(title, where, Text(), grid, *pace)
    return Panel(body, box=box.ROUNDED, border_style="bright_black", padding=(0, 1))


def _never_on_device(program: Program, lang: str) -> str:
    return tr(
        "This program never uses the GPU: its {count} operators run on the CPU, and that is the "
        'time above. Move the model and the data: .to("cuda"), or device="cuda".',
        lang,
        count=f"{len(program.ops):,}",
    )


def _step_time(run: Run, lang: str) -> Text:
    text = Text(units.time(run.step_time_s, lang), style="bold green")
    low, high = run.step_time_interval_s
    if _is_recording(run):
        text.append(f"   {_recorded_steps(run, lang)}", style="dim")
    elif low < high:
        text.append(f"   {_interval(run, lang)}", style="dim")
    return text


def _is_recording(run: Run) -> bool:
    """Whether the run was read from what somebody recorded, not measured here."""
    return run.origin == "measured" and run.measurement is None and bool(run.timeline.sources)


def _recorded_steps(run: Run, lang: str) -> str:
    """Where the step time of a recording comes from."""
    steps = [step for step in run.timeline.steps if step.rank == run.ranks[0]]
    if not steps:
        return tr("the whole recording; no step was found", lang)
    if math.isnan(run.device_busy_s):
        return tr("between the host's marks; what the device took is not in the recording", lang)
    low, high = (units.time(end, lang) for end in run.step_time_interval_s)
    how = _found_by(steps[0].found, lang)
    if low == high:
        if how:
            return tr("median of {n} step(s)", lang, n=len(steps)) + tr("; ", lang) + how
        return tr("median of {n} marked step(s)", lang, n=len(steps))
    text = tr(
        "median of {n} steps; the middle 80 %: {low} to {high}",
        lang,
        n=len(steps),
        low=low,
        high=high,
    )
    mean_s = run.analysis.step_s
    if abs(mean_s - run.step_time_s) > MEAN_DIFFERS * run.step_time_s:
        text += tr("; ", lang) + tr("mean {time}", lang, time=units.time(mean_s, lang))
    return text + (tr("; ", lang) + how if how else "")


def _found_by(found: str, lang: str) -> str:
    """How steps that nobody marked were found; "" where they are marked."""
    if found == "optimizer":
        return tr("no step is marked: found by the optimizer's calls", lang)
    return tr("no step is marked: found by the kernels that recur", lang) if found else ""


def _interval(run: Run, lang: str) -> str:
    low, high = (units.time(end, lang) for end in run.step_time_interval_s)
    if run.origin == "predicted" and run.step_time_interval_s[1] > _NO_STATEMENT * max(
        run.step_time_interval_s[0], 1e-12
    ):
        return _unknown(run, low, high, lang)
    if run.measurement is None or run.measurement.confidence is None:
        return tr("80 % sure: {low} to {high}", lang, low=low, high=high)
    share = units.share(run.measurement.confidence, lang)
    return tr("median; {share} interval: {low} to {high}", lang, share=share, low=low, high=high)


_NO_STATEMENT = 10.0
"""From here on the ends of an interval are too far apart to be one."""


def _unknown(run: Run, low: str, high: str, lang: str) -> str:
    """What makes a prediction so unsure, instead of how sure it is."""
    if run.host_busy_s is not None and run.host_busy_s > run.device_busy_s:
        what = tr("how fast the host is", lang)
    else:
        what = tr("how fast its kernels run on this device", lang)
    return tr(
        "an order of magnitude: {what} is not known ({low} to {high})",
        lang,
        what=what,
        low=low,
        high=high,
    )


def _throughput(shown: Figures, lang: str) -> Text:
    parts = []
    if shown.samples_per_s is not None:
        rate = units.count(shown.samples_per_s, lang)
        parts.append(tr("{rate} samples/s", lang, rate=rate))
    if shown.tokens_per_s is not None:
        parts.append(tr("{rate} tokens/s", lang, rate=units.count(shown.tokens_per_s, lang)))
    text = Text("   ".join(parts))
    if shown.devices > 1:
        each = shown.tokens_per_s_per_device or shown.samples_per_s_per_device
        rate = units.count(each, lang)
        text.append("   " + tr("{rate} a device", lang, rate=rate), style="dim")
    return text


def _fullest(run: Run, lang: str) -> str:
    """Which rank of a job needs most memory, and what the emptiest one needs."""
    ordered = sorted(run.rank_results, key=lambda rank: rank.peak_memory_bytes)
    least = units.size(ordered[0].peak_memory_bytes, lang)
    return tr(
        "rank {rank}, the fullest; rank {other} needs least: {size}",
        lang,
        rank=ordered[-1].rank,
        other=ordered[0].rank,
        size=least,
    )


def _memory(run: Run, lang: str) -> Text:
    text = Text(units.size(run.peak_memory_bytes, lang), style="bold")
    story = run.analysis.memory
    capacity = story.capacity_bytes if story else None
    if run.peak_memory_bytes is not None and capacity:
        share = run.peak_memory_bytes / capacity
        text.append(tr(" of {size}  ", lang, size=units.size(capacity, lang)))
        style = "red" if run.fits is False else "yellow" if share > 0.9 else "green"
        text.append_text(bar(share, 16, style, "░"))
        text.append(f" {units.share(share, lang)}")
    if run.reserved_memory_bytes is not None:
        reserved = units.size(run.reserved_memory_bytes, lang)
        text.append("   " + tr("reserved {size}", lang, size=reserved), style="dim")
    if run.fits is False:
        missing = story.missing_bytes if story else 0
        text.append("\n")
        text.append(_does_not_fit(missing, lang), style="bold red")
    return text


def _does_not_fit(missing_bytes: int, lang: str) -> str:
    if not missing_bytes:
        return tr("Does not fit.", lang)
    return tr("Does not fit: {size} too much.", lang, size=units.size(missing_bytes, lang))


def _energy(run: Run, shown: Figures, lang: str) -> Text:
    text = Text(units.energy(shown.job_energy_j, lang))
    parts = run.analysis.energy
    if shown.devices > 1:
        text.append(tr(" of all {n} devices", lang, n=f"{shown.devices:,}"))
        power = _ratio_w(shown, run)
        if power is not None:
            watts = tr("{power} a device", lang, power=units.power(power, lang))
            text.append("   " + watts, style="dim")
    elif parts is not None and parts.average_w is not None:
        text.append(
            "   " + tr("{power} on average", lang, power=units.power(parts.average_w, lang))
        )
    if shown.energy_per_token_j is not None:
        each = units.energy(shown.energy_per_token_j, lang)
        text.append("   " + tr("{energy} a token", lang, energy=each))
    return text


def _ratio_w(shown: Figures, run: Run) -> float | None:
    """Mean power of a device of a job."""
    if shown.job_energy_j is None or not run.step_time_s:
        return None
    return shown.job_energy_j / run.step_time_s / shown.devices


def _cost(shown: Figures, lang: str) -> Text:
    text = Text(units.money(shown.usd_per_step, lang))
    if shown.usd_per_step is not None:
        text.append(tr(" a step", lang))
    if shown.usd_per_million_tokens is not None:
        each = units.money(shown.usd_per_million_tokens, lang)
        text.append("   " + tr("{money} a million tokens", lang, money=each))
    return text


def _mfu(run: Run, shown: Figures, lang: str) -> Text:
    used = run.analysis.utilisation
    if used is None:
        return Text(tr("not available", lang))
    text = Text(units.share(shown.mfu, lang))
    if shown.devices > 1:
        again = f"   HFU {units.share(shown.hfu, lang)}" if shown.hfu != shown.mfu else ""
        mean = tr("mean of {n} devices", lang, n=f"{shown.devices:,}")
        text.append(f"{again}   {mean}", style="dim")
        return text
    if used.peak_flops_per_s is not None and run.step_time_s:
        reached = units.flop_rate(used.model_flops / run.step_time_s, lang)
        peak = units.flop_rate(used.peak_flops_per_s, lang)
        text.append("   " + tr("{rate} of {peak}", lang, rate=reached, peak=peak), style="dim")
    return text


def _host_and_device(run: Run, lang: str) -> Text:
    device = units.time(run.device_busy_s, lang)
    if works_on_host(run.timeline, run.ranks[0]):
        sentence = tr(
            "Operators take {device} of each step; the rest is Python and the framework between "
            "them.",
            lang,
            device=device,
        )
        return Text(sentence, style="dim")
    if run.host_busy_s is None and not _is_recording(run):
        return Text(tr("The device works {device} of each step.", lang, device=device), style="dim")
    if _is_recording(run):
        return Text(_recorded_pace(run, device, lang), style="dim")
    waits_s = waiting_s(run)
    if waits_s > WAITING_SHARE * run.step_time_s:
        # Of rank 0: collectives that wait keep its device taken, though nothing is done.
        sentence = tr(
            "The device of rank {rank} is taken {device} of each step, {waiting} of that waiting "
            "for other ranks; its host (the CPU that runs Python and launches the device's work) "
            "needs {host}.",
            lang,
            rank=run.ranks[0],
            device=device,
            waiting=units.time(waits_s, lang),
            host=units.time(run.host_busy_s, lang),
        )
        return Text(sentence, style="dim")
    sentence = tr(
        "The device works {device} of each step. The host (the CPU that runs Python and launches "
        "the device's work) needs {host}: the slower of the two sets the pace.",
        lang,
        device=device,
        host=units.time(run.host_busy_s, lang),
    )
    return Text(sentence, style="dim").append_text(_whose_host(run, lang))


def _whose_host(run: Run, lang: str) -> Text:
    """For which host the figures hold, where it sets the pace and is not the reader's own."""
    if run.basis is None:
        return Text()
    constants, step_s = run.basis.constants, run.step_time_s
    said = catalogue_host(constants, step_s, run.host_busy_s, run.device_busy_s)
    return Text(f" {render(said, lang)}" if said else "", style="yellow")


def waiting_s(run: Run) -> float:
    """Return what a step of the first rank waits in collectives for others, as far as known."""
    return sum(share.time_s for share in run.analysis.classes if share.label == WAITING)


def _recorded_pace(run: Run, device: str, lang: str) -> str:
    """How much device and host work: of a step, or of all where no step is marked."""
    # Device time is a mean over the steps, so it is held against their mean, not their median.
    mean_s = run.analysis.step_s
    share = units.share(run.device_busy_s / mean_s if mean_s else 0.0, lang)
    host = units.time(run.host_busy_s, lang)
    if any(step.rank == run.ranks[0] for step in run.timeline.steps):
        text = tr("The device works {device} ({share}) of a step", lang, device=device, share=share)
    else:
        text = tr(
            "The device works {device} ({share}) of the recording", lang, device=device, share=share
        )
    waits_s = waiting_s(run)
    if waits_s > WAITING_SHARE * mean_s:
        text += tr(
            ", {waiting} of that waiting for other ranks in collectives",
            lang,
            waiting=units.time(waits_s, lang),
        )
    if run.host_busy_s:
        text += tr(
            "; the host (the CPU that runs Python and launches the device's work) {host}",
            lang,
            host=host,
        )
    return text + tr(". ", lang).rstrip()
