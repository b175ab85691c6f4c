"""The live view: a screen that follows a source of samples, in a terminal (textual)."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType

from gpuscope.document.text import render
from gpuscope.views.i18n import next_language, tr
from gpuscope.views.watch import Chosen, all_devices, host_line, no_device, overview
from gpuscope.views.watch_device import SPANS_S, Look, device_panel
from gpuscope.views.watch_help import help_panel
from gpuscope.views.watch_lines import Lines
from gpuscope.views.watch_processes import process_table
from gpuscope.watch.history import History
from gpuscope.watch.recording import Replay
from gpuscope.watch.source import EndOfSamples, Source
from gpuscope.watch.types import Sample

MOST_PROCESSES = 24

DRAWN_EVERY = 3
"""Samples for each picture: to draw one costs more than to read and judge all three."""

SLOW_S = 1.5
"""Samples that come so far apart, and the first few, are all drawn."""

OnSamples = Callable[[tuple[Sample, ...], History], None]


class WatchApp(App[None]):
    """Shows what a source's devices do until the user quits."""

    CSS = """
    Screen { background: $background; }
    Lines { padding: 0 1; }
    #detail { height: 1fr; scrollbar-size-vertical: 1; }
    #keys { height: 1; dock: bottom; padding: 0 1; background: $panel; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape", "leave", show=False),
        Binding("p,space", "pause", show=False),
        Binding("h,question_mark", "help", show=False),
        Binding("l", "language", show=False),
        Binding("up,k,left", "choose(-1)", show=False, priority=True),
        Binding("down,j,right", "choose(1)", show=False, priority=True),
        Binding("plus,equals_sign", "span(1)", show=False),
        Binding("minus", "span(-1)", show=False),
    ]

    def __init__(
        self,
        source: Source,
        lang: str = "en",
        *,
        on_samples: OnSamples | None = None,
        seconds: float | None = None,
    ) -> None:
        """Prepare the view.

        Args:
            source: asked in a thread of its own; not closed.
            lang: "en" or "zh" at the start.
            on_samples: called with each answer and the history that has it, to record it, say.
            seconds: end by itself after so long.
        """
        super().__init__()
        self.source = source
        self.history = History()
        self.lang = lang
        self.failure: BaseException | None = None
        self._on_samples = on_samples
        self._seconds = seconds
        self._chosen = 0
        self._span = 1
        self._paused = False
        self._helps = False
        self._ended = False
        self._taken = 0
        self._newest_s = -math.inf
        self._stop = threading.Event()
        self._resume = threading.Event()
        self._resume.set()

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        for part in ("hosts", "overview", "detail", "keys"):
            yield Lines(part)

    def on_mount(self) -> None:
        """Begin to ask the source."""
        self.redraw()
        if self._seconds is not None:
            self.set_timer(self._seconds, self.exit)
        threading.Thread(target=self._ask, name="gpuscope-watch", daemon=True).start()

    def on_resize(self) -> None:
        """Draw anew for another size, all of it: what the terminal made of the old lines is its own
        affair, and lines that did not change would not be sent."""
        self.redraw()
        self.call_after_refresh(self.screen.refresh)

    def on_unmount(self) -> None:
        """Stop asking."""
        self._stop.set()
        self._resume.set()

    @property
    def chosen(self) -> Chosen | None:
        """The device that is shown in full; None where there is none."""
        devices = all_devices(self.history)
        return devices[min(self._chosen, len(devices) - 1)] if devices else None

    @property
    def look(self) -> Look:
        """How things are shown now; two columns are the margins, one the scroll bar."""
        return Look(self.lang, max(self.size.width - 3, 20), SPANS_S[self._span])

    def action_leave(self) -> None:
        """Close the help, or leave."""
        if self._helps:
            self.action_help()
        else:
            self.exit()

    def action_pause(self) -> None:
        """Hold the picture, or let it go on; a recording that is played waits."""
        self._paused = not self._paused
        if isinstance(self.source, Replay) and self._paused:
            self._resume.clear()
        else:
            self._resume.set()
        self.redraw()

    def action_help(self) -> None:
        """Show or hide what the figures mean."""
        self._helps = not self._helps
        self.query_one("#detail", Lines).scroll_home(animate=False)
        self.redraw()

    def action_language(self) -> None:
        """Change between English and Chinese."""
        self.lang = "zh" if self.lang == "en" else "en"
        self.redraw()

    def action_choose(self, step: int) -> None:
        """Show the next or the previous device in full; where there is one, scroll."""
        devices = all_devices(self.history)
        if len(devices) > 1 and not self._helps:
            self._chosen = (min(self._chosen, len(devices) - 1) + step) % len(devices)
            self.redraw()
        else:
            self.query_one("#detail", Lines).scroll_relative(y=step, animate=False)

    def action_span(self, step: int) -> None:
        """Let the curves span more or less."""
        self._span = min(max(self._span + step, 0), len(SPANS_S) - 1)
        self.redraw()

    def redraw(self) -> None:
        """Draw everything from the history."""
        self._put("#keys", self._keys())
        if self._helps:
            self._put("#hosts", None)
            self._put("#overview", None)
            self._put("#detail", help_panel(self.look))
            return
        if not self.history.hosts:
            self._put("#hosts", Text(tr("Looking …", self.lang), style="dim"))
            return
        self._draw(self.look)

    def _draw(self, look: Look) -> None:
        history, chosen = self.history, self.chosen
        hosts = history.hosts if chosen is None else (chosen[0], *history.silent)
        self._put("#hosts", Group(*(host_line(history, host, look) for host in hosts)))
        several = len(all_devices(history)) > 1
        self._put("#overview", overview(history, look, chosen) if several else None)
        parts: list[RenderableType] = [] if chosen else [no_device(look.lang)]
        if chosen is not None:
            parts.append(device_panel(history, *chosen, look, chosen=several))
            parts += process_table(history, look.lang, MOST_PROCESSES)
        notes = [Text(render(note, self.lang), style="dim") for note in self.source.notes]
        self._put("#detail", Group(*parts, *([Text(), *notes] if notes else [])))

    def _put(self, where: str, what: RenderableType | None) -> None:
        """Fill a part of the screen; None takes it away."""
        self.query_one(where, Lines).put(what, self.look.width)

    def _keys(self) -> Text:
        several = len(all_devices(self.history)) > 1
        keys = [
            ("q", tr("quit", self.lang)),
            ("p", tr("go on", self.lang) if self._paused else tr("pause", self.lang)),
            *([("↑↓", "GPU")] if several else []),
            ("+ −", self.look.span),
            ("l", tr("English", next_language(self.lang))),
            ("h", tr("close help", self.lang) if self._helps else tr("help", self.lang)),
        ]
        text = Text(no_wrap=True, overflow="ellipsis")
        if self._paused or self._ended:
            state = tr("paused", self.lang) if self._paused else tr("end of recording", self.lang)
            text.append(f" {state} ", style="reverse yellow").append("  ")
        for key, about in keys:
            text.append(key, style="bold cyan").append(f" {about}   ")
        return text

    def _ask(self) -> None:
        """Ask the source again and again; in a thread of its own, since it may take its time."""
        try:
            while not self._stop.is_set():
                samples = self.source.read()
                self._resume.wait()
                if self._stop.is_set():
                    return
                self.call_from_thread(self._take, samples)
                if not isinstance(self.source, Replay):  # a recording keeps its own time
                    self._stop.wait(self.source.interval_s)
        except EndOfSamples:
            if not self._stop.is_set():
                self.call_from_thread(self._end)
        except BaseException as error:  # told by whoever runs the view, once the screen is back
            self.failure = error
            if not self._stop.is_set():
                self.call_from_thread(self.exit)

    def _take(self, samples: tuple[Sample, ...]) -> None:
        self.history.add(samples)
        if self._on_samples is not None:
            self._on_samples(samples, self.history)
        before_s, self._newest_s = self._newest_s, max((s.unix_s for s in samples), default=0.0)
        self._taken += 1
        slow = not 0 <= self._newest_s - before_s < SLOW_S
        first = self._taken <= DRAWN_EVERY
        if not self._paused and (slow or first or self._taken % DRAWN_EVERY == 0):
            self.redraw()

    def _end(self) -> None:
        self._ended = True
        self.redraw()
