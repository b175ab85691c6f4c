"""What the bytes of an answer say: HTTP/1.1, server-sent events, and when tokens came.

Bytes come from anyone: lines, heads and bodies have a longest length, and whatever is no answer
raises a `ReplyError`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpuscope.document.text import Text
from gpuscope.serving.client import failure
from gpuscope.serving.client.failure import ReplyError

MOST_HEAD, MOST_LINE, MOST_BODY, MOST_ERROR = 1 << 16, 1 << 20, 1 << 28, 1 << 16
"""Bytes."""


class _Delta(msgspec.Struct, gc=False):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: Any = None


class _Choice(msgspec.Struct, gc=False):
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_EVENT = msgspec.json.Decoder(_Event)


@dataclass(slots=True)
class Reply:
    """An answer, as far as it came. `feed` it with bytes and the moment of each.

    Attributes:
        status: of HTTP; 0 before it came.
        headers: names in small letters.
        times_s: when tokens came, a piece of the stream each.
        finished_s: when the last choice came; None before.
        last_s: when the last bytes came.
        prompt_tokens, output_tokens: as the server counts them; None where it does not say.
        body: of an answer that is no stream, its beginning.
        done: the whole answer is there.
        ended: the stream said so itself ("[DONE]").
        error: what the server sent instead of a token; "" for nothing.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    times_s: list[float] = field(default_factory=list)
    finished_s: float | None = None
    last_s: float = 0.0
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    body: bytearray = field(default_factory=bytearray)
    done: bool = False
    ended: bool = False
    error: str = ""
    _raw: bytearray = field(default_factory=bytearray)
    _line: bytearray = field(default_factory=bytearray)
    _chunked: bool = False
    _left: int | None = None
    _streams: bool = False
    _total: int = 0

    @property
    def reusable(self) -> bool:
        """Another request may follow on the same connection."""
        return self.done and self.keeps

    @property
    def keeps(self) -> bool:
        """Another request may follow when this one is through."""
        close = self.headers.get("connection", "").lower() == "close"
        return not close and (self._chunked or "content-length" in self.headers)

    def feed(self, now_s: float, data: bytes) -> None:
        """Take what came at a moment.

        Raises:
            ReplyError: it is no answer, or too long.
        """
        self._total += len(data)
        self.last_s = now_s
        if self._total > MOST_BODY:
            raise ReplyError(failure.LONG_BODY)
        self._raw += data
        if not self.status and not self._head():
            return
        if self._chunked:
            self._chunks(now_s)
        else:
            self._plain(now_s)

    def close(self) -> None:
        """The connection ended.

        Raises:
            ReplyError: in the middle of the answer.
        """
        if not self.status:
            raise ReplyError(failure.CLOSED_EARLY)
        if not self.done and (self._chunked or self._left):
            raise ReplyError(failure.CLOSED_EARLY)
        self.done = True

    def _head(self) -> bool:
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            if len(self._raw) > MOST_HEAD:
                raise ReplyError(failure.NO_HTTP)
            return False
        first, *lines = self._raw[:end].decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise ReplyError(failure.NO_HTTP)
        del self._raw[: end + 4]
        status = int(rest[:3])
        if 100 <= status < 200:  # "continue": the answer follows
            return self._head()
        self.status = status
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length")
        if length is not None and not self._chunked:
            if not length.isdigit() or len(length) > 12:
                raise ReplyError(failure.NO_HTTP)
            self._left = int(length)
        self._streams = "text/event-stream" in self.headers.get("content-type", "").lower()
        return True

    def _plain(self, now_s: float) -> None:
        taken = bytes(self._raw if self._left is None else self._raw[: self._left])
        self._raw.clear()
        self._content(now_s, taken)
        if self._left is not None:
            self._left -= len(taken)
            self.done = self._left == 0

    def _chunks(self, now_s: float) -> None:
        """Chunked coding: a length in hexadecimal, the bytes, and so on; 0 ends it."""
        raw, at = self._raw, 0
        while not self.done:
            end = raw.find(b"\r\n", at)
            if end < 0:
                if len(raw) - at > 1024:
                    raise ReplyError(failure.NO_HTTP)
                break
            try:
                size = int(bytes(raw[at:end]).partition(b";")[0], 16)
            except ValueError as error:
                raise ReplyError(failure.NO_HTTP) from error
            if not 0 <= size <= MOST_BODY:
                raise ReplyError(failure.LONG_BODY)
            if size == 0:
                self.done = raw.find(b"\r\n", end + 2) >= 0  # what follows the last one is let go
                break
            if len(raw) < end + 4 + size:
                break
            self._content(now_s, bytes(raw[end + 2 : end + 2 + size]))
            at = end + 4 + size
        del raw[:at]

    def _content(self, now_s: float, data: bytes) -> None:
        if self.status != 200 or not self._streams:
            self.body += data[: MOST_ERROR - len(self.body)]
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._line:
                line = bytes(self._line) + line
                self._line.clear()
            if len(line) > MOST_LINE:
                raise ReplyError(failure.LONG_LINE)
            if line.startswith(b"data:"):
                self._event(now_s, line[5:].strip())
        self._line += rest
        if len(self._line) > MOST_LINE:
            raise ReplyError(failure.LONG_LINE)

    def _event(self, now_s: float, text: bytes) -> None:
        if text == b"[DONE]":
            self.ended = True
            return
        try:
            event = _EVENT.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ReplyError(failure.GARBAGE) from error
        if event.error:
            self.error = _words(event.error)
        if event.usage is not None:
            self.prompt_tokens = event.usage.prompt_tokens
            self.output_tokens = event.usage.completion_tokens
        if event.choices:
            if any(_is_token(choice) for choice in event.choices):
                self.times_s.append(now_s)
            self.finished_s = now_s

    def words(self) -> str:
        """What the server says of an error."""
        try:
            found = msgspec.json.decode(bytes(self.body))
        except (msgspec.DecodeError, RecursionError):
            return self.body.decode("utf-8", "replace")
        return _words(found)


def _is_token(choice: _Choice) -> bool:
    """Whether it brings something; a chat's first piece may only say whose turn it is."""
    if choice.delta is None:
        return bool(choice.text) or choice.finish_reason is None
    delta = choice.delta
    said = delta.content or delta.reasoning or delta.reasoning_content or delta.tool_calls
    # Half a character is no text yet, and a token all the same.
    return bool(said) or (delta.role is None and choice.finish_reason is None)


def _words(found: Any) -> str:
    """The message of an error as servers send it."""
    for name in ("error", "message", "detail", "msg"):
        if isinstance(found, dict) and found.get(name):
            return _words(found[name])
    if isinstance(found, list) and found:
        return "; ".join(_words(each) for each in found[:3])
    return str(found)


def judged(reply: Reply) -> Text | None:
    """What is wrong with a whole answer that should be a stream of tokens; None for nothing."""
    if reply.status != 200:
        return failure.refused(reply.status, reply.words())
    if reply.error:
        return Text("The server broke off: {words}", words=reply.error[: failure.MOST_WORDS])
    if not reply._streams:
        return failure.NOT_STREAMING
    if not reply.times_s:
        return failure.NO_TOKENS
    # A stream without a length of its own is whole only if it says that it ends.
    if not reply.ended and not reply._chunked and reply._left is None:
        return failure.CLOSED_EARLY
    return None
