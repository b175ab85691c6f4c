"""An existing server from the lines that start it: vLLM's or SGLang's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError, UnsupportedError
from gpuscope.outside.toml_file import no_value
from gpuscope.planning.existing import only, text_of
from gpuscope.planning.serving.launch import SERVERS
from gpuscope.planning.serving.lines import ANSWERS, PROMPTS, Line, lines_of
from gpuscope.planning.serving.splits import SPLITS
from gpuscope.planning.serving.types import ServingChoice, ServingQuestion
from gpuscope.serving.engine import engine as profile_of
from gpuscope.serving.quantization import quantization

__all__ = ["Server", "existing_server"]


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
    """The server that a file's lines start: one, copies of it, or two that share the work.

    Args:
        question: for one number of one device.
        path: the file.

    Raises:
        InputFileError: no such file, or no line of vLLM's or SGLang's in it.
        InvalidValueError: numbers that cannot be; other devices than the lines take.
        UnsupportedError: what a choice cannot have.
    """
    cluster = only(question.clusters)
    lines = lines_of(text_of(path), path)
    read = [_choice(each, question) for each in lines]
    choices = [each for each, _ in read]
    alike = {replace(each, replicas=1) for each in choices}
    if len(alike) > 1:
        first, second, *_ = sorted(each.words for each in alike)
        raise UnsupportedError(
            Text("The lines of {path} start servers that are not alike.", path=path),
            Text("All replicas of a plan are: here are {first}; and {second}.", first=first,
                 second=second),
            Text("Name a file with one of them, or make them alike."),
        )  # fmt: skip
    counts = dict.fromkeys(("", PROMPTS, ANSWERS), 0)
    for line, each in zip(lines, choices, strict=True):
        counts[line.half] += line.times * each.replicas
    choice = replace(choices[0], replicas=counts[""] or counts[ANSWERS], prefill=counts[PROMPTS])
    if choice.needed != cluster.n_devices:
        raise InvalidValueError(
            Text("The line takes {devices} devices.", devices=choice.needed),
            Text("{count} were named.", count=cluster.n_devices),
            Text("Type: --devices {devices}", devices=choice.needed),
        )
    asked = replace(
        question,
        engine=lines[0].framework,
        dtypes=tuple(dict.fromkeys((choice.dtype, *question.dtypes))),
        kv_dtypes=tuple(dict.fromkeys((choice.kv_dtype, *question.kv_dtypes))),
    )
    return Server(asked, choice, tuple(dict.fromkeys(name for _, left in read for name in left)))


def _choice(line: Line, question: ServingQuestion) -> tuple[ServingChoice, list[str]]:
    """What one line starts, and its options that decide nothing here."""
    cluster, options = only(question.clusters), line.options
    server, profile = SERVERS[line.framework], profile_of(line.framework)
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
        read = way.read.get(line.framework)
        if read is not None:
            found = {name: _count(name, options.get(name), 1) for name in read.counts}
            found |= dict.fromkeys(read.flags, 1)
            choice = read.made(
                {n: v for n, v in found.items() if n in options}, choice, question.size
            )
            told |= found.keys()
    known = {*usual, *told, "quantization", "dtype", "kv-cache-dtype", "model-path"}
    return choice, [f"--{name}" for name in options if name not in known]


def _count(name: str, value: str | None, usual: int) -> int:
    if value is None:
        return usual
    if not value.isdecimal() or int(value) < 1:
        raise no_value(f"--{name}", value, "8")
    return int(value)
