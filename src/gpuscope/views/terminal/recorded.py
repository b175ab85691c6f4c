"""The panels that a recording adds to a run's story, where its analysis has them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from gpuscope.run import Run
from gpuscope.views.i18n import tr
from gpuscope.views.terminal import idle_panel, launch_panel

# What a prediction of one device does not show is imported where it is shown.

TOP = 10


def first(run: Run, lang: str) -> Iterator[RenderableType]:
    """What must be known before the figures: how far they can be trusted."""
    analysis = run.analysis
    if analysis.trust is not None:
        from gpuscope.views.terminal import trust_panel

        panel = trust_panel.trust(analysis.trust, lang)
        if panel is not None:
            yield panel
    if analysis.host:
        sentence = (
            tr("No device work is in this recording: what follows is the host's story.", lang)
            if run.origin == "measured"
            else tr("All of it is the host's work: what follows is its story.", lang)
        )
        yield Text("\n" + sentence, style="bold yellow")


def causes(run: Run, lang: str, top: int = TOP) -> Iterator[RenderableType]:
    """What follows the classes of time: idle spots, ranks, communication."""
    analysis = run.analysis
    if analysis.host:
        from gpuscope.views.terminal import symbol_panel

        yield symbol_panel.host(run, lang, top)
        return
    spots = idle_panel.idle_spots(run, lang, top)
    if spots is not None:
        yield spots
    if analysis.job is not None:
        from gpuscope.views.terminal import job_panel

        yield from job_panel.job(run, analysis.job, lang)
        return
    yield from _between_ranks(run, lang)


def _between_ranks(run: Run, lang: str) -> Iterator[RenderableType]:
    """The ranks' times, who waits for whom, or what one rank's collectives take."""
    time, ranks, talk = run.analysis.time, run.analysis.ranks, run.analysis.communication
    talks = talk is not None and bool(talk.sorts)
    if len(time) < 2 and ranks is None and not talks:
        return
    from gpuscope.views.terminal import rank_panel

    if len(time) > 1:
        yield rank_panel.times(run, lang)
    if ranks is not None:
        yield rank_panel.story(ranks, lang)
    elif talk is not None and talks:
        yield rank_panel.communication(talk.sorts, lang, talk=talk)


def details(run: Run, lang: str, top: int = TOP) -> Iterator[RenderableType]:
    """What follows the operators: kernels by symbol, the critical path, launches, copies, steps."""
    analysis = run.analysis
    if analysis.symbols:
        from gpuscope.views.terminal import symbol_panel

        yield symbol_panel.symbols(run, lang, top)
    if analysis.critical_path is not None:
        yield idle_panel.critical_path(run, analysis.critical_path, lang, top)
    # Work of the host itself (a run on the CPU) was launched by nobody.
    if analysis.launches is not None and analysis.launches.count:
        yield launch_panel.launches(analysis.launches, lang)
    if analysis.launch_delays is not None and analysis.launch_delays.count:
        yield launch_panel.delays(analysis.launch_delays, lang)
    if analysis.sequences:
        from gpuscope.views.terminal import symbol_panel

        yield symbol_panel.sequences(analysis.sequences, lang, top)
    if analysis.copies:
        yield launch_panel.copies(run, lang)
    if analysis.step_spread is not None and analysis.step_spread.ranks:
        from gpuscope.views.terminal import rank_panel

        yield rank_panel.steps(analysis.step_spread, lang)
