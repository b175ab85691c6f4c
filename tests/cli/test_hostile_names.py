"""Names from outside reach the terminal as what they are: no verb lets one be obeyed."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from emulated import EVIL, Shown, on_a_terminal

from gpuscope.cli.app import VERBS
from gpuscope.measurement.sensors.types import ProcessUse, Reading, SensorInfo

DATA = Path(__file__).resolve().parents[1] / "data"


def poisoned(value: object, evil: str = EVIL, kept: tuple[str, ...] = ("ph", "cat", "s")) -> object:
    """A document with something evil behind every word in it."""
    if isinstance(value, dict):
        return {
            key: each if key in kept else poisoned(each, evil, kept) for key, each in value.items()
        }
    if isinstance(value, list):
        return [poisoned(each, evil, kept) for each in value]
    if isinstance(value, str) and any(c.isalpha() for c in value):
        return value + evil
    return value


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording whose every name is evil, in a folder and a file that are."""
    folder = tmp_path_factory.mktemp("traces") / "f\x1b]0;owned\x07\u202e"
    folder.mkdir()
    given = json.loads(
        gzip.decompress((DATA / "traces/h200/two_streams/rank-0.json.gz").read_bytes())
    )
    for event in given["traceEvents"]:
        event.update({k: poisoned(v) for k, v in event.items() if k == "name"})
        if event["ph"] == "M":
            event["args"] = poisoned(event["args"])
    given["deviceProperties"] = poisoned(given.get("deviceProperties", []))
    given["hostname"] = EVIL
    path = folder / "t\x1b[2J\nFORGED\x9b.json"
    path.write_text(json.dumps(given))
    return path


def test_the_emulator_obeys_what_is_sent() -> None:
    """The trap works: sent raw, the same name changes the title and forges a line."""
    from emulated import emulated

    shown = emulated(f"name: {EVIL}\n".encode())
    assert shown.title == "owned"
    with pytest.raises(AssertionError):
        shown.check()


def tell(shown: Shown) -> None:
    shown.check()
    assert "\\x1b" in shown.sent
    assert "[link=x][bold]" in shown.sent.replace("\n", "") or "…" in shown.sent


def test_analyze(trace: Path) -> None:
    tell(on_a_terminal("analyze", trace, "--lang", "zh", "--top", 30))


def test_analyze_as_json(trace: Path, tmp_path: Path) -> None:
    shown = on_a_terminal("analyze", trace, "--json", "--quiet").check()
    document = json.loads(shown.sent)
    saved = tmp_path / "r\x1b]0;owned\x07.json"
    saved.write_text(json.dumps(poisoned(document, kept=("schema", "kind", "id"))))
    on_a_terminal("analyze", saved).check()
    saved.write_text(shown.sent)
    tell(on_a_terminal("compare", saved, trace))
    on_a_terminal("analyze", trace, "--output", tmp_path / "o\x1b]0;owned\x07\nFORGED.json").check()


