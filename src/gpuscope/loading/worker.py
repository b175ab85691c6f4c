"""A process that reads files for another: `python -m gpuscope.loading.worker`.

Why not `multiprocessing`: its children import the caller's script again where they do not fork,
which runs a user's unguarded script twice, and forking is unsafe under threads. Here a job comes in
as a line of JSON, and a reading goes out as a pickle whose columns are raw buffers beside it, so
that they are copied once. Both ends are this program; nothing else is ever unpickled.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import struct
import subprocess
import sys
from dataclasses import asdict
from typing import IO, Any

from gpuscope import children
from gpuscope.document.printable import behind_doors
from gpuscope.document.text import Text
from gpuscope.errors import GpuscopeError, InputFileError
from gpuscope.loading.job import Job, Reading, run_job

_LENGTH = struct.Struct("<Q")


class Worker:
    """A child process that does jobs one after another; a context manager.

    Args:
        program: what to run; this module by default.
    """

    def __init__(self, program: list[str] | None = None) -> None:
        self._process = subprocess.Popen(
            program or children.python("gpuscope.loading.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=children.environment(),
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def do(self, job: Job) -> Reading:
        """Have a job done.

        Raises:
            InputFileError: as the readers do; also when the process dies over the file (out of
                memory, say).
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
            self._process.stdin.flush()
            answer = _receive(self._process.stdout)
        except (OSError, EOFError) as error:
            code = self._process.wait()
            raise InputFileError(
                Text("{path} could not be read.", path=job.path),
                Text(
                    "The process that read it ended with {code}; perhaps the memory was too small.",
                    code=code,
                ),
                Text("Read fewer files at once: --workers 1"),
            ) from error
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Reading)
        return answer


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Do jobs until there are no more."""
    for line in requests:
        job = Job(**json.loads(line))
        try:
            answer: Reading | Exception = run_job(job, alone=True)
        except GpuscopeError as error:
            answer = InputFileError(error.what, error.why, error.next_step)
        except MemoryError:
            answer = InputFileError(
                Text("{path} does not fit in memory.", path=job.path),
                "",
                Text("Read fewer files: --workers 1"),
            )
        _send(answers, answer)


def _send(stream: IO[bytes], value: object) -> None:
    """One message: number of parts, their lengths, the pickle, its buffers."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(_picklable(value), protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    stream.write(_LENGTH.pack(len(parts)))
    for part in parts:
        stream.write(_LENGTH.pack(part.nbytes))
    for part in parts:
        stream.write(part)
    stream.flush()


def _picklable(value: object) -> object:
    """An error as its three sentences: its constructor takes these."""
    if isinstance(value, InputFileError):
        return ("error", value.what, value.why, value.next_step)
    return value


def _receive(stream: IO[bytes]) -> object:
    parts = _LENGTH.unpack(_exactly(stream, _LENGTH.size))[0]
    lengths = [_LENGTH.unpack(_exactly(stream, _LENGTH.size))[0] for _ in range(parts)]
    head, *buffers = [_exactly(stream, length) for length in lengths]
    value: Any = pickle.loads(head, buffers=buffers)
    if isinstance(value, tuple) and value[:1] == ("error",):
        return InputFileError(*value[1:])
    return value


def _exactly(stream: IO[bytes], count: int) -> bytearray:
    buffer = bytearray(count)
    view = memoryview(buffer)
    done = 0
    while done < count:
        got = stream.readinto(view[done:])  # type: ignore[attr-defined]
        if not got:
            raise EOFError
        done += got
    return buffer


if __name__ == "__main__":
    # Ctrl-C reaches the whole group; the parent says what is to be said, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What libraries print must not end up among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with behind_doors():
        serve(sys.stdin.buffer, answers)
