"""How a run was measured: warm-up, blocks, profiler, energy, clocks, machine."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gpuscope.document import format as units
from gpuscope.run import Measurement, Run
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import section
from gpuscope.views.words import word


def measurement(run: Run, how: Measurement, lang: str) -> RenderableType:
    """One line for each thing that was done, with what it showed."""
    rows = [
        (tr("Warm-up", lang), _warmup(how, lang)),
        (tr("Timing", lang), _timing(how, lang)),
        (tr("Host", lang), _host(how, lang)),
        (tr("Profiler", lang), _profiler(run, how, lang)),
        (tr("Energy", lang), _energy(how, lang)),
        (tr("Clock", lang), _clock(how, lang)),
        (tr("Machine", lang), _machine(how, lang)),
    ]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, said in rows:
        if said:
            grid.add_row(name, Text(said))
    return section(tr("How it was measured", lang), "", grid)


def _warmup(how: Measurement, lang: str) -> str:
    if not how.warmup_steps:
        return ""
    if how.settled_after is None:
        said = tr("{steps} steps, and the time had not settled", lang, steps=how.warmup_steps)
    else:
        said = tr(
            "{steps} steps; steady after {settled}",
            lang,
            steps=how.warmup_steps,
            settled=how.settled_after,
        )
    if how.first_step_s is not None:
        first = units.time(how.first_step_s, lang)
        said += tr("; ", lang) + tr("the first took {time}", lang, time=first)
    if how.first_step_allocations:
        asked = tr("asked the device for memory {n} times", lang, n=how.first_step_allocations)
        said += tr(", ", lang) + asked
    if how.compiled_graphs:
        said += tr("; ", lang) + tr("{n} graphs compiled", lang, n=how.compiled_graphs)
    return said


def _timing(how: Measurement, lang: str) -> str:
    if not how.blocks_s:
        return ""
    return tr(
        "{blocks} blocks of {steps} steps without the profiler, {low} to {high} a step",
        lang,
        blocks=len(how.blocks_s),
        steps=how.steps_per_block,
        low=units.time(min(how.blocks_s), lang),
        high=units.time(max(how.blocks_s), lang),
    )


def _host(how: Measurement, lang: str) -> str:
    if how.host_issue_s is None:
        return ""
    return tr("issues a step in {time}", lang, time=units.time(how.host_issue_s, lang))


def _profiler(run: Run, how: Measurement, lang: str) -> str:
    if how.profiled_step_s is None:
        return ""
    return tr(
        "{steps} steps recorded, {time} each: {ratio} of the time without it",
        lang,
        steps=how.profiled_steps,
        time=units.time(how.profiled_step_s, lang),
        ratio=units.ratio(how.profiled_step_s / run.step_time_s if run.step_time_s else None, lang),
    )


def _energy(how: Measurement, lang: str) -> str:
    if how.average_w is None:
        return ""
    return tr(
        "{power} over {time}, ± {error} a step",
        lang,
        power=units.power(how.average_w, lang),
        time=units.time(how.energy_window_s, lang),
        error=units.energy(how.energy_uncertainty_j, lang),
    )


def _clock(how: Measurement, lang: str) -> str:
    said = []
    if how.sm_clock_hz is not None:
        said.append(f"{how.sm_clock_hz / 1e6:,.0f} MHz")
    if how.temperature_c is not None:
        said.append(f"{how.temperature_c:.0f} °C")
    if how.throttle_reasons:
        said.append(
            tr(
                "held down by: {reasons}",
                lang,
                reasons=tr(", ", lang).join(word(each, lang) for each in how.throttle_reasons),
            )
        )
    for reason, share in (how.throttled_share or {}).items():
        if share > 0:
            said.append(
                tr(
                    "{reason} limit {share} of the time",
                    lang,
                    reason=word(reason, lang),
                    share=units.share(share, lang),
                )
            )
    return tr("; ", lang).join(said)


def _machine(how: Measurement, lang: str) -> str:
    facts = how.machine
    parts = [facts.get("device", "")]
    parts += [
        f"{label} {facts[key]}"
        for key, label in (
            ("torch", "PyTorch"),
            ("cuda", "CUDA"),
            ("hip", "HIP"),
            ("driver", tr("driver", lang)),
        )
        if facts.get(key)
    ]
    parts.append(facts.get("processor", ""))
    return ", ".join(dict.fromkeys(part for part in parts if part))