def test_analyze_writes_pages_and_pictures(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    on_a_terminal("analyze", trace, "--report", page, "--quiet").check()
    text = page.read_text()
    assert "\x1b" not in text
    assert "\u202e" not in text


NAME = "n\x1b]0;owned\x07\nFORGED\x9b2J\u202e"
"""What a file's name, or an argument, may be."""


LINES = (
    (NAME,),
    ("predict", f"--{NAME}"),
    ("predict", NAME),
    ("predict", "gpt2", "--on", NAME),
    ("predict", "gpt2", "--batch", NAME),
    ("predict", f"./{NAME}.py:build"),
    ("predict", f"/nowhere/{NAME}.onnx", "--set", f"{NAME}=8"),
    ("analyze", f"/nowhere/{NAME}.json"),
    ("analyze", f"/nowhere/{NAME}*"),
    ("compare", NAME, NAME),
    ("report", f"/nowhere/{NAME}.json", "--output", "/dev/null"),
    ("explain", "error", NAME),
    ("explain", "error", f"/nowhere/{NAME}.log"),
    ("explain", "kernel", f"ampere_sgemm_{NAME}"),
    ("explain", "counters", f"/nowhere/{NAME}.csv"),
    ("explain", "matmul", NAME),
    ("explain", NAME),
    ("lens", f"{NAME}.py:kernel"),
    ("learn", NAME),
    ("claims", NAME),
    ("devices", NAME),
    ("models", NAME),
    ("schema", NAME),
    ("mcp", "--folder", f"/nowhere/{NAME}"),
    ("bench", NAME),
    ("bench", "--compare", NAME, NAME),
    ("advise", NAME),
    ("optimize", NAME),
    ("measure", NAME),
    ("profile", f"/nowhere/{NAME}.py"),
    ("doctor", "--only", NAME),
    ("doctor", "--replay", f"/nowhere/{NAME}"),
    ("watch", NAME),
    ("watch", "--serve", NAME),
    ("watch", "--gpus", NAME),
    ("watch", "--replay", f"/nowhere/{NAME}"),
    ("watch", "--once", "--hosts", f"{NAME}:9"),
    ("predict", "gpt2", "--lang", NAME),
    ("serve", NAME),
    ("serve", "llama-3.1-8b", "--on", NAME),
    ("serve", "llama-3.1-8b", "--rate", "1", "--router", NAME),
    ("serve", "llama-3.1-8b", "--rate", "1", "--policy", NAME),
    ("serve", "llama-3.1-8b", "--rate", "1", "--speculate", NAME),
    ("serve", "llama-3.1-8b", "--rate", "1", "--engine", f"{NAME}.pbtxt"),
    ("serve", "--calibrate", NAME),
    ("serve", "llama-3.1-8b", "--rate", "1", "--calibration", NAME),
    ("plan", NAME),
    ("plan", "llama-3.1-8b", "--on", NAME),
    ("plan", f"{NAME}.py:build", "--on", "8xh200"),
    ("plan", f"{NAME}=3", "--task", "serve", "--on", "h200:slices"),
    ("plan", "qwen3-8b", "--task", "serve", "--rate", "1", "--on", f"{NAME}:slices"),
    ("predict", "llama-3.2-1b", "--method", NAME),
    ("fit", NAME),
    ("fit", "llama-3.1-8b", "--method", NAME),
    ("fit", "llama-3.1-8b", "--lengths", NAME),
    ("fit", "llama-3.1-8b", "--lengths", "512", "--packing", NAME),
    ("load", NAME),
    ("load", "http://127.0.0.1:9", "--save", f"/nowhere/{NAME}"),
    ("cache", NAME),
    ("guard", "--config", f"/nowhere/{NAME}.toml"),
    ("guard", "--only", NAME),
)


def test_no_verb_is_left_out() -> None:
    assert set(VERBS) <= {words[0] for words in LINES}


@pytest.mark.parametrize("words", LINES, ids=lambda words: " ".join(words).replace(NAME, "NAME"))
def test_arguments_and_missing_files(words: tuple[str, ...]) -> None:
    lang = () if "--lang" in words else ("--lang", "en" if len(words[-1]) % 2 else "zh")
    shown = on_a_terminal(*words, *lang).check()
    assert shown.code in (0, 1, 2), shown.sent


def test_a_traceback_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSCOPE_TRACEBACK", "1")
    shown = on_a_terminal("analyze", f"/nowhere/{NAME}.json").check()
    assert "Traceback" in shown.sent


def test_the_shell_s_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_GPUSCOPE_COMPLETE", f"complete_{NAME}".replace("\n", ""))
    on_a_terminal("predict").check()


def _samples(path: Path) -> Path:
    lines = (DATA / "watch/h200-x2-memory-held.jsonl").read_text().splitlines()[:12]
    given = [json.loads(line) for line in lines]
    kept = ("schema",)
    path.write_text("".join(json.dumps(poisoned(each, kept=kept)) + "\n" for each in given))
    return path


def test_watch(tmp_path: Path) -> None:
    path = _samples(tmp_path / NAME.replace("/", ""))
    tell(on_a_terminal("watch", "--once", "--replay", path))
    shown = on_a_terminal("watch", "--json-lines", "--replay", path, "--speed", 1000).check()
    assert json.loads(shown.sent.splitlines()[0])["devices"]


class _Sensor:
    """A device of this host, as a driver tells of it: any user's process may be on it."""

    info = SensorInfo("nvidia", 0, f"NVIDIA H200{EVIL}", "GPU-1", EVIL, notes=())

    def read(self, processes: bool = False) -> Reading:
        uses = (ProcessUse(2**22 + 1, f"python{EVIL}", 2**30),)
        return Reading(0.0, power_w=300.0, utilisation=0.5, processes=uses)

    def close(self) -> None: ...


def test_watch_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuscope.watch.sampler.open_devices", lambda wanted=None: (_Sensor(),))
    monkeypatch.setattr("gpuscope.cli.watch_show.LOOK_S", 0.01)
    tell(on_a_terminal("watch", "--once"))
    shown = on_a_terminal("watch", "--json-lines", "--once").check()
    (use,) = json.loads(shown.sent)["devices"][0]["reading"]["processes"]
    assert use["name"].startswith("pythonk\\x1bc\\x1b]0;owned")


@pytest.mark.parametrize("machine", ["h200-x2-deep", "cpu-only"])
def test_doctor(tmp_path: Path, machine: str) -> None:
    given = json.loads((DATA / f"machines/{machine}.json").read_text())
    path = tmp_path / "m.json"
    evil = EVIL.replace("\r\n", "")
    path.write_text(json.dumps(poisoned(given, evil, kept=("schema", "kind"))))
    for how in ((), ("--topology",)) if machine != "cpu-only" else ((),):
        on_a_terminal("doctor", "--replay", path, *how).check()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_live_view(tmp_path: Path) -> None:
    import fcntl
    import pty
    import struct
    import subprocess
    import termios

    from emulated import emulated

    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 120, 0, 0))
    path = _samples(tmp_path / "s.jsonl")
    command = [sys.executable, "-m", "gpuscope", "watch", "--replay", str(path), "--seconds", "2"]
    environment = {**os.environ, "TERM": "xterm-256color", "GPUSCOPE_LANG": "en"}
    process = subprocess.Popen(
        [*command, "--speed", "20"], stdin=its, stdout=its, stderr=its, env=environment
    )
    os.close(its)
    sent = b""
    try:
        while data := os.read(mine, 1 << 16):
            sent += data
    except OSError:  # the end, on Linux
        pass
    assert process.wait(20) == 0
    before_the_end = sent[: sent.rindex(b"\x1b[?1049l")]
    shown = emulated(before_the_end)
    assert "owned" not in shown.title
    for told in ("]0;owned", "]52;", "\x9b31m", "\x9d", "\u202e", "\u2066", "\u2028", "\x1bc"):
        raw = [at for at in _places(shown.sent, told) if shown.sent[at - 4 : at] != "\\x1b"]
        assert not raw, (told, shown.sent[raw[0] - 60 : raw[0] + 60])
    assert any("\\x1b" in line for line in shown.lines)
    assert not any(line.strip(" │").startswith("FORGED") for line in shown.lines)


