"""`gpuscope watch` as a user runs it: once, as lines, recorded, replayed, in a real terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "watch"))  # the samples are made there

from watch_samples import idle, samples, training

from gpuscope.cli.app import app
from gpuscope.watch.recording import SampleWriter, read_samples


def watch(*words: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuscope", "watch", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "GPUSCOPE_LANG": "en"},
        **options,
    )


def replayed(*words: str) -> Result:
    """The same in this process."""
    done = CliRunner().invoke(app, ["watch", "--replay", *words], env={"GPUSCOPE_LANG": "en"})
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("watch") / "four.jsonl"
    with SampleWriter(path) as writer:
        for sample in samples(lambda n: [*(training(n, i) for i in range(3)), idle(n, 3)], 40):
            writer.write(sample)
    return str(path)


def test_once_looks_at_this_host() -> None:
    done = watch("--once")
    assert done.returncode == 0, done.stderr
    assert "processors" in done.stdout
    assert "GPU 0" in done.stdout or "No accelerator is seen" in done.stdout


def test_a_pipe_gets_one_look() -> None:
    """Without a terminal there is no live view, and nobody to press q."""
    assert watch().returncode == 0


def test_once_shows_the_end_of_a_recording(recording) -> None:
    done = replayed(recording, "--once")
    assert "Compute bound: SMs" in done.stdout
    assert done.stdout.count("Idle") == 2
    assert "受算力限制" in replayed(recording, "--once", "--lang", "zh").stdout


def test_lines_are_whole_documents(recording) -> None:
    done = replayed(recording, "--json-lines", "--speed", "1000")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 40
    assert lines[-1]["devices"][0]["verdict"]["kind"] == "compute_bound"
    (last,) = replayed(recording, "--json-lines", "--once").stdout.splitlines()
    assert json.loads(last) == lines[-1]


def test_a_recording_records_as_it_was(recording, tmp_path) -> None:
    copy = tmp_path / "copy.jsonl"
    done = replayed(recording, "--once", "--record", str(copy))
    assert f"Wrote {copy}" in done.stderr
    assert list(read_samples(copy)) == list(read_samples(recording))


def test_lines_of_this_host_come_at_their_pace() -> None:
    done = watch("--json-lines", "--seconds", "0.9", "--interval", "0.2")
    times = [json.loads(line)["unix_s"] for line in done.stdout.splitlines()]
    assert 1 <= len(times) <= 6  # a busy machine may be late, never early
    assert times == sorted(set(times))


def test_an_interrupt_ends_a_log_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuscope", "watch", "--json-lines", "--interval", "0.2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=20)
    assert (process.returncode, error) == (0, b"")


def test_a_reader_that_leaves_ends_a_log_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuscope", "watch", "--json-lines", "--interval", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.readline()
    process.stdout.close()
    error = process.stderr.read()
    assert (process.wait(20), error) == (0, b"")
    process.stderr.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "63", "--once"], "no device 63"),
        (["--gpus", "x", "--once"], "not a list"),
        (["--gpus", "0-", "--once"], "not a list"),
        (["--replay", "none.jsonl"], "Cannot read"),
        (["--replay", "none.jsonl", "--hosts", "a"], "Either --replay or --hosts"),
        (["--replay", "a.jsonl", "--record", "./a.jsonl"], "cannot be played and written"),
        (["--hosts", ",", "--once"], "no host"),
        (["--gpus", "0", "--hosts", "a"], "this host's devices"),
        (["--interval", "0", "--once"], "too short"),
        (["--energy"], "needs a command"),
        (["python", "x.py"], "belongs to --energy"),
        (["--once", "--serve", ":0"], "at a time"),
        (["--attach", "999999999"], "no process"),
        (["--record", "no/such/folder/a.jsonl", "--once"], "Cannot write"),
        (["--once", "--lang", "xx"], "language"),
    ],
)
def test_wrong_input_is_told_without_a_traceback(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process: a broken recording, below, is told by a real one."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["watch", *words], env={"GPUSCOPE_LANG": "en"})
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.output
    assert not list(tmp_path.iterdir())


class Terminal:
    """`gpuscope watch` in a pseudo-terminal, and the screen that a user sees."""

    def __init__(self, *words: str, columns: int = 100, rows: int = 36) -> None:
        pexpect = pytest.importorskip("pexpect")
        pyte = pytest.importorskip("pyte")
        self.pexpect = pexpect
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "GPUSCOPE_LANG": "en",
            "PYTHONUTF8": "1",
        }
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "gpuscope", "watch", *words],
            dimensions=(rows, columns),
            env=environment,
            timeout=30,
        )

    def shown(self) -> str:
        """What the screen shows now."""
        from emulated import rows  # needs pyte

        return "\n".join(rows(self.screen))

    def until(self, text: str, seconds: float = 20.0) -> str:
        """The screen, once it shows a text."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                self.stream.feed(self.process.read_nonblocking(1 << 16, timeout=0.2))
            except self.pexpect.TIMEOUT:
                pass
            except self.pexpect.EOF:
                break
            if text in (shown := self.shown()):
                return shown
        raise AssertionError(f"{text!r} is not on the screen:\n" + self.shown())

    def resize(self, rows: int, columns: int) -> None:
        """Another size, once what was drawn for the last one has been read."""
        end = time.monotonic() + 5.0
        while time.monotonic() < end:
            try:
                self.stream.feed(self.process.read_nonblocking(1 << 16, timeout=1.0))
            except self.pexpect.TIMEOUT:
                break
        self.process.setwinsize(rows, columns)
        self.screen.resize(rows, columns)

    def ended(self) -> int | None:
        self.process.expect(self.pexpect.EOF, timeout=20)
        self.process.close()
        return self.process.exitstatus


def test_the_live_view_in_a_real_terminal(recording) -> None:
    pytest.importorskip("textual")
    terminal = Terminal("--replay", recording, "--speed", "200")
    terminal.until("end of recording")
    terminal.until("Compute bound")
    for _ in range(3):
        terminal.process.send("\x1b[B")  # the down arrow
    assert "Idle: no kernel" in terminal.until("Idle: no kernel")
    terminal.process.send("l")
    terminal.until("English")
    terminal.process.send("l")
    terminal.until("pause")
    terminal.process.send("h")
    terminal.until("Share of time in which any kernel ran")
    terminal.process.send("h")
    terminal.until("▸")
    terminal.resize(24, 60)  # the user makes the window smaller
    terminal.until("GPU 3 NVIDIA H200")
    terminal.process.send("q")
    assert terminal.ended() == 0


def test_the_live_view_of_this_host() -> None:
    pytest.importorskip("textual")
    terminal = Terminal("--interval", "0.2", columns=70, rows=20)
    shown = terminal.until("quit")
    assert "Traceback" not in shown
    terminal.until("processors")
    terminal.process.send("q")
    assert terminal.ended() == 0


def test_a_broken_recording_is_told_after_the_screen_is_back(tmp_path, recording) -> None:
    pytest.importorskip("textual")
    path = tmp_path / "broken.jsonl"
    lines = Path(recording).read_text().splitlines()
    path.write_text("\n".join([*lines[:10], "oops", *lines[10:]]) + "\n")
    terminal = Terminal("--replay", str(path), "--speed", "100")
    terminal.until("Line 11 of")
    assert terminal.ended() == 2
