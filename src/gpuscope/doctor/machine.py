"""The machine as checks see it: commands, files, folders, variables, and what libraries tell.

A check reads nothing by itself: it asks a `Machine`. `LiveMachine` asks the real one and remembers
every answer; `Recording` gives the same answers again, elsewhere. So a healthy or an ill machine
that was recorded once (`gpuscope doctor --record FILE`) tests every check without its hardware.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from gpuscope import children
from gpuscope.doctor.processes import Processes, Tell
from gpuscope.document.text import Text
from gpuscope.errors import UPDATE, InputFileError

RECORDING_VERSION = 1
MOST_CHARACTERS = 200_000
"""Of one file or answer that is kept."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answered; `code` is None where it ran past its time."""

    code: int | None
    out: str
    err: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.code == 0


class Machine(Protocol):
    """What checks may ask."""

    def command(self, *words: str, timeout_s: float = 5.0) -> Answer | None:
        """Run a program that only reads; None if it is not installed."""

    def text(self, path: str) -> str | None:
        """Content of a file; None if it is not there or may not be read."""

    def entries(self, path: str) -> tuple[str, ...] | None:
        """Names in a folder, sorted; None if it is not there or may not be read."""

    def target(self, path: str) -> str | None:
        """Where a symbolic link leads, fully resolved; None if it is not there."""

    def variable(self, name: str) -> str | None:
        """An environment variable; None if it is not set."""

    def variables(self, *prefixes: str) -> Mapping[str, str]:
        """Environment variables whose names begin so."""

    def probe(self, name: str, timeout_s: float = 20.0) -> Mapping[str, Any] | None:
        """What `gpuscope.doctor.probes.<name>` prints as JSON, run in a process of its own so that
        a library that crashes or hangs costs one answer; None if it fails (see `probe_error`)."""

    def probe_error(self, name: str) -> str:
        """Why a probe gave nothing; "" if it did not fail."""

    def probe_hangs(self, name: str) -> bool:
        """Whether a probe gave nothing because it did not end in time."""


