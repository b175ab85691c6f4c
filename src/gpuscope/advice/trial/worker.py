"""A process of its own that runs one variant: `python -m gpuscope.advice.trial.worker IN OUT DIR`.

It is told a `Job` over one pipe and answers over another; what the user's code prints goes to the
process' own output. Answers: `say` (progress), `ready`, the results of commands, and `failed`,
after which it ends. When the other end is gone it ends too. A script or a build leaves nothing
behind unless that is allowed (`gpuscope.program.guard`); the folder is for what it writes where
there is no better way.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

from gpuscope.advice.trial.channel import Channel
from gpuscope.advice.trial.job import Job
from gpuscope.advice.trial.rebuilding import COMPILING_STEPS, changed, observed
from gpuscope.errors import RefusedError

__all__ = ["main"]

FIRST_STEPS = 3
"""Steps before the warm-up's time counts: compilation and the recording of CUDA graphs happen in
them and may last minutes."""

TIMED_STEPS = 3
"""Steps after the warm-up whose least time says how many steps a block must have."""

RANKS_WARM_UP = 12
"""Steps that each of several ranks warms up with: they must take the same number."""


_scripts: list[Any] = []
"""The script that runs in this process, once it is prepared."""


def main() -> None:
    """Do what the lines on the pipe say until it ends."""
    reading, writing, scratch = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys.argv[1:] = []
    for descriptor in (reading, writing):
        os.set_inheritable(descriptor, False)
    channel = Channel(reading, writing)
    message = channel.receive()
    if message is None:
        return
    job = Job.of_line(message["job"])
    try:
        guarded = not job.allow_writes and _is_users(job)
        way = _keep_files(job, channel, scratch) if guarded else ""
        if job.processes > 1 and job.rank == 0:
            channel.send({"held": {"way": way}})
        _begin(job, channel)
    except BaseException as error:
        _fail(channel, error)
    _end()


def _is_users(job: Job) -> bool:
    """Whether it runs code in a file of the user's."""
    return job.target.kind == "script" or ".py:" in job.target.name


def _keep_files(job: Job, channel: Channel, scratch: str) -> str:
    """Have the user's code leave nothing behind, from before anything of it runs.

    Ranks of one job share a copy, the first one's: they meet in files, and work together through
    the system (shared memory, handles of the device), which processes that are shut off from each
    other may not.

    Returns:
        Which way holds.
    """
    from gpuscope.advice.trial.device_sharing import Sharing
    from gpuscope.program.guard import enter
    from gpuscope.program.guard.places import caches

    def refused(refusal: RefusedError) -> None:
        # What a script does once its loader has run out is never reached if that begins again.
        short = [subject.too_short() for subject in _scripts]
        _fail(channel, short[0] if short and short[0].passes else refusal.error)

    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.makedirs(os.environ.get(variable, scratch), exist_ok=True)
    real = (*caches(), *Sharing(job.share).files)
    alone = job.processes == 1
    held = enter(
        job.target.name, scratch, real, alone=alone, beside=job.beside, network=True, refuse=refused
    )
    return held.way


