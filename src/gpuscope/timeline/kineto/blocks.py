"""The bytes of a trace file in blocks, uncompressed on a second thread, as far as they go."""

from __future__ import annotations

import os
import queue
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError
from gpuscope.outside import limits

BLOCK_BYTES = 8 << 20
"""Uncompressed bytes at a time: large enough to hide the cost a block, small enough to bound
memory (a few blocks are alive at once)."""

_INPUT_BYTES = 1 << 20
_SMALL_STEP = 256

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Blocks:
    """Iterates over a file's uncompressed bytes.

    Attributes:
        cut_off: the compressed stream ended too early or is damaged; known once iterated.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut_off = False
        self._nbytes = 0
        self._most = 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield blocks of about `BLOCK_BYTES`, one read ahead.

        Raises:
            InputFileError: the file cannot be opened or read.
        """
        ready: queue.Queue[bytes | BaseException | None] = queue.Queue(maxsize=2)
        stop = threading.Event()
        thread = threading.Thread(target=self._produce, args=(ready, stop), daemon=True)
        thread.start()
        try:
            while True:
                block = ready.get()
                if block is None:
                    return
                if isinstance(block, BaseException):
                    raise block
                yield block
        finally:
            stop.set()
            while thread.is_alive():
                try:
                    ready.get(timeout=0.01)
                except queue.Empty:
                    continue
            thread.join()

    def _produce(self, ready: queue.Queue[Any], stop: threading.Event) -> None:
        try:
            for block in self._read():
                if stop.is_set():
                    break
                ready.put(block)
        except OSError as error:
            ready.put(
                InputFileError(
                    Text("{path} cannot be read.", path=self.path),
                    f"{error.strerror or error}.",
                    Text("Check the path and its permissions."),
                )
            )
        except BaseException as error:
            ready.put(error)
        ready.put(None)

    def _read(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            head = file.read(4)
            file.seek(0)
            self._nbytes = os.fstat(file.fileno()).st_size
            self._most = limits.unpacked_bytes(self._nbytes)
            if head.startswith(_GZIP):
                yield from self._counted(self._gzip(file))
            elif head.startswith(_ZSTD):
                yield from self._counted(self._zstd(file))
            else:
                while block := file.read(BLOCK_BYTES):
                    yield block

    def _counted(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """Blocks of a compressed file, as many as its size allows.

        Raises:
            InputFileError: it unpacks to more.
        """
        left = self._most
        for block in blocks:
            left -= len(block)
            if left < 0:
                raise limits.unpacks_too_far(self.path, self._most)
            yield block

    def _gzip(self, file: BinaryIO) -> Iterator[bytes]:
        """All members of a gzip file; what lies before the damage where there is one."""
        new, broken = _inflater()
        member, data = new(), file.read(_INPUT_BYTES)
        begin, produced = 0, 0  # of the member: its place in the file, and bytes it gave so far
        members, most = 0, limits.members(self._nbytes)
        try:
            block = b""
            while data or len(block) == BLOCK_BYTES:
                block = member.decompress(data, BLOCK_BYTES)
                produced += len(block)
                if block:
                    yield block
                data = member.unconsumed_tail or (b"" if member.eof else file.read(_INPUT_BYTES))
                if member.eof:
                    begin, produced = file.tell() - len(member.unused_data), 0
                    data = member.unused_data or file.read(_INPUT_BYTES)
                    if not data.startswith(_GZIP[: len(data)]):
                        return  # padding or something else after the end
                    member = new() if data else member
                    members += 1
                    if members > most:
                        raise limits.holds_too_many(self.path, Text("compressed parts"), most)
        except broken:
            self.cut_off = True
            yield from _salvaged(file, begin, produced)
            return
        self.cut_off = not member.eof

    def _zstd(self, file: BinaryIO) -> Iterator[bytes]:
        import zstandard

        window = int(min(1 << 31, limits.WINDOW_BYTES * limits.factor()))
        try:
            reader = zstandard.ZstdDecompressor(max_window_size=window).stream_reader(
                file, read_across_frames=True
            )
            with reader as stream:
                while block := stream.read(BLOCK_BYTES):
                    yield block
        except (zstandard.ZstdError, MemoryError) as error:
            if "too much memory" in str(error):
                raise limits.takes_too_much(self.path, window) from error
            self.cut_off = True


def _salvaged(file: BinaryIO, begin: int, known: int) -> Iterator[bytes]:
    """What lies between the first `known` bytes of a damaged member and the damage.

    A decompressor that meets damage gives nothing of that call: so in small steps, from the start.
    """
    file.seek(begin)
    member, produced = zlib.decompressobj(31), 0
    pieces = bytearray()
    while not member.eof and (data := file.read(_SMALL_STEP)):
        try:
            piece = member.decompress(data)
        except zlib.error:
            break
        produced += len(piece)
        if produced > known:
            pieces += piece[max(0, len(piece) - (produced - known)) :]
        if len(pieces) >= BLOCK_BYTES:
            yield bytes(pieces)
            pieces.clear()
    yield bytes(pieces)


def _inflater() -> tuple[Callable[[], Any], tuple[type[BaseException], ...]]:
    """Makes gzip decompressors: of isal where it is installed, some three times as fast."""
    try:
        from isal import isal_zlib
    except ImportError:
        return lambda: zlib.decompressobj(31), (zlib.error,)
    errors: tuple[Any, ...] = (isal_zlib.error, zlib.error)
    return lambda: isal_zlib.decompressobj(31), errors
