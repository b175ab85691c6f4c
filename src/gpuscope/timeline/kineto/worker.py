"""A process beside the main one that turns chunks of events into columns.

It is started by `parallel` with a file descriptor of shared memory. Each order on its standard
input names a slot of that memory, which holds a chunk; the columns are written over the chunk, and
the answer says how many bytes they are. It ends when its input does.
"""

from __future__ import annotations

import gc
import mmap
import os
import signal
import struct
import sys
from typing import BinaryIO

from gpuscope.timeline.kineto.decode import typed
from gpuscope.timeline.kineto.parts import packed, part_of

ORDER = struct.Struct("<qq?")
"""Where the chunk begins in the shared memory, how long it is, whether gpuscope wrote the file."""

ANSWER = struct.Struct("<q")
"""How long the columns are, or one of the words below."""

READY, CLOSER_LOOK = -2, -1
"""The process has started; the chunk does not parse as a whole (or its columns have no room)."""


def serve(orders: BinaryIO, answers: BinaryIO, memory: mmap.mmap, slot_bytes: int) -> None:
    """Answer orders until there are no more."""
    answers.write(ANSWER.pack(READY))
    answers.flush()
    while len(order := orders.read(ORDER.size)) == ORDER.size:
        begin, length, is_own = ORDER.unpack(order)
        found = _columns(memory, begin, length, is_own)
        if found is None or len(found) > slot_bytes:
            answers.write(ANSWER.pack(CLOSER_LOOK))
        else:
            memory[begin : begin + len(found)] = found
            answers.write(ANSWER.pack(len(found)))
        answers.flush()


def _columns(memory: mmap.mmap, begin: int, length: int, is_own: bool) -> bytes | None:
    with memoryview(memory) as whole:
        parsed = typed(bytes(whole[begin : begin + length]))
    return None if parsed is None else packed(part_of(parsed, is_own=is_own))


def main() -> None:
    """Serve on standard input and output; the arguments are the descriptor and a slot's size."""
    descriptor, slot_bytes = int(sys.argv[-2]), int(sys.argv[-1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends this one
    gc.disable()  # the many short-lived objects have no cycles
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a library may print must not get between the answers
        try:
            serve(sys.stdin.buffer, answers, mmap.mmap(descriptor, 0), slot_bytes)
        except BrokenPipeError:
            os._exit(1)  # nobody listens any more


if __name__ == "__main__":
    main()
