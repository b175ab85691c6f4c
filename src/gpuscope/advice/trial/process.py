"""The controller's side of a variant: its processes, what they answer, and their end."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from gpuscope import children
from gpuscope.advice.trial.channel import Channel
from gpuscope.advice.trial.failures import TrialFailure
from gpuscope.advice.trial.job import Job
from gpuscope.document.quantities import Number
from gpuscope.document.text import Text, sentences

__all__ = ["Variant"]

Say = Callable[[str], None]
Message = dict[str, Any]

_MODULE = "gpuscope.advice.trial.worker"
_LINES = 200

_COPY_S = 60.0
"""The first of several ranks has its copy of the files in less, before it imports anything."""

SHORT_STEP_S = 0.1
"""A block of steps shorter than this is preceded by a step that is not timed, so that what the
other process left in caches does not count."""


@dataclass(slots=True)
class _Process:
    process: subprocess.Popen[bytes]
    channel: Channel
    log: Path
    scratch: Path


@dataclass(slots=True)
class Variant:
    """One variant of a workload, in one process (several of a distributed one).

    Every process leads a group of its own, so that what it started (data-loader workers, compile
    workers) ends with it.

    Attributes:
        job: what it runs.
        folder: where its output goes.
        environment: of its processes.
        say: told what it is doing.
        began, began_at: when its processes were started, by `time.perf_counter` and `time.time`.
        ready_s: from then to the end of its warm-up; 0 until that was waited for.
        spent: what was timed is gone.
        waits_s: how long a step waited for data loaders, by block that was timed.
        ran_out: batches after which loaders ran out and began again, as of the last `memory`.
    """

    job: Job
    folder: Path
    environment: Mapping[str, str]
    say: Say = field(default=lambda text: None)
    began: float = 0.0
    began_at: float = 0.0
    ready_s: float = 0.0
    step_s: float = 0.0
    device: str = ""
    kind: str = ""
    spent: bool = False
    waits_s: list[float] = field(default_factory=list)
    ran_out: tuple[int, ...] = ()
    _processes: list[_Process] = field(default_factory=list)
    _broken: bool = False

    def start(self) -> None:
        """Start its processes and tell them their job.

        Raises:
            TrialFailure: the first of several failed at once.
        """
        self.began, self.began_at = time.perf_counter(), time.time()
        environment = children.environment(self.environment)
        if self.job.processes > 1:
            environment |= _rendezvous(self.job.processes)
        self._start(self.job, environment)
        if self.job.processes > 1:
            beside = self._copy_of_first()
            for rank in range(1, self.job.processes):
                self._start(replace(self.job, rank=rank, beside=beside), environment)

    def _copy_of_first(self) -> int:
        """The first rank, where it has a private copy of the files; 0 where it has none.

        Raises:
            TrialFailure: it failed before.
        """
        first = self._processes[0]
        held = self._answer(first, "held", time.perf_counter() + _COPY_S)
        return first.process.pid if held["way"] == "overlay" else 0

    def _start(self, job: Job, environment: dict[str, str]) -> None:
        if job.processes > 1:
            environment = environment | {"RANK": str(job.rank), "LOCAL_RANK": str(job.rank)}
        here, there = os.pipe(), os.pipe()  # commands, answers
        log = self.folder / f"{len(list(self.folder.iterdir()))}-{os.getpid()}.log"
        scratch = log.with_suffix(".scratch")
        scratch.mkdir()
        with log.open("wb") as output:
            process = subprocess.Popen(
                children.python(_MODULE, str(here[0]), str(there[1]), str(scratch)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=(here[0], there[1]),
                start_new_session=True,
            )
        os.close(here[0])
        os.close(there[1])
        channel = Channel(there[0], here[1])
        self._processes.append(_Process(process, channel, log, scratch))
        channel.send({"job": job.line()})

    def wait_ready(self, until: float) -> None:
        """Wait for its warm-up.

        Args:
            until: on the clock of `time.perf_counter`.

        Raises:
            TrialFailure: it failed, or was not ready in time.
        """
        answers = [self._answer(each, "ready", until) for each in self._processes]
        at = max(float(each["at"]) for each in answers)
        self.ready_s = max(at - self.began_at, 1e-9)
        self.step_s = max(float(each["step_s"]) for each in answers)
        self.device, self.kind = str(answers[0]["device"]), str(answers[0]["kind"])

    def observed(self, until: float) -> list[Message]:
        """What each process observed, rank by rank.

        Raises:
            TrialFailure: it failed, or was not ready in time.
        """
        return [self._answer(each, "observed", until) for each in self._processes]

    def observe(self, request: Message, until: float) -> list[Message]:
        """Build it again in its processes, and observe that; nothing can be timed afterwards.

        Args:
            request: "steps", "seed", "perturb", "noise".
            until: on the clock of `time.perf_counter`.

        Raises:
            TrialFailure: it failed, or was not ready in time.
        """
        self.spent = True
        self._send({"do": "observe", **request})
        return self.observed(until)

    def time(self, steps: int) -> float:
        """Seconds of a step, over a block of so many; of several processes, the slowest one's.

        Raises:
            TrialFailure: a step failed or hung.
        """
        expected = max(self.step_s, 1e-6) * (steps + 1)
        until = time.perf_counter() + 30.0 + 20.0 * expected
        lead = int(self.step_s < SHORT_STEP_S)
        self._send({"do": "time", "steps": steps, "lead": lead})
        answers = [self._whole_answer(each, until) for each in self._processes]
        self.waits_s.append(max(float(each["loader_s"]) for each in answers) / steps)
        return max(float(each["seconds"]) for each in answers) / steps

    @property
    def loader_s(self) -> float | None:
        """How long a step waits for data loaders, the median block; None without any."""
        middle = median(self.waits_s) if self.waits_s else 0.0
        return middle or None

    def memory(self) -> tuple[int | None, int | None]:
        """Most bytes allocated and reserved on the fullest device since the warm-up."""
        until = time.perf_counter() + 30.0
        self._send({"do": "memory"})
        answers = [self._whole_answer(each, until) for each in self._processes]
        peaks = [each["peak_bytes"] for each in answers]
        reserved = [each["reserved_bytes"] for each in answers]
        self.ran_out = tuple(dict.fromkeys(n for each in answers for n in each["ran_out"]))
        return _most(peaks), _most(reserved)

    def energy(self, seconds: float) -> float | None:
        """Joules of a step on the first device; None without a sensor."""
        until = time.perf_counter() + 60.0 + 20 * seconds
        steps = math.ceil(seconds / max(self.step_s, 1e-6))
        answers = self._ask({"do": "energy", "steps": steps}, "joules_per_step", until)
        return None if answers[0] is None else float(answers[0])

    @property
    def started(self) -> bool:
        """Whether it has processes."""
        return bool(self._processes)

    @property
    def alive(self) -> bool:
        """Whether all of its processes run and have answered all that they were asked."""
        return (
            not self._broken
            and not self.spent
            and bool(self._processes)
            and all(each.process.poll() is None for each in self._processes)
        )

    def close(self) -> None:
        """End its processes and all that they started."""
        for each in self._processes:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait()
            each.channel.close()
            shutil.rmtree(each.scratch, ignore_errors=True)
        self._processes.clear()

    # -- answers -----------------------------------------------------------------------------------

    def _send(self, message: Message) -> None:
        for each in self._processes:
            each.channel.send(message)

    def _ask(self, message: Message, key: str, until: float) -> list[Any]:
        self._send(message)
        return [self._whole_answer(each, until)[key] for each in self._processes]

    def _answer(self, process: _Process, key: str, until: float) -> Message:
        while True:
            message = self._whole_answer(process, until)
            if key in message:
                found: Message = message[key]
                return found

    def _whole_answer(self, process: _Process, until: float) -> Message:
        while True:
            try:
                message = process.channel.receive(max(0.0, until - time.perf_counter()))
            except TimeoutError:
                self._broken = True
                raise self._hung() from None
            if message is None:
                self._broken = True
                raise self._died(process)
            if "failed" in message:
                self._broken = True
                raise TrialFailure.of_message(message["failed"])
            if "say" not in message:
                return message
            if process is self._processes[0]:
                self.say(str(message["say"]))

    def _hung(self) -> TrialFailure:
        seconds = time.perf_counter() - self.began
        return TrialFailure(
            "hung",
            Text(
                "It gave no answer after {seconds} s and was ended.", seconds=Number(seconds, ".0f")
            ),
            Text("The workload gave no answer after {seconds} s.", seconds=Number(seconds, ".0f")),
            Text("It may hang, or need longer to compile."),
            Text("Give more time, or a smaller workload."),
        )

    def _died(self, process: _Process) -> TrialFailure:
        code = process.process.wait()
        last = _last_line(process.log)
        how = Text("exit status {code}", code=code)
        if code == -signal.SIGKILL:
            how = Text("signal SIGKILL, perhaps for lack of memory")
        elif code < 0:
            how = Text("signal {name}", name=signal.Signals(-code).name)
        return TrialFailure(
            "crashed",
            sentences(Text("Its process ended ({how}).", how=how), last),
            Text("The workload's process ended ({how}).", how=how),
            last,
            Text("Make it run by itself first."),
        )


def _most(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _last_line(log: Path) -> str:
    """The last line that the process wrote that is not empty."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:]
    except OSError:
        return ""
    written = [line.strip() for line in lines if line.strip()]
    return written[-1][:300] if written else ""


def _rendezvous(processes: int) -> dict[str, str]:
    """Where ranks of one host meet (the variables that `torchrun` sets)."""
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
    }
