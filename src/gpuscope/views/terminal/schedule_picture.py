"""A pipeline's schedule: stages downwards, time to the right, a mark for each microbatch."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from gpuscope.analysis.job_types import JobStory
from gpuscope.analysis.pipeline import Pipeline, Stage, pipeline
from gpuscope.document import format as units
from gpuscope.run import Run
from gpuscope.views.i18n import tr
from gpuscope.views.terminal.layout import section

MOST_STAGES = 16
"""Stages that are drawn; of more, evenly some."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def schedule_picture(run: Run, found: JobStory, lang: str) -> RenderableType | None:
    """Return the predicted schedule; None where the ranks form no pipeline."""
    schedule = pipeline(run.timeline)
    if schedule is None:
        return None
    about = tr(
        "One line a stage, time to the right. Digits: forward passes of microbatches 0, 1, ...; "
        "letters: backward passes a, b, ...; a dot: the stage waits.",
        lang,
    )
    return section(
        tr("The pipeline", lang),
        about,
        Schedule(schedule, lang),
        Text(),
        Text(schedule.said.to(lang), style="dim"),
    )


@dataclass(frozen=True, slots=True)
class Schedule:
    """The picture, as wide as there is room.

    Attributes:
        schedule: what is drawn.
        lang: language of the words.
    """

    schedule: Pipeline
    lang: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw one line a stage and the time below."""
        stages = self.schedule.stages
        step = max(1, -(-len(stages) // MOST_STAGES))
        drawn = stages[::step]
        head = max(len(f"{stage.rank:,}") for stage in drawn) + len("rank ") + 2
        width = max(10, min(options.max_width - head, 160))
        for stage in drawn:
            name = f"rank {stage.rank:,}".ljust(head)
            yield Text.assemble((name, "dim"), self._line(stage, width))
        length_s = (self.schedule.end_ns - self.schedule.start_ns) * 1e-9
        end = units.time(length_s, self.lang)
        yield Text(" " * head + "0" + end.rjust(width - 1), style="dim")

    def _line(self, stage: Stage, width: int) -> Text:
        """Each cell shows what fills most of it."""
        low, length = self.schedule.start_ns, self.schedule.end_ns - self.schedule.start_ns
        best = [length / width / 2] * width  # less than half a cell of work is waiting
        marks: list[tuple[str, str]] = [("·", "bright_black")] * width
        for block in stage.blocks:
            begin = (block.start_ns - low) * width / length
            end = (block.end_ns - low) * width / length
            mark = _mark(block.phase, block.number)
            for cell in range(int(begin), min(int(end) + 1, width)):
                inside = (min(end, cell + 1) - max(begin, cell)) * length / width
                if inside > best[cell]:
                    best[cell], marks[cell] = inside, mark
        text = Text()
        for sign, style in marks:
            text.append(sign, style=style)
        return text


def _mark(phase: str, number: int) -> tuple[str, str]:
    if phase == "forward":
        return str(number % 10), "blue"
    return _LETTERS[number % 26], "green"