@dataclass
class Recording:
    """Answers of a machine, given again; what was never asked is as if it were not there."""

    commands: dict[str, Answer | None] = field(default_factory=dict)
    texts: dict[str, str | None] = field(default_factory=dict)
    folders: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    targets: dict[str, str | None] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    probes: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    probe_errors: dict[str, str] = field(default_factory=dict)
    probe_silence_s: dict[str, float] = field(default_factory=dict)

    def command(self, *words: str, timeout_s: float = 5.0) -> Answer | None:
        """As `Machine.command`."""
        return self.commands.get(" ".join(words))

    def text(self, path: str) -> str | None:
        """As `Machine.text`."""
        return self.texts.get(path)

    def entries(self, path: str) -> tuple[str, ...] | None:
        """As `Machine.entries`."""
        return self.folders.get(path)

    def target(self, path: str) -> str | None:
        """As `Machine.target`."""
        return self.targets.get(path)

    def variable(self, name: str) -> str | None:
        """As `Machine.variable`."""
        return self.environment.get(name)

    def variables(self, *prefixes: str) -> Mapping[str, str]:
        """As `Machine.variables`."""
        return {k: v for k, v in sorted(self.environment.items()) if k.startswith(prefixes)}

    def probe(self, name: str, timeout_s: float = 20.0) -> Mapping[str, Any] | None:
        """As `Machine.probe`."""
        return self.probes.get(name)

    def probe_error(self, name: str) -> str:
        """As `Machine.probe_error`."""
        return self.probe_errors.get(name, "")

    def probe_hangs(self, name: str) -> bool:
        """As `Machine.probe_hangs`."""
        return name in self.probe_silence_s

    def to_json(self) -> str:
        """The recording as text; answers sorted by what was asked, each as it came."""
        answers = {name: dict(sorted(each.items())) for name, each in asdict(self).items()}
        return json.dumps(
            {"schema": "gpuscope.machine", "version": RECORDING_VERSION, **answers},
            ensure_ascii=False,
            indent=1,
        )

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read a recording.

        Raises:
            InputFileError: the file is missing, no recording, or newer than this program.
        """
        from gpuscope.outside.plain import file_bytes, json_of

        try:
            data = json_of(file_bytes(path))
        except (OSError, ValueError) as error:
            raise InputFileError(
                Text("Cannot read the machine '{path}'.", path=path),
                str(error),
                Text("Write one: doctor --record FILE"),
            ) from None
        if not isinstance(data, dict) or data.get("schema") != "gpuscope.machine":
            raise InputFileError(
                Text("'{path}' is no recorded machine.", path=path),
                "",
                Text("Write one: doctor --record FILE"),
            )
        if not isinstance(data.get("version"), int):
            raise InputFileError(
                Text("'{path}' is damaged.", path=path), "", Text("Write one: doctor --record FILE")
            )
        if data["version"] > RECORDING_VERSION:
            raise InputFileError(
                Text("'{path}' was recorded by a newer gpuscope.", path=path), "", UPDATE
            )
        from gpuscope.document.typed import MisfitError, typed

        missing = next((name for name in _NEEDED if name not in data), None)
        try:
            if missing is not None:
                raise MisfitError(missing, Text("missing"))
            return typed(cls, {name: data[name] for name in data if name in _NAMES})
        except MisfitError as error:
            raise InputFileError(
                Text("'{path}' is damaged.", path=path),
                Text("{problem}.", problem=error.args[0]),
                Text("Write one: doctor --record FILE"),
            ) from None


_NAMES = tuple(each.name for each in fields(Recording))
_NEEDED = _NAMES[:-1]
"""Before `probe_silence_s` was recorded there were the others."""

KEPT_VARIABLES = (
    "CUDA",
    "NVIDIA",
    "NCCL",
    "TORCH",
    "PYTORCH",
    "OMP",
    "MKL",
    "HIP",
    "ROCR",
    "ROCM",
    "HSA",
    "ZE_",
    "ONEAPI",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PATH",
    "KMP",
    "GOMP",
    "UCX",
    "FI_",
    "SLURM",
    "KUBERNETES",
    "container",
    "MALLOC",
    "TRITON",
    "XLA",
    "WSL",
    "CONDA",
    "VIRTUAL_ENV",
    "AMD_",
    "CUBLAS",
    "PYTHON",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_",
    "HF_",
    "TOKENIZERS",
)
"""Beginnings of the variables that a recording keeps: none that holds a secret by its purpose."""

_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD")


def _probe_words(name: str) -> tuple[str, ...]:
    options = ("-X", "faulthandler")
    return tuple(children.python(f"gpuscope.doctor.probes.{name}", options=options))


class LiveMachine:
    """The machine that this runs on; `recording` holds every answer that it gave.

    Args:
        environment: its variables.
        tell: called with each line that a probe writes to its standard error.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, tell: Tell | None = None
    ) -> None:
        kept = {
            name: value
            for name, value in environment.items()
            if name.startswith(KEPT_VARIABLES) and not any(s in name.upper() for s in _SECRET)
        }
        self.recording = Recording(environment=kept)
        self._ahead: dict[str, Future[Answer]] = {}
        self._processes = Processes()
        self._tell = tell

    def stop(self) -> None:
        """End what still runs for it; it answers no more than it knows."""
        self._processes.stop()

    def ask_ahead(self, *probes: str, timeout_s: float = 60.0) -> None:
        """Start probes now, all at the same time; `probe` then waits for its own.

        Args:
            probes: their names.
            timeout_s: seconds after which each is ended (a first import from a cold disk is slow).
        """
        new = [name for name in probes if name not in self._ahead]
        if not new:
            return
        pool = ThreadPoolExecutor(len(new), thread_name_prefix="probe")
        for name in new:
            self._ahead[name] = pool.submit(self._run, _probe_words(name), timeout_s, probe=True)
        pool.shutdown(wait=False)

    def command(self, *words: str, timeout_s: float = 5.0) -> Answer | None:
        """As `Machine.command`."""
        known = self.recording.commands
        line = " ".join(words)
        if line not in known:
            known[line] = self._run(words, timeout_s) if shutil.which(words[0]) else None
        return known[line]

    def text(self, path: str) -> str | None:
        """As `Machine.text`."""
        known = self.recording.texts
        if path not in known:
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    known[path] = file.read(MOST_CHARACTERS)
            except OSError:
                known[path] = None
        return known[path]

    def entries(self, path: str) -> tuple[str, ...] | None:
        """As `Machine.entries`."""
        known = self.recording.folders
        if path not in known:
            try:
                known[path] = tuple(sorted(os.listdir(path)))
            except OSError:
                known[path] = None
        return known[path]

    def target(self, path: str) -> str | None:
        """As `Machine.target`."""
        known = self.recording.targets
        if path not in known:
            known[path] = os.path.realpath(path) if os.path.lexists(path) else None
        return known[path]

    def variable(self, name: str) -> str | None:
        """As `Machine.variable`."""
        return self.recording.variable(name)

    def variables(self, *prefixes: str) -> Mapping[str, str]:
        """As `Machine.variables`."""
        return self.recording.variables(*prefixes)

    def probe(self, name: str, timeout_s: float = 20.0) -> Mapping[str, Any] | None:
        """As `Machine.probe`."""
        known = self.recording.probes
        if name not in known:
            ahead = self._ahead.get(name)
            answer = (
                ahead.result() if ahead else self._run(_probe_words(name), timeout_s, probe=True)
            )
            known[name] = self._parsed(name, answer, timeout_s)
        return known[name]

    def probe_error(self, name: str) -> str:
        """As `Machine.probe_error`."""
        return self.recording.probe_error(name)

    def probe_hangs(self, name: str) -> bool:
        """As `Machine.probe_hangs`."""
        return self.recording.probe_hangs(name)

    def _parsed(self, name: str, answer: Answer, timeout_s: float) -> Mapping[str, Any] | None:
        errors = self.recording.probe_errors
        if answer.code is None:
            errors[name] = f"no answer within {timeout_s:.0f} s"
            self.recording.probe_silence_s[name] = timeout_s
            return None
        last = answer.out.strip().rpartition("\n")[2]
        try:
            found = json.loads(last)
        except ValueError:
            errors[name] = _last_words(answer)
            return None
        if not isinstance(found, dict):
            errors[name] = "its answer is not an object"
            return None
        return found

    def _run(self, words: tuple[str, ...], timeout_s: float, *, probe: bool = False) -> Answer:
        ended = (
            self._processes.run(words, timeout_s, self._tell, children.environment())
            if probe
            else self._processes.run(words, timeout_s)
        )
        return Answer(ended.code, ended.out[:MOST_CHARACTERS], ended.err[:MOST_CHARACTERS])


def _last_words(answer: Answer) -> str:
    """Why a probe gave nothing: where the interpreter crashed, else its last line."""
    lines = (answer.err.strip() or answer.out.strip()).splitlines()
    for i, line in enumerate(lines):
        if line.startswith("Fatal Python error"):
            inner = next((x.strip() for x in lines[i:] if x.strip().startswith("File ")), "")
            return f"{line} {inner}".strip()[:500]
    return lines[-1][:500] if lines else f"exit code {answer.code}"
