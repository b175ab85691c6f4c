"""Triton Inference Server's config.pbtxt: what of it decides batching, read and written.

The fields are those of `ModelConfig` (triton-inference-server/common, protobuf/model_config.proto):
`backend`, `platform`, `max_batch_size`, `instance_group { count, kind, gpus }`, and
`dynamic_batching { preferred_batch_size, max_queue_delay_microseconds }`. The form is protobuf's
text format; other fields are passed over. Without `dynamic_batching` each request goes alone. A
group has `count` instances on each GPU that it names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuscope.document.text import Text
from gpuscope.document.typed import MisfitError
from gpuscope.errors import InputFileError
from gpuscope.outside.plain import file_bytes
from gpuscope.serving.engine import Engine, engine
from gpuscope.serving.result import Serving

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<mark>[{}\[\]:,;<>])"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>[\w.+-]+)"""
)

_DEEPEST, _MOST_BYTES, _MOST = 20, 1 << 20, 1_000_000

BACKENDS = ("onnxruntime", "tensorrt")
"""Of Triton's, that have a profile."""

_PLATFORMS = {"onnxruntime_onnx": "onnxruntime", "tensorrt_plan": "tensorrt"}  # their older names

Message = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class TritonConfig:
    """Batching of a model.

    Attributes:
        name: of the model.
        max_batch_size: requests in a batch.
        preferred: batches that are sent at once, rising; () for the largest alone.
        delay_us: that a batch waits for more requests.
        instances: of the model, on devices of their own.
        backend: that runs it, "onnxruntime" or "tensorrt"; "" for any other.
    """

    name: str
    max_batch_size: int
    preferred: tuple[int, ...] = ()
    delay_us: int = 0
    instances: int = 1
    backend: str = ""

    def engine(self) -> Engine:
        """A profile that batches so."""
        return replace(
            engine(self.backend or "static"),
            name="triton",
            called="Triton Inference Server",
            scheduler="triton",
            max_sequences=self.max_batch_size,
            sizes=self.preferred,
            delay_s=self.delay_us * 1e-6,
        )


def read_config(path: str | Path) -> TritonConfig:
    """What a config.pbtxt says of batching.

    Raises:
        InputFileError: it cannot be read, is no such file, or says what cannot be.
    """
    target = Path(path)
    try:
        raw = file_bytes(target)
        if len(raw) > _MOST_BYTES:
            raise ValueError(f"{len(raw)} bytes")
        found = _config(_Reader(raw.decode()).message())
    except (OSError, MisfitError, ValueError, TypeError) as error:
        raise InputFileError(
            Text("{path} is no config.pbtxt of Triton.", path=target),
            str(error),
            Text("Write: {example}", example='name: "m" max_batch_size: 8 dynamic_batching { }'),
        ) from error
    return found


def config_of(run: Serving) -> TritonConfig | None:
    """How a run was batched; None: not as Triton does it."""
    if run.engine not in ("static", "triton", *BACKENDS):
        return None
    told = run.settings
    return TritonConfig(
        name=re.sub(r"[^\w.-]", "_", run.model),
        max_batch_size=int(told["max_sequences"]),
        preferred=tuple(int(each) for each in str(told["preferred"]).split(",") if each),
        delay_us=int(told["delay_us"]),
        instances=int(told["replicas"]),
        backend=run.engine if run.engine in BACKENDS else "",
    )


def config_text(config: TritonConfig) -> str:
    """The file, as Triton reads it; inputs and outputs are the backend's to fill in."""
    lines = [f'name: "{config.name}"', f"max_batch_size: {config.max_batch_size}"]
    if config.backend:
        lines.insert(1, f'backend: "{config.backend}"')
    if config.max_batch_size > 1:
        lines.append("dynamic_batching {")
        if config.preferred:
            sizes = ", ".join(map(str, config.preferred))
            lines.append(f"  preferred_batch_size: [ {sizes} ]")
        lines += [f"  max_queue_delay_microseconds: {config.delay_us}", "}"]
    gpus = ", ".join(map(str, range(config.instances)))
    lines.append(f"instance_group [ {{ count: 1, kind: KIND_GPU, gpus: [ {gpus} ] }} ]")
    return "\n".join(lines) + "\n"


