"""An existing server from the line that starts it: vLLM's or SGLang's."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError, UnsupportedError
from gpuscope.outside.toml_file import no_value
from gpuscope.planning.existing import only, text_of
from gpuscope.planning.serving.launch import SERVERS
from gpuscope.planning.serving.splits import SPLITS
from gpuscope.planning.serving.types import ServingChoice, ServingQuestion
from gpuscope.serving.engine import engine as profile_of
from gpuscope.serving.quantization import quantization

__all__ = ["Server", "existing_server"]

_AGAIN = Text("Name a file with the line: vllm serve MODEL --tensor-parallel-size 2")

_OTHER_NAMES: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "-tp": "tensor-parallel-size", "-dp": "data-parallel-size", "-q": "quantization",
        "-pp": "pipeline-parallel-size", "-ep": "enable-expert-parallel",
    },
    "sglang": {
        "--tp-size": "tp", "--tensor-parallel-size": "tp",
        "--dp-size": "dp", "--data-parallel-size": "dp", "--pipeline-parallel-size": "pp-size",
        "--expert-parallel-size": "ep-size", "--ep": "ep-size",
    },
}  # fmt: skip
"""What else a server calls its options, by ours (`launch.SERVERS`)."""

_OTHERS = ("speculative-config", "speculative-algorithm", "kv-transfer-config",
           "disaggregation-mode")  # fmt: skip
"""Options that make another server of it than a choice can be, or a part of one."""


@dataclass(frozen=True, slots=True)
class Server:
    """What a line says.

    Attributes:
        question: of that engine, on the devices that the line takes.
        choice: how they are used.
        ignored: options that are in the line and decide nothing here.
    """

    question: ServingQuestion
    choice: ServingChoice
    ignored: tuple[str, ...]


def existing_server(question: ServingQuestion, path: Path) -> Server:
    """The server that a file's line starts.

    Args:
        question: for one number of one device.
        path: the file.

    Raises:
        InputFileError: no such file, or no line of vLLM's or SGLang's in it.
        InvalidValueError: numbers that cannot be; other devices than the line takes.
        UnsupportedError: what a choice cannot have.
    """
    cluster, size = only(question.clusters), question.size
    framework, options = _options(text_of(path), path)
    server, profile = SERVERS[framework], profile_of(framework)
    split, replicas, tokens, sequences = server.names
    usual = {split: 1, replicas: 1, tokens: profile.max_tokens, sequences: profile.max_sequences}
    numbers = {name: _count(name, options.get(name), value) for name, value in usual.items()}
    kinds = {written: kind for kind, written in server.kinds.items() if written}
    weights = options.get("quantization") or options.get("dtype", "bfloat16")
    weights = kinds.get(weights, "bfloat16" if weights == "auto" else weights)
    choice = ServingChoice(
        cluster,
        numbers[split],
        numbers[replicas],
        quantization(weights, cluster.device).name,
        "fp8" if options.get("kv-cache-dtype", "").startswith("fp8") else "bfloat16",
        numbers[tokens],
        numbers[sequences],
    )
    told = set[str]()
    for way in SPLITS:
        read = way.read.get(framework)
        if read is not None:
            found = {name: _count(name, options.get(name), 1) for name in read.counts}
            found |= dict.fromkeys(read.flags, 1)
            choice = read.made({n: v for n, v in found.items() if n in options}, choice, size)
            told |= found.keys()
    if choice.needed != cluster.n_devices:
        raise InvalidValueError(
            Text("The line takes {devices} devices.", devices=choice.needed),
            Text("{count} were named.", count=cluster.n_devices),
            Text("Type: --devices {devices}", devices=choice.needed),
        )
    asked = replace(
        question,
        engine=framework,
        dtypes=tuple(dict.fromkeys((choice.dtype, *question.dtypes))),
        kv_dtypes=tuple(dict.fromkeys((choice.kv_dtype, *question.kv_dtypes))),
    )
    known = {*usual, *told, "quantization", "dtype", "kv-cache-dtype", "model-path"}
    return Server(asked, choice, tuple(f"--{name}" for name in options if name not in known))


def _options(text: str, path: Path) -> tuple[str, dict[str, str]]:
    """Whose line it is, and its options by our names; what is no value of one is left.

    Raises:
        InputFileError: no such line.
        UnsupportedError: one that makes another server of it than a choice can be.
    """
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise InputFileError(
            Text("{path} cannot be read.", path=path), f"{error}.", _AGAIN
        ) from None
    framework = _framework(words)
    if framework is None:
        raise InputFileError(
            Text("{path} starts no server.", path=path),
            Text("It has neither vllm serve nor sglang.launch_server."),
            _AGAIN,
        )
    found = dict[str, str]()
    others = _OTHER_NAMES[framework]
    for at, word in enumerate(words):
        if not word.startswith("-") or word in ("-", "--", "-m"):
            continue
        name, _, value = word.partition("=")
        after = words[at + 1] if at + 1 < len(words) else ""
        name = others.get(name, name.lstrip("-").replace("_", "-"))
        found[name] = value or ("" if after.startswith("-") else after)
        if name in _OTHERS:
            raise UnsupportedError(
                Text("A serving plan cannot be judged with {name}.", name=f"--{name}"),
                Text("One line is judged, and drafted tokens are in no plan."),
                Text("Leave it out, or type: gpuscope serve"),
            )
    return framework, found


def _framework(words: Sequence[str]) -> str | None:
    pairs = list(pairwise(words))
    if any(one.rsplit("/", 1)[-1] == "vllm" and other == "serve" for one, other in pairs):
        return "vllm"
    return "sglang" if any("sglang.launch_server" in word for word in words) else None


def _count(name: str, value: str | None, usual: int) -> int:
    if value is None:
        return usual
    if not value.isdecimal() or int(value) < 1:
        raise no_value(f"--{name}", value, "8")
    return int(value)
