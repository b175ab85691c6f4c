"""The panels that a recording adds to a run's story, where its analysis has them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from gpuscope.run import Run
from gpuscope.views.i18n import tr
from gpuscope.views.terminal import idle_panel, job_panel, launch_panel, rank_panel, trust_panel
from gpuscope.views.terminal.symbol_panel import host, symbols

TOP = 10


def first(run: Run, lang: str) -> Iterator[RenderableType]:
    """What must be known before the figures: how far they can be trusted."""
    analysis = run.analysis
    if analysis.trust is not None:
        panel = trust_panel.trust(analysis.trust, lang)
        if panel is not None:
            yield panel
    if analysis.host:
        sentence = "The device did no work in this recording: what follows is the host's story."
        yield Text("\n" + tr(sentence, lang), style="bold yellow")


def causes(run: Run, lang: str, top: int = TOP) -> Iterator[RenderableType]:
    """What follows the classes of time: idle spots, ranks, communication."""
    analysis = run.analysis
    if analysis.host:
        yield host(run, lang, top)
        return
    spots = idle_panel.idle_spots(run, lang, top)
    if spots is not None:
        yield spots
    if analysis.job is not None:
        yield from job_panel.job(run, analysis.job, lang)
        return
    if len(analysis.time) > 1:
        yield rank_panel.times(run, lang)
    if analysis.ranks is not None:
        yield rank_panel.story(analysis.ranks, lang)
    elif analysis.communication is not None and analysis.communication.sorts:
        yield rank_panel.communication(analysis.communication.sorts, lang)


def details(run: Run, lang: str, top: int = TOP) -> Iterator[RenderableType]:
    """What follows the operators: kernels by symbol, the critical path, launches, copies, steps."""
    analysis = run.analysis
    if analysis.symbols:
        yield symbols(run, lang, top)
    if analysis.critical_path is not None:
        yield idle_panel.critical_path(run, analysis.critical_path, lang, top)
    # Work of the host itself (a run on the CPU) was launched by nobody.
    if analysis.launches is not None and analysis.launches.count:
        yield launch_panel.launches(analysis.launches, lang)
    if analysis.copies:
        yield launch_panel.copies(run, lang)
    if analysis.step_spread is not None and analysis.step_spread.ranks:
        yield rank_panel.steps(analysis.step_spread, lang)
