"""Who reads the files: this process, several local ones, or a Ray cluster. The result is equal."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InvalidValueError, MissingPackageError, UnknownNameError
from gpuscope.loading.job import Job, Reading, run_job

ENGINES: tuple[str, ...] = ("local", "ray")

SERIAL_BYTES = 4 << 20
"""Files that are smaller than this together are read here: starting a process takes longer."""

Progress = Callable[[int, int], None]


def run_jobs(
    jobs: Sequence[Job],
    *,
    engine: str = "local",
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Reading]:
    """Read files, several at a time, and return their readings in the same order.

    Args:
        jobs: what to read.
        engine: "local" or "ray".
        workers: how many at a time; None: as many as there are cores (or as Ray has).
        progress: called with (done, total) after each file.

    Raises:
        UnknownNameError: no such engine.
        InvalidValueError: fewer than one worker.
        MissingPackageError: Ray is not installed.
        InputFileError: the first file that cannot be read.
    """
    if engine not in ENGINES:
        raise UnknownNameError(
            Text("engine"), engine, ENGINES, Text("Type: --engine local or --engine ray")
        )
    if workers is not None and workers < 1:
        raise InvalidValueError(
            Text("{workers} workers cannot read anything.", workers=workers),
            "",
            Text("Type: --workers 1, or more."),
        )
    tell = progress or (lambda done, total: None)
    if engine == "ray":
        return _on_ray(jobs, workers, tell)
    count = min(len(jobs), workers or os.cpu_count() or 1)
    if count <= 1 or (workers is None and _size(jobs) < SERIAL_BYTES):
        readings = []
        for number, job in enumerate(jobs, start=1):
            readings.append(run_job(job, alone=workers == 1))
            tell(number, len(jobs))
        return readings
    return _in_processes(jobs, count, tell)


def _size(jobs: Sequence[Job]) -> int:
    return sum(os.path.getsize(job.path) for job in jobs if os.path.exists(job.path))


def _in_processes(jobs: Sequence[Job], count: int, tell: Progress) -> list[Reading]:
    """Share the jobs out to worker processes; a thread each waits for one of them."""
    from gpuscope.loading.worker import Worker

    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    workers = [Worker() for _ in range(count)]
    lock, done = threading.Lock(), 0

    def do(job: Job) -> Reading:
        nonlocal done
        worker = idle.get()
        try:
            reading = worker.do(job)
        finally:
            idle.put(worker)
        with lock:
            done += 1
            tell(done, len(jobs))
        return reading

    try:
        for worker in workers:
            idle.put(worker)
        with ThreadPoolExecutor(count) as threads:
            futures = [threads.submit(do, job) for job in jobs]
            try:
                return [future.result() for future in futures]
            except BaseException:
                for future in futures:
                    future.cancel()
                # A thread that waits for its worker is freed by the worker's end.
                for worker in workers:
                    worker.close()
                raise
    finally:
        for worker in workers:
            worker.close()


def _on_ray(jobs: Sequence[Job], workers: int | None, tell: Progress) -> list[Reading]:
    """Read on a Ray cluster: a running one where there is one, else one on this machine.

    The files must be readable under the same path on every node. An error comes back as its three
    sentences, so that it reads the same as a local one.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingPackageError("ray", Text("--engine ray"), "ray") from error
    if not ray.is_initialized():
        # Ray itself joins the cluster that RAY_ADDRESS names; the number of its CPUs is its own.
        own = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": workers}
        ray.init(log_to_driver=False, include_dashboard=False, **own)
    task = ray.remote(_ray_task)
    total, readings = len(jobs), [None] * len(jobs)
    waiting: dict[Any, int] = {}
    todo: Iterator[int] = iter(range(total))
    # A window of jobs, so that the results of thousands of ranks do not pile up in the store.
    window = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
    done = 0
    while done < total:
        while len(waiting) < window and (number := next(todo, None)) is not None:
            waiting[task.remote(jobs[number])] = number
        ready, _ = ray.wait(list(waiting), num_returns=1)
        number = waiting.pop(ready[0])
        readings[number] = _answer(ray.get(ready[0]))
        done += 1
        tell(done, total)
    return readings  # type: ignore[return-value]


def _ray_task(job: Job) -> Reading | tuple[type[GpuscopeError], str, str, str]:
    try:
        return run_job(job, alone=True)
    except GpuscopeError as error:
        return type(error), error.what, error.why, error.next_step


def _answer(answer: Any) -> Any:
    if isinstance(answer, tuple):
        from gpuscope.errors import InputFileError

        raise InputFileError(*answer[1:])
    return answer