def _places(text: str, part: str) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(part), text)]


MODEL = f"""
import torch

class Evil(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module({EVIL!r}.replace(".", ""), torch.nn.Linear(8, 8))

    def forward(self, x):
        for each in self.children():
            x = each(x)
        return x

Evil.__name__ = Evil.__qualname__ = {EVIL!r}

def build():
    model = Evil().cuda()
    x = torch.randn(4, 8, device="cuda")
    def step():
        with torch.profiler.record_function({EVIL!r}):
            model(x).sum().backward()
    return step

def broken():
    raise ValueError({EVIL!r})
"""
"""A model whose modules, classes and marks have evil names, and one that fails with one."""


def test_a_prediction_of_hostile_source(tmp_path: Path) -> None:
    path = tmp_path / "m\x1b]0;owned\x07\u202e.py"
    path.write_text(MODEL)
    on_a_terminal("predict", f"{path}:build", "--on", "h100", "--top", 20).check()
    shown = on_a_terminal("predict", f"{path}:broken", "--on", "h100").check()
    assert shown.code == 2


def test_other_recordings(tmp_path: Path) -> None:
    """An Nsight Systems export, and a flight recorder's dumps: call sites are lines of code."""
    import pickle
    import shutil

    sys.path.insert(0, str(Path(__file__).parents[1] / "timeline"))
    import nsys_databases

    evil = EVIL.replace("\x00", "")
    tables = nsys_databases.step_tables()
    tables["StringIds"] = [
        (number, name if name.startswith("cuda") else name + evil)
        for number, name in nsys_databases.STRINGS
    ]
    tell(on_a_terminal("analyze", nsys_databases.make(tmp_path / "x.sqlite", tables)))
    folder = tmp_path / "dumps"
    shutil.copytree(DATA / "errors/flight_recorder/rank_missing", folder)
    for file in folder.iterdir():
        file.write_bytes(pickle.dumps(_called(pickle.loads(file.read_bytes()))))
    tell(on_a_terminal("explain", "error", folder))


def _called(value: object, key: str = "") -> object:
    """A dump whose functions, files and collectives have evil names."""
    if isinstance(value, dict):
        return {name: _called(each, name) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_called(each, key) for each in value)
    evil = isinstance(value, str) and key in ("name", "filename", "profiling_name")
    return f"{value}{EVIL}" if evil else value