def _config(found: Message) -> TritonConfig:
    most = max(1, _number(found, "max_batch_size", 0))
    batching = found.get("dynamic_batching", [])
    if len(batching) > 1 or not all(isinstance(each, dict) for each in batching):
        raise ValueError("dynamic_batching")
    inside: Message = batching[0] if batching else {}
    sizes = sorted({_whole(each, "preferred_batch_size") for each in _list(inside)})
    if sizes and not 1 <= sizes[0] <= sizes[-1] <= most:
        raise ValueError(f"preferred_batch_size {sizes} / max_batch_size {most}")
    return TritonConfig(
        name=str(found.get("name", ["model"])[-1]),
        max_batch_size=most if batching else 1,
        preferred=tuple(sizes),
        delay_us=_number(inside, "max_queue_delay_microseconds", 0),
        instances=_instances(found.get("instance_group", [])),
        backend=_backend(found),
    )


def _backend(found: Message) -> str:
    named = str(found.get("backend", found.get("platform", [""]))[-1])
    return {**{each: each for each in BACKENDS}, **_PLATFORMS}.get(named, "")


def _list(inside: Message) -> list[Any]:
    return inside.get("preferred_batch_size", [])


def _instances(groups: list[Any]) -> int:
    total = 0
    for group in groups:
        if not isinstance(group, dict):
            raise ValueError("instance_group")
        total += _number(group, "count", 1) * max(1, len(group.get("gpus", [])))
    if total > _MOST:
        raise ValueError(f"instance_group: {total}")
    return max(1, total)


def _number(found: Message, name: str, default: int) -> int:
    return _whole(found.get(name, [default])[-1], name)


def _whole(value: object, name: str) -> int:
    number = int(str(value)) if re.fullmatch(r"\d{1,9}", str(value)) else -1
    if not 0 <= number <= _MOST * 1000:
        raise ValueError(f"{name}: {str(value)[:40]}")
    return number


class _Reader:
    """Protobuf's text format: fields, each of them a list of what it was given."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(text[at : at + 20])
            at = match.end()
            if match.lastgroup:
                self.tokens.append((match.lastgroup, match[match.lastgroup]))
        self.at = 0

    def message(self, close: str = "", depth: int = 0) -> Message:
        """Fields up to the mark that closes them."""
        if depth > _DEEPEST:
            raise ValueError("nested too deep")
        found: Message = {}
        while self.at < len(self.tokens):
            sort, word = self._next()
            if sort == "mark" and word in (",", ";"):
                continue
            if sort == "mark" and word == close:
                return found
            if sort != "word":
                raise ValueError(word)
            found.setdefault(word, []).extend(self._values(depth))
        if close:
            raise ValueError(f"{close} is missing")
        return found

    def _values(self, depth: int) -> list[Any]:
        sort, word = self._next()
        if (sort, word) == ("mark", ":"):
            sort, word = self._next()
        if (sort, word) != ("mark", "["):
            return [self._value(sort, word, depth)]
        found = []
        while (token := self._next()) != ("mark", "]"):
            if token != ("mark", ","):
                found.append(self._value(*token, depth))
        return found

    def _value(self, sort: str, word: str, depth: int) -> Any:
        if sort == "text":
            return word[1:-1]
        if sort == "mark" and word in ("{", "<"):
            return self.message("}" if word == "{" else ">", depth + 1)
        if sort != "word":
            raise ValueError(word)
        return word

    def _next(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise ValueError("cut off")
        self.at += 1
        return self.tokens[self.at - 1]
