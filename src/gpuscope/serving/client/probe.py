"""What a server is and takes, found out before the run: its models, engine, and form of requests.

At most seven short requests; what a server refuses is asked for no more, and told.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from gpuscope.document.printable import one_line
from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError
from gpuscope.serving.client import failure
from gpuscope.serving.client.address import Address
from gpuscope.serving.client.connection import connect, payload
from gpuscope.serving.client.failure import ReplyError, ServerError
from gpuscope.serving.client.prompts import FRONT, PATHS, Api, Form, Sort, encode, words
from gpuscope.serving.client.reply import Reply, judged

PATIENCE_S = 10.0
"""For what a server says of itself."""

_FEW, _MANY = 32, 96
"""Words of the two prompts that show how many tokens a word has."""


@dataclass(frozen=True, slots=True)
class Door:
    """How a server is reached.

    Attributes:
        address: where.
        context: of TLS.
        key: in the `Authorization` header; "" for none.
        timeout_s: the longest that an answer may take.
    """

    address: Address
    context: ssl.SSLContext | None
    key: str
    timeout_s: float

    async def get(self, path: str) -> Reply | None:
        """What the server has at a path; None for nothing."""
        try:
            return await self.fetch(path)
        except ReplyError:
            return None

    async def fetch(self, path: str) -> Reply:
        """What the server says to a path.

        Raises:
            ReplyError: nothing.
        """
        return await self._exchange(path, None, PATIENCE_S)

    async def post(self, form: Form, body: bytes) -> Reply:
        """The answer to one request.

        Raises:
            ReplyError: there is none.
        """
        return await self._exchange(PATHS[form.api], body, self.timeout_s)

    async def send(self, path: str, body: bytes, more: Sequence[str] = ()) -> Reply:
        """The answer to a body at a path, with lines of the head beside the usual ones.

        Raises:
            ReplyError: there is none.
        """
        return await self._exchange(path, body, self.timeout_s, more)

    async def _exchange(
        self, path: str, body: bytes | None, timeout_s: float, more: Sequence[str] = ()
    ) -> Reply:
        connection = await connect(self.address, self.context, min(timeout_s, PATIENCE_S))
        try:
            connection.ask(payload(self.address, path, body, self.key, more=more))
            return (await connection.answer(timeout_s)).read()
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Known:
    """What the probe found.

    Attributes:
        model: the name that is asked for.
        engine, version: "" where the server does not say.
        form: how it is asked.
        notes: what was refused and what follows.
    """

    model: str
    engine: str
    version: str
    form: Form
    notes: tuple[Text, ...]


async def probe(door: Door, model: str, api: Api, sort: Sort | None) -> Known:
    """Find out how a server is asked.

    Args:
        door: to it.
        model: the name; "" for the one that it has.
        api: the endpoint.
        sort: of prompts; None for the first that it takes.

    Raises:
        ServerError: it is not there, or refuses all forms.
        UnknownNameError: it has no such model.
    """
    listed = await door.get(FRONT[api])
    model = _model(listed, model)
    form, first = await _form(door, model, api, sort)
    notes = list(_refusals(form, sort))
    if form.sort == "words":
        form = await _calibrated(door, model, form)
    if first.output_tokens is None:
        notes.append(Text("The server counts no tokens: pieces of the stream are counted instead."))
    engine, version = await _engine(door, listed)
    return Known(model, engine, version, form, tuple(notes))


def _model(listed: Reply | None, wanted: str) -> str:
    names = _names(listed)
    if wanted and (not names or wanted in names):
        return wanted
    if wanted:
        raise UnknownNameError(Text("model of this server"), wanted, names)
    if names:
        return names[0]
    if listed is None or listed.status in (401, 403):
        return ""  # the first question will tell why
    raise ServerError(
        Text("The server does not say which models it has."), "", Text("Name one: --model NAME")
    )


def _names(listed: Reply | None) -> list[str]:
    if listed is None or listed.status != 200:
        return []
    try:
        data = msgspec.json.decode(bytes(listed.body))["data"]
        return [str(each["id"]) for each in data]
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError):
        return []


async def _form(door: Door, model: str, api: Api, sort: Sort | None) -> tuple[Form, Reply]:
    sorts: list[Sort] = [sort] if sort else ["words"] if api == "chat" else ["ids", "words"]
    forms = [
        Form(api, each, ignore_eos, usage)
        for usage in (True, False)
        for each in sorts
        for ignore_eos in (True, False)
    ]
    refusal: ServerError | None = None
    for form in forms:
        reply, problem = await _tried(door, model, form)
        if problem is None:
            return form, reply
        refusal = refusal or failure.unanswered(
            problem, str(door.address), PATHS[api], FRONT[api], reply.status
        )
        if reply.status not in (400, 422):
            break
    assert refusal is not None
    raise refusal


async def _tried(
    door: Door, model: str, form: Form, number: int = _FEW, tokens: int = 4
) -> tuple[Reply, Text | None]:
    # No two prompts begin alike, lest a prefix cache shortens what is measured later.
    ids = np.random.default_rng(time.perf_counter_ns()).integers(10, 250, number)
    prompt = ids.tolist() if form.sort == "ids" else words(ids, number)
    try:
        reply = await door.post(form, encode(model, form, prompt, tokens))
    except ReplyError as error:
        return Reply(), error.args[0]
    return reply, judged(reply)


def _refusals(form: Form, sort: Sort | None) -> list[Text]:
    found = []
    if not form.ignore_eos:
        found.append(Text("The server refuses ignore_eos: answers may be shorter than asked for."))
    if form.api == "completions" and form.sort == "words" and sort is None:
        found.append(Text("The server refuses token ids: prompts are words."))
    if not form.usage:
        found.append(Text("The server refuses stream_options."))
    return found


async def _calibrated(door: Door, model: str, form: Form) -> Form:
    """How many tokens a word has, by two prompts; 1 where the server does not count."""
    (few, wrong), (many, also) = await asyncio.gather(
        _tried(door, model, form, _FEW, 1), _tried(door, model, form, _MANY, 1)
    )
    if wrong or also or not few.prompt_tokens or not many.prompt_tokens:
        return form
    return form.calibrated((_FEW, few.prompt_tokens), (_MANY, many.prompt_tokens))


async def _engine(door: Door, listed: Reply | None) -> tuple[str, str]:
    """Whose server it is, and its version."""
    owner = ""
    if listed is not None and listed.status == 200:
        try:
            owner = str(msgspec.json.decode(bytes(listed.body))["data"][0].get("owned_by", ""))
        except (msgspec.DecodeError, RecursionError, LookupError, TypeError, AttributeError):
            owner = ""
    reply = await door.get("/version")
    version = ""
    if reply is not None and reply.status == 200:
        try:
            version = str(msgspec.json.decode(bytes(reply.body))["version"])
        except (msgspec.DecodeError, RecursionError, LookupError, TypeError):
            version = ""
    engine = owner if owner in ("vllm", "sglang") else ""
    return engine, one_line(version)[:40] if engine else ""


def with_text(known: Known, tokenizer: str | None) -> Known:
    """The same, asked with the text of a local tokenizer."""
    if tokenizer is None or known.form.sort == "ids":
        return known
    return replace(known, form=replace(known.form, sort="text"))
