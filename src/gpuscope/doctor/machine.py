"""The machine as checks see it: commands, files, folders, variables, and what libraries tell.

A check reads nothing by itself: it asks a `Machine`. `LiveMachine` asks the real one and remembers
every answer; `Recording` gives the same answers again, elsewhere. So a healthy or an ill machine
that was recorded once (`gpuscope doctor --record FILE`) tests every check without its hardware.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gpuscope.doctor.processes import Processes, Tell
from gpuscope.errors import InputFileError

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

    def to_json(self) -> str:
        """The recording as text; answers sorted by what was asked, each as it came."""
        answers = {name: dict(sorted(each.items())) for name, each in asdict(self).items()}
        return json.dumps(
            {"schema": "gpuscope.machine", "version": RECORDING_VERSION, **answers},
            ensure_ascii=False, indent=1,
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read a recording.

        Raises:
            InputFileError: the file is missing, no recording, or newer than this program.
        """
        try:
            data = json.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputFileError(
                f"Cannot read the machine '{path}'.", str(error), "Write one: doctor --record FILE"
            ) from None
        if not isinstance(data, dict) or data.get("schema") != "gpuscope.machine":
            raise InputFileError(
                f"'{path}' is no recorded machine.", "", "Write one: doctor --record FILE"
            )
        if not isinstance(data.get("version"), int):
            raise InputFileError(f"'{path}' is damaged.", "", "Write one: doctor --record FILE")
        if data["version"] > RECORDING_VERSION:
            raise InputFileError(
                f"'{path}' was recorded by a newer gpuscope.", "", "Update: pip install -U gpuscope"
            )
        try:
            return cls(
                commands={k: Answer(**v) if v else None for k, v in data["commands"].items()},
                folders={k: None if v is None else tuple(v) for k, v in data["folders"].items()},
                **{name: dict(data[name]) for name in _PLAIN},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"
            raise InputFileError(
                f"'{path}' is damaged.", why, "Write one: doctor --record FILE"
            ) from None


_PLAIN = ("texts", "targets", "environment", "probes", "probe_errors")

KEPT_VARIABLES = (
    "CUDA", "NVIDIA", "NCCL", "TORCH", "PYTORCH", "OMP", "MKL", "HIP", "ROCR", "ROCM", "HSA",
    "ZE_", "ONEAPI", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "KMP", "GOMP", "UCX", "FI_", "SLURM",
    "KUBERNETES", "container", "MALLOC", "TRITON", "XLA", "WSL", "CONDA", "VIRTUAL_ENV",
    "AMD_", "CUBLAS", "PYTHON", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "HF_", "TOKENIZERS",
)  # fmt: skip
"""Beginnings of the variables that a recording keeps: none that holds a secret by its purpose."""

_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD")


def _probe_words(name: str) -> tuple[str, ...]:
    # -P: a folder called torch where the user happens to be must not be taken for PyTorch.
    return (sys.executable, "-P", "-X", "faulthandler", "-m", f"gpuscope.doctor.probes.{name}")


def _probe_environment() -> dict[str, str]:
    """Ours, with the folder that holds this package last on Python's path: -P may have lost it."""
    known = os.environ.get("PYTHONPATH")
    own = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([known, own] if known else [own])}


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

    def _parsed(self, name: str, answer: Answer, timeout_s: float) -> Mapping[str, Any] | None:
        errors = self.recording.probe_errors
        if answer.code is None:
            errors[name] = f"no answer within {timeout_s:.0f} s"
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
            self._processes.run(words, timeout_s, self._tell, _probe_environment())
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
