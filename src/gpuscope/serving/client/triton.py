"""Triton Inference Server, or any other that speaks KServe's v2 over HTTP: tensors in, tensors out.

What is asked is made of the model's own metadata: each input's type and shape, one row a request;
a dimension that is free has the request's input tokens. Values are drawn (numbers that any
vocabulary has; ones for a mask), a few times, since none hangs on them. An answer is whole: it has
one time, so that TTFT and end to end are the same, and no TPOT. Format: KServe's predict protocol
v2 with its extension for binary tensors, as Triton's own clients write it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import numpy as np

from gpuscope.document.printable import one_line
from gpuscope.document.text import Text
from gpuscope.serving.client import failure
from gpuscope.serving.client.failure import ReplyError, ServerError
from gpuscope.serving.client.probe import Door, Known
from gpuscope.serving.client.prompts import FRONT, WORDS, Form
from gpuscope.serving.client.reply import Reply
from gpuscope.serving.requests import Requests

VARIANTS = 8
"""Different bodies of a length."""

MOST_ELEMENTS = 1 << 24

_TYPES = {
    "BOOL": "?", "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "u1",
    "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
    "BF16": "<u2", "BYTES": "",
}  # fmt: skip
"""As numpy writes them; bfloat16 by its bits."""

_FRONT = FRONT["triton"]
_T = TypeVar("_T")


class _Input(msgspec.Struct, gc=False):
    name: str
    datatype: str
    shape: list[int]


class _Model(msgspec.Struct, gc=False):
    inputs: list[_Input]
    name: str = ""
    platform: str = ""


class _Policy(msgspec.Struct, gc=False):
    decoupled: bool = False


class _Config(msgspec.Struct, gc=False):
    max_batch_size: int = 0
    model_transaction_policy: _Policy | None = None


class _Server(msgspec.Struct, gc=False):
    name: str = ""
    version: str = ""


class _Entry(msgspec.Struct, gc=False):
    name: str
    state: str = "READY"


@dataclass(slots=True)
class Tensors:
    """Makes the body of each request; as `prompts.Prompts`.

    Attributes:
        form: how the server is asked.
        path: of the endpoint.
        inputs: of the model.
        batched: their first dimension is that of a batch.
        requests: the load.
    """

    form: Form
    path: str
    inputs: list[_Input]
    batched: bool
    requests: Requests
    _made: dict[tuple[int, int], tuple[bytes, tuple[str, ...]]] = field(default_factory=dict)

    def body(self, row: int) -> tuple[bytes, tuple[str, ...]]:
        """Of one request, and lines of its head beside the usual ones."""
        tokens, variant = int(self.requests.input_tokens[row]), row % VARIANTS
        key = tokens, variant
        if key not in self._made:
            if len(self._made) >= 64 * VARIANTS:
                self._made.clear()
            self._made[key] = self._encoded(tokens, variant)
        return self._made[key]

    def _encoded(self, tokens: int, variant: int) -> tuple[bytes, tuple[str, ...]]:
        random = np.random.default_rng([self.requests.seed, 8, tokens, variant])
        told, data = [], []
        for each in self.inputs:
            shape = self.shape(each, tokens)
            raw = _drawn(random, each, prod(shape))
            told.append(
                {
                    "name": each.name,
                    "shape": shape,
                    "datatype": each.datatype,
                    "parameters": {"binary_data_size": len(raw)},
                }
            )
            data.append(raw)
        head = msgspec.json.encode({"inputs": told, "parameters": {"binary_data_output": True}})
        lines = (f"Inference-Header-Content-Length: {len(head)}",)
        return b"".join([head, *data]), lines

    def shape(self, each: _Input, tokens: int) -> list[int]:
        """One row of it."""
        first = [1] if self.batched else []
        return first + [tokens if size < 0 else size for size in each.shape[len(first) :]]


def _drawn(random: np.random.Generator, each: _Input, count: int) -> bytes:
    kind = each.datatype
    if kind == "BYTES":
        words = (WORDS[at].encode() for at in random.integers(0, len(WORDS), count))
        return b"".join(struct.pack("<I", len(word)) + word for word in words)
    if kind == "BF16":
        bits = random.standard_normal(count).astype("<f4").view("<u4") >> 16
        return bits.astype("<u2").tobytes()
    if kind.startswith("FP"):
        return random.standard_normal(count).astype(_TYPES[kind]).tobytes()
    name = each.name.lower()
    if kind == "BOOL" or "mask" in name:
        return np.ones(count, _TYPES[kind]).tobytes()
    if "type" in name:
        return np.zeros(count, _TYPES[kind]).tobytes()
    return random.integers(10, 100, count).astype(_TYPES[kind]).tobytes()


def judged(reply: Reply) -> Text | None:
    """What is wrong with a whole answer; None for nothing: it came when its last byte did."""
    if reply.status != 200:
        return failure.refused(reply.status, reply.words())
    reply.times_s = [reply.last_s]
    reply.finished_s, reply.output_tokens = reply.last_s, 1
    return None


async def probe_model(door: Door, model: str, requests: Requests) -> tuple[Known, Tensors]:
    """What a model takes, tried once.

    Raises:
        ServerError: it is no such server, has no such model, or one that cannot be asked so.
    """
    server = await _server(door)
    model = model or await _only(door)
    path = f"/v2/models/{quote(model, safe='')}"
    found = _read(await door.get(path), _Model)
    if found is None:
        raise ServerError(
            Text("The server has no model '{model}' that is ready.", model=model),
            "",
            Text("List them: curl -X POST {url}", url=f"{door.address}/v2/repository/index"),
        )
    config = _read(await door.get(f"{path}/config"), _Config) or _Config()
    asked = Tensors(
        Form("triton", "tensors", ignore_eos=False, usage=True),
        f"{path}/infer", found.inputs, config.max_batch_size > 0, requests,
    )  # fmt: skip
    _check(asked, model, config)
    await _tried(door, asked)
    note = Text("Each answer of Triton is whole: its TTFT is its end to end, and it has no TPOT.")
    engine = one_line(server.name)[:40] or "triton"
    return Known(model, engine, one_line(server.version)[:40], asked.form, (note,)), asked


async def _server(door: Door) -> _Server:
    """What it says of itself."""
    try:
        reply = await door.fetch(_FRONT)
    except ReplyError as error:
        raise failure.unanswered(error.args[0], str(door.address), _FRONT, _FRONT) from error
    if reply.status in (401, 403):
        refused = failure.refused(reply.status, reply.words())
        raise failure.unanswered(refused, str(door.address), _FRONT, _FRONT, reply.status)
    found = _read(reply, _Server)
    if found is None:
        raise ServerError(
            Text("{url} does not speak KServe's v2.", url=f"{door.address}{_FRONT}"),
            Text("Triton answers there."),
            Text(
                "A server of language models: --api completions; else look: curl {url}",
                url=f"{door.address}{_FRONT}",
            ),
        )
    return found


def _read(reply: Reply | None, kind: type[_T]) -> _T | None:
    if reply is None or reply.status != 200:
        return None
    try:
        return msgspec.json.decode(bytes(reply.body), type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


async def _only(door: Door) -> str:
    """The name of the one model that is ready."""
    try:
        listed = _read(await door.send("/v2/repository/index", b"{}"), list[_Entry])
    except ReplyError:
        listed = None
    names = [each.name for each in listed or () if each.state == "READY"]
    if len(names) == 1:
        return names[0]
    raise ServerError(
        Text("The server has {count} models that are ready.", count=len(names)),
        one_line(", ".join(names))[:200],
        Text("Name one: --model NAME"),
    )


def _check(asked: Tensors, model: str, config: _Config) -> None:
    policy = config.model_transaction_policy
    if policy is not None and policy.decoupled:
        raise ServerError(
            Text("Model '{model}' gives several answers to a request.", model=model),
            Text("Tensors are asked for one."),
            Text("Start Triton's OpenAI-compatible frontend, and load that: --api completions"),
        )
    longest, room = int(asked.requests.input_tokens.max()), MOST_ELEMENTS
    for each in asked.inputs:
        if each.datatype not in _TYPES:
            raise ServerError(
                Text("Input '{name}' of model '{model}' is of type {kind}.", name=each.name,
                     model=model, kind=each.datatype),
                "",
                Text("Known are: {kinds}", kinds=", ".join(_TYPES)),
            )  # fmt: skip
        shape = asked.shape(each, longest)
        room -= prod(shape)
        if room < 0:
            raise ServerError(
                Text("Input '{name}' of model '{model}' would have the shape {shape}.",
                     name=each.name, model=model, shape=str(shape)),
                Text("All inputs together may have 16 million elements."),
                Text("Free dimensions are the input tokens: --input 128"),
            )  # fmt: skip


async def _tried(door: Door, asked: Tensors) -> None:
    body, lines = asked.body(0)
    try:
        reply = await door.send(asked.path, body, lines)
        problem: Any = judged(reply)
    except ReplyError as error:
        reply, problem = Reply(), error.args[0]
    if problem is not None:
        raise failure.unanswered(problem, str(door.address), asked.path, _FRONT, reply.status)
