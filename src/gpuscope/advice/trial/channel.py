"""Lines of JSON over two pipes of their own: what the user's code prints never comes between."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

__all__ = ["Channel"]

Message = dict[str, Any]


class Channel:
    """One end of a conversation.

    Args:
        reading, writing: file descriptors, owned from here on.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing
        self._buffer = b""
        self._open = True

    def send(self, message: Message) -> bool:
        """Send one message; False where nobody listens any more."""
        data = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self.writing, data) :]
        except (BrokenPipeError, OSError):
            return False
        return True

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message; None where the other end is gone.

        Raises:
            TimeoutError: none came in time.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self.reading], [], [], left)[0]:
                raise TimeoutError
            read = os.read(self.reading, 1 << 16)
            if not read:
                return None
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def close(self) -> None:
        """Close both ends of ours; twice does nothing."""
        if self._open:
            self._open = False
            os.close(self.reading)
            os.close(self.writing)
