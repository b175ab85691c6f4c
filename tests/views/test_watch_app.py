"""The live view, driven by keys (without a terminal; `tests/cli` drives it in a real one)."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time

import pytest
from watch_screens import idle, samples, training

pytest.importorskip("textual")

from gpuscope.views.watch_app import WatchApp
from gpuscope.watch.recording import Replay
from gpuscope.watch.source import EndOfSamples


class Source:
    """Samples that are given one after the other, as fast as they are asked for."""

    notes = ("something cannot be read",)
    interval_s = 0.01

    def __init__(self, taken, error: Exception | None = None) -> None:
        self.left, self.error = list(taken), error

    def read(self):
        if not self.left:
            raise self.error or EndOfSamples
        return (self.left.pop(0),)

    def close(self) -> None:
        pass


def four(n: int):
    return [*(training(n, i) for i in range(3)), idle(n, 3)]


def shown(app: WatchApp) -> str:
    """All text on the screen."""
    lines = []
    for y in range(app.size.height):
        lines.append("".join(s.text for s in app.screen._compositor.render_strips()[y]))
    return "\n".join(lines)


def drive(source, *keys: str, size: tuple[int, int] = (100, 34), lang: str = "en", **options):
    """Run the view until its source ends, press keys; return it and what it shows."""

    async def run() -> tuple[WatchApp, str]:
        app = WatchApp(source, lang, **options)
        async with app.run_test(size=size) as pilot:
            until = time.monotonic() + 20
            while not app._ended and app.is_running and time.monotonic() < until:
                await pilot.pause(0.02)
            for key in keys:
                await pilot.press(key)
            await pilot.pause(0.05)
            text = shown(app) if app.is_running else ""
            return app, text

    return asyncio.run(run())


def test_it_shows_the_devices_and_the_verdict() -> None:
    app, text = drive(Source(samples(four, 12)))
    assert app.failure is None
    assert "▸" in text
    assert "Compute bound: SMs" in text
    assert "python train.py" in text
    assert "end of recording" in text
    assert app.chosen == ("node1", 0)


def test_what_cannot_be_read_is_told() -> None:
    _, text = drive(Source(samples(training, 3)), size=(100, 40))
    assert "something cannot be read" in text


def test_arrows_choose_a_device() -> None:
    app, text = drive(Source(samples(four, 5)), "down", "down", "down")
    assert app.chosen == ("node1", 3)
    assert "Idle: no kernel for 4 s" in text
    app, _ = drive(Source(samples(four, 5)), "up")
    assert app.chosen == ("node1", 3)
    app, _ = drive(Source(samples(four, 5)), "down", "down", "down", "down")
    assert app.chosen == ("node1", 0)


def test_the_language_changes_and_changes_back() -> None:
    _, text = drive(Source(samples(training, 12)), "l")
    assert "退出" in text
    assert "受算力限制" in text
    _, text = drive(Source(samples(training, 12)), "l", "l")
    assert "Compute bound" in text


def test_help_opens_and_closes() -> None:
    _, text = drive(Source(samples(training, 3)), "h")
    assert "Share of time in which any kernel ran" in text
    app, text = drive(Source(samples(training, 3)), "h", "q")
    assert app.is_running is False or "Share of time" not in text
    assert "Compute bound" in text  # q closed the help, not the view


def test_q_leaves() -> None:
    _, text = drive(Source(samples(training, 3)), "q")
    assert text == ""


def test_the_curves_span_more_or_less() -> None:
    _, text = drive(Source(samples(training, 3)), "plus")
    assert "last 5 minutes" in text
    _, text = drive(Source(samples(training, 3)), "minus", "minus", "minus")
    assert "last minute" in text


def test_a_paused_recording_waits() -> None:
    async def run() -> tuple[int, int, str]:
        app = WatchApp(Replay(iter(samples(training, 300)), speed=20))
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause(0.3)
            await pilot.press("p")
            await pilot.pause(0.2)
            before = len(app.history.recent("node1", math.inf))
            await pilot.pause(0.4)
            after = len(app.history.recent("node1", math.inf))
            text = shown(app)
            await pilot.press("p")
            await pilot.pause(0.3)
            assert len(app.history.recent("node1", math.inf)) > after
            return before, after, text

    before, after, text = asyncio.run(run())
    assert before == after > 0
    assert "paused" in text


def test_no_device_is_calm() -> None:
    _, text = drive(Source(samples(lambda n: [], 3)), size=(80, 12))
    assert "No accelerator is seen on this host." in text


@pytest.mark.parametrize("size", [(40, 15), (60, 30), (120, 40), (200, 60)])
def test_it_fits_every_terminal(size: tuple[int, int]) -> None:
    app, text = drive(Source(samples(four, 5)), size=size)
    assert app.failure is None
    assert "GPU" in text


def test_a_source_that_fails_ends_the_view_and_is_told() -> None:
    app, _ = drive(Source(samples(training, 2), OSError("gone")))
    assert isinstance(app.failure, OSError)


def test_every_answer_is_handed_on() -> None:
    seen = []
    drive(
        Source(samples(training, 6)),
        on_samples=lambda found, history: seen.append(history.latest(found[0].host)),
    )
    assert len(seen) == 6


def test_it_ends_by_itself_when_asked() -> None:
    async def run() -> None:
        app = WatchApp(Replay(iter(samples(training, 300)), speed=20), seconds=0.2)
        async with app.run_test() as pilot:
            await pilot.pause(0.6)
            assert not app.is_running

    asyncio.run(run())


def test_keys_are_shown() -> None:
    _, text = drive(Source(samples(training, 3)))
    for key in ("q quit", "p pause", "l 中文", "h help"):
        assert key in text


@pytest.mark.parametrize(("every_s", "pictures"), [(1.0, 3 + 9), (0.1, 3 + 9), (2.0, 30)])
def test_of_quick_samples_every_third_is_drawn(every_s: float, pictures: int, monkeypatch) -> None:
    """To draw is what costs; the first few, and slow ones, are drawn as they come."""
    app, drawn = WatchApp(Source([])), []
    monkeypatch.setattr(app, "redraw", lambda: drawn.append(app.history.latest("node1").unix_s))
    for number, sample in enumerate(samples(training, 30)):
        app._take((dataclasses.replace(sample, unix_s=1e9 + number * every_s, host="node1"),))
    assert len(drawn) == pictures
    assert drawn[-1] == app.history.latest("node1").unix_s


def test_a_key_draws_at_once(monkeypatch) -> None:
    app, drawn = WatchApp(Source([])), []
    monkeypatch.setattr(app, "redraw", lambda: drawn.append(app.lang))
    app.action_language()
    assert drawn == ["zh"]