def _end() -> None:
    """End with all that was started; data-loader workers that stand still would not end alone."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _begin(job: Job, channel: Channel) -> None:
    """Seed, resolve, change, build; then serve."""
    channel.send({"say": "importing"})
    import torch  # noqa: F401 - seeded before anything is built

    from gpuscope.advice.trial.memory_limit import limit_memory
    from gpuscope.advice.trial.seeding import seed_all
    from gpuscope.measurement.accelerator import choose_accelerator

    accelerator = choose_accelerator(_device(job))
    seed_all(job.seed)
    if job.target.kind == "script":
        _serve_script(job, channel, accelerator)
        return
    build = _build(job, accelerator)
    limit_memory(job.memory_bytes, accelerator)
    from gpuscope.advice.trial.rebuilding import Rebuilding

    rebuilding = Rebuilding(job, build, accelerator)
    if job.observe:
        _serve_observations(channel, rebuilding)
        return
    seed_all(job.seed)
    channel.send({"say": "building"})
    from gpuscope.advice.trial.workloads import BuildSubject

    subject = BuildSubject(build, changed(job)[0], accelerator)
    _Timing(channel, accelerator, subject, job, rebuilding).serve()


def _device(job: Job) -> str | None:
    """Each rank of a distributed workload has the device of its own number."""
    if job.processes > 1 and job.device in (None, "cuda", "gpu"):
        return f"gpu:{job.rank}"
    return job.device


def _build(job: Job, accelerator: Any) -> Any:
    from dataclasses import replace

    from gpuscope.program.workload import WorkloadOptions, resolve

    options = WorkloadOptions(**job.target.options)  # type: ignore[arg-type]
    if not accelerator.is_gpu and ".py" not in job.target.name:
        options = replace(options, device="cpu")
    return resolve(job.target.name, options).build


def _serve_script(job: Job, channel: Channel, accelerator: Any) -> None:
    """The script in the main thread, the commands in another."""
    from gpuscope.advice.trial.memory_limit import limit_memory
    from gpuscope.advice.trial.workloads import ScriptSubject

    live, watching = changed(job)
    subject = ScriptSubject(
        job.target.name,
        job.target.arguments,
        live,
        accelerator,
        module=bool(job.target.options.get("module")),
        last_pass=job.last_pass,
    )
    _scripts.append(subject)
    limit_memory(job.memory_bytes, accelerator)

    def serve() -> None:
        try:
            subject.first_boundary()
            if watching is not None:
                channel.send({"say": "observing"})
                channel.send({"observed": observed(watching, subject, job)})
            else:
                _Timing(channel, accelerator, subject, job).serve()
        except BaseException as error:
            _fail(channel, error)
        _end()

    channel.send({"say": "building"})
    thread = threading.Thread(target=serve, name="commands", daemon=True)
    thread.start()
    subject.run()
    thread.join()


def _serve_observations(channel: Channel, rebuilding: Any) -> None:
    """The first one as the job says; then what is asked."""
    channel.send({"say": "observing"})
    channel.send({"observed": rebuilding.observe({})})
    while True:
        message = channel.receive()
        if message is None or message["do"] != "observe":
            return
        channel.send({"observed": rebuilding.observe(message)})


class _Timing:
    """Warmed up, then told block by block how many steps to run."""

    def __init__(
        self, channel: Channel, accelerator: Any, subject: Any, job: Job, rebuilding: Any = None
    ) -> None:
        from gpuscope.advice.trial.device_sharing import Sharing
        from gpuscope.advice.trial.pausing import Pausing

        self._channel = channel
        self._accelerator = accelerator
        self._subject = subject
        self._processes = job.processes
        self._rebuilding = rebuilding
        self._sharing = Sharing(job.share)
        self._pausing = Pausing()

    def _step(self) -> float:
        """One step of the warm-up, while nobody else times."""
        with self._sharing.using():
            seconds: float = self._subject.advance(1)
        return seconds

    def _warm_up(self) -> dict[str, Any]:
        """Until the time has settled; of several ranks, a fixed number of steps."""
        from gpuscope.measurement.warmup import warm_up

        for number in range(FIRST_STEPS):
            # The first two may compile for minutes: nobody is made to wait for that.
            self._subject.advance(1) if number < COMPILING_STEPS else self._step()
        if self._processes > 1:
            times = [self._step() for _ in range(RANKS_WARM_UP)]
            return {"step_s": min(times[RANKS_WARM_UP // 2 :])}
        warm_up(self._step, self._accelerator)
        # A step's time holds no waiting for others: that of one that is alone.
        with self._sharing.using():
            return {"step_s": min(self._subject.advance(1) for _ in range(TIMED_STEPS))}

    def serve(self) -> None:
        """Warm up, say so, and obey."""
        self._channel.send({"say": "warming up"})
        ready = self._warm_up()
        self._accelerator.reset_peaks()
        self._pausing.pause()
        ready |= {"device": self._accelerator.name, "kind": self._accelerator.kind}
        ready["at"] = time.time()  # nobody may be listening yet
        self._channel.send({"ready": ready})
        while True:
            message = self._channel.receive()
            if message is None or message["do"] == "quit":
                return
            self._channel.send(getattr(self, f"_{message['do']}")(message))

    def _time(self, message: dict[str, Any]) -> dict[str, Any]:
        steps = int(message["steps"])
        self._pausing.resume()
        if message["lead"]:
            self._subject.advance(int(message["lead"]))
        before_s = self._subject.epochs.waited_s
        seconds = self._subject.advance(steps)
        self._pausing.pause()
        loader_s = self._subject.epochs.waited_s - before_s
        return {"seconds": seconds, "steps": steps, "loader_s": loader_s}

    def _observe(self, message: dict[str, Any]) -> dict[str, Any]:
        """Give up what was timed, and build it again in this process: what is compiled is so."""
        self._pausing.resume()
        self._subject.drop()
        return {"observed": self._rebuilding.observe(message)}

    def _memory(self, message: dict[str, Any]) -> dict[str, Any]:
        return {
            "peak_bytes": self._accelerator.peak_allocated_bytes(),
            "reserved_bytes": self._accelerator.peak_reserved_bytes(),
            "ran_out": self._subject.epochs.lengths,
        }

    def _energy(self, message: dict[str, Any]) -> dict[str, Any]:
        """Joules of a step over a window that is long enough for the counter."""
        from gpuscope.measurement.sensors import open_sensor
        from gpuscope.measurement.sensors.energy import EnergyWindow

        sensor = open_sensor(self._accelerator.index) if self._accelerator.is_gpu else None
        if sensor is None and self._processes == 1:
            return {"joules_per_step": None}
        steps = int(message["steps"])
        self._pausing.resume()
        with EnergyWindow(sensor) as window:
            self._subject.advance(steps)
        self._pausing.pause()
        if sensor is not None:
            sensor.close()
        span = window.span
        return {"joules_per_step": None if span is None else span.energy_j / steps}


def _fail(channel: Channel, error: BaseException) -> None:
    """Say what went wrong and end; children go with the process group."""
    from gpuscope.advice.trial.failures import failure_message

    channel.send({"failed": failure_message(error)})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()
