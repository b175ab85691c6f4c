"""What is asked: prompts of a wanted number of tokens, and the body of a request.

Lengths and what is shared follow from the load's seed; the words themselves are drawn anew each
run, so that a server's prefix cache finds what the load says that requests share, and nothing of an
earlier run.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, require_package
from gpuscope.serving.requests import Requests

Api = Literal["completions", "chat", "triton"]
Sort = Literal["ids", "words", "text", "tensors"]

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
FRONT = {"completions": "/v1/models", "chat": "/v1/models", "triton": "/v2"}
"""Where a server says what it is."""

LOWEST_ID, HIGHEST_ID = 10, 250
"""Token ids that every vocabulary has: bytes or common letters, above the special ones."""

WORDS = (
    "time year people way day man thing woman life child world school state family student group"
    " country problem hand part place case week company system program question work government"
    " number night point home water room mother area money story fact month lot right study book"
    " eye job word business issue side kind head house service friend father power hour game line"
).split()
"""One token each in most vocabularies."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a server is asked.

    Attributes:
        api: which endpoint.
        sort: prompts as token ids, as words, or as a tokenizer's text.
        ignore_eos: answers are as long as asked.
        usage: the server counts tokens.
        per_word, extra: tokens of a prompt of n words: extra + per_word x n (found by the probe).
    """

    api: Api
    sort: Sort
    ignore_eos: bool = True
    usage: bool = True
    per_word: float = 1.0
    extra: float = 0.0

    def words_for(self, tokens: int) -> int:
        """How many words make so many tokens."""
        return max(1, round((tokens - self.extra) / self.per_word))

    def calibrated(self, few: tuple[int, int], many: tuple[int, int]) -> Form:
        """The same, with what two prompts showed, each as (words, tokens)."""
        slope = (many[1] - few[1]) / (many[0] - few[0])
        if slope <= 0:
            return self
        return replace(self, per_word=slope, extra=few[1] - slope * few[0])


Decode = Callable[[Sequence[int]], str]


def local_tokenizer(path: str) -> tuple[Decode, Callable[[str], int], int]:
    """Decode, count and size of a tokenizer in a local file or folder.

    Raises:
        InvalidValueError: there is none.
        MissingPackageError: transformers, which brings `tokenizers`, is not installed.
    """
    require_package("transformers", Text("A local tokenizer"), "models")  # which brings it
    from pathlib import Path

    import tokenizers

    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    try:
        made: Any = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain `Exception`
        raise InvalidValueError(
            Text("{file} is no tokenizer.", file=file),
            Text("It says: {error}", error=error),
            Text("Give the folder that holds tokenizer.json, or leave --tokenizer out."),
        ) from error

    def count(text: str) -> int:
        return len(made.encode(text, add_special_tokens=False).ids)

    return made.decode, count, int(made.get_vocab_size())


class Prompts:
    """Makes the body of each request of a load."""

    def __init__(
        self, requests: Requests, model: str, form: Form, tokenizer: str | None = None
    ) -> None:
        self._requests = requests
        self._model = model
        self.form = form
        self._salt = secrets.randbits(64)
        self._tokenizer = local_tokenizer(tokenizer) if tokenizer else None

    @property
    def path(self) -> str:
        """Of the endpoint."""
        return PATHS[self.form.api]

    def body(self, row: int) -> tuple[bytes, tuple[str, ...]]:
        """Of one request, and lines of its head beside the usual ones."""
        requests = self._requests
        ids = self._ids(row, int(requests.input_tokens[row]))
        output = int(requests.output_tokens[row])
        return encode(self._model, self.form, self._prompt(ids), output), ()

    def _prompt(self, ids: np.ndarray) -> str | list[int]:
        if self.form.sort == "ids":
            found: list[int] = ids.tolist()
            return found
        if self.form.sort == "text" and self._tokenizer:
            return self._text(ids)
        return words(ids, self.form.words_for(len(ids)))

    def _text(self, ids: np.ndarray) -> str:
        """Text of as many tokens: decoded words may join, so it is cut or filled up to fit."""
        assert self._tokenizer is not None
        _, count, _ = self._tokenizer
        number = len(ids)
        text = words(ids, number)
        for _ in range(4):
            tokens = count(text)
            if tokens == len(ids):
                break
            number = max(1, round(number * len(ids) / tokens))
            text = words(ids, number)
        return text

    def _ids(self, row: int, tokens: int) -> np.ndarray:
        requests = self._requests
        own = _drawn(self._salt, 5, row, tokens)
        if len(requests.blocks):
            return self._blocks(row, own)
        if len(requests.prefix) and requests.prefix[row] >= 0:
            shared = int(requests.prefix_tokens[row])
            own[:shared] = _drawn(self._salt, 6, int(requests.prefix[row]), shared)
        return own

    def _blocks(self, row: int, own: np.ndarray) -> np.ndarray:
        """A trace's blocks by their names: equal names, equal tokens."""
        requests = self._requests
        first, last = requests.block_start[row : row + 2]
        size = requests.block_tokens
        names = requests.blocks[first:last][: len(own) // size]
        for at, name in enumerate(names.tolist()):
            own[at * size : (at + 1) * size] = _drawn(self._salt, 7, name, size)
        return own


def _drawn(salt: int, stream: int, row: int, count: int) -> np.ndarray:
    source = np.random.Generator(np.random.PCG64([salt, stream, row]))
    return source.integers(LOWEST_ID, HIGHEST_ID, count)


def words(ids: np.ndarray, number: int) -> str:
    """So many words, by ids that are repeated where they do not suffice."""
    many = np.resize(ids, number) % len(WORDS)
    return " ".join(WORDS[each] for each in many.tolist())


def encode(model: str, form: Form, prompt: str | list[int], output: int) -> bytes:
    """The body of a request as JSON."""
    body: dict[str, Any] = {"model": model, "stream": True, "temperature": 0, "max_tokens": output}
    if form.api == "chat":
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    if form.ignore_eos:
        body["ignore_eos"] = True
    if form.usage:
        body["stream_options"] = {"include_usage": True}
    return msgspec.json.encode(body)
