"""Lines that start servers, vLLM's or SGLang's, as a file has them: options, how often, which half.

Where prompts have devices of their own a server is two lines. SGLang's say which half they are;
vLLM's say it by "kv_role", by a comment above ("# prompts", as `plan --for vllm` writes it), or by
their order. "# start it 2 times" above a line is read, too.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, UnsupportedError

__all__ = ["ANSWERS", "PROMPTS", "Line", "lines_of"]

PROMPTS, ANSWERS = "prompts", "answers"
"""Halves of a server, as the comments that `plan` writes call them."""

_APART = {"vllm": "kv-transfer-config", "sglang": "disaggregation-mode"}
"""The option of a server's half."""

_DRAFTED = ("speculative-config", "speculative-algorithm")
"""Options that make another server of it than a choice can be."""

_AGAIN = Text("Name a file with the line: vllm serve MODEL --tensor-parallel-size 2")

_START = re.compile(r"(?<![\w.-])(?P<vllm>vllm\s+serve)(?=\s|$)|sglang\.launch_server\b")
_TIMES = re.compile(r"start it (\d{1,6}) times")

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


@dataclass(frozen=True, slots=True)
class Line:
    """One line that starts a server, or a half of one.

    Attributes:
        framework: "vllm" or "sglang".
        options: by our names, without dashes; "" where one has no value.
        times: how often it is started.
        half: PROMPTS, ANSWERS, or "" of a whole server.
    """

    framework: str
    options: Mapping[str, str]
    times: int
    half: str


def lines_of(text: str, path: Path) -> tuple[Line, ...]:
    """All lines that start something, in their order, without the option that names a half.

    Args:
        text: of the file.
        path: the file, for errors.

    Raises:
        InputFileError: there is none, or it cannot be read.
        UnsupportedError: drafted tokens, several engines, or one half without the other.
    """
    try:
        found = [_line(*each) for each in _pieces(text)]
    except ValueError as error:
        what = Text("{path} cannot be read.", path=path)
        raise InputFileError(what, f"{error}.", _AGAIN) from None
    if not found:
        raise InputFileError(
            Text("{path} starts no server.", path=path),
            Text("It has neither vllm serve nor sglang.launch_server."),
            _AGAIN,
        )
    for name in _DRAFTED:
        if any(name in each.options for each in found):
            raise UnsupportedError(
                Text("A serving plan cannot be judged with {name}.", name=f"--{name}"),
                Text("Drafted tokens are in no plan."),
                Text("Leave it out, or type: gpuscope serve"),
            )
    if len({each.framework for each in found}) > 1:
        raise UnsupportedError(
            Text("{path} starts servers of two engines.", path=path),
            Text("A plan has one."),
            Text("Leave one of them out."),
        )
    return tuple(_halves(found))


def _pieces(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Engine, what stands from its start to the next, and the comments above it."""
    notes: list[str] = []
    current: tuple[str, list[str], list[str]] | None = None
    for line in text.replace("\\\n", " ").split("\n"):
        if line.lstrip().startswith("#"):
            notes.append(line)
            continue
        starts = list(_START.finditer(line))
        if current is not None:
            current[1].append(line[: starts[0].start()] if starts else line)
        for number, start in enumerate(starts):
            if current is not None:
                yield current[0], "\n".join(current[1]), current[2]
            ended = starts[number + 1].start() if number + 1 < len(starts) else len(line)
            name = "vllm" if start.group("vllm") else "sglang"
            current, notes = (name, [line[start.end() : ended]], notes), []
    if current is not None:
        yield current[0], "\n".join(current[1]), current[2]


def _line(framework: str, text: str, notes: Sequence[str]) -> Line:
    """One line's options.

    Raises:
        ValueError: a quotation that does not end.
    """
    words = shlex.split(text, comments=True)
    options, others = dict[str, str](), _OTHER_NAMES[framework]
    for at, word in enumerate(words):
        if not word.startswith("-") or word in ("-", "--", "-m"):
            continue
        name, _, value = word.partition("=")
        after = words[at + 1] if at + 1 < len(words) else ""
        name = others.get(name, name.lstrip("-").replace("_", "-"))
        options[name] = value or ("" if after.startswith("-") else after)
    above = "\n".join(notes)
    times = _TIMES.search(above)
    said = options.get(_APART[framework])
    half = "" if said is None else _half(framework, said, above)
    return Line(framework, options, int(times.group(1)) if times else 1, half)


def _half(framework: str, said: str, above: str) -> str:
    """Which half an option's value, or a comment, makes of a line; "?" where none does."""
    if framework == "sglang":
        return {"prefill": PROMPTS, "decode": ANSWERS, "null": ""}.get(said, "?")
    try:
        given = json.loads(said)
    except (ValueError, RecursionError):
        given = None
    role = given.get("kv_role") if isinstance(given, dict) else None
    known = {"kv_producer": PROMPTS, "kv_consumer": ANSWERS}
    if isinstance(role, str) and role in known:
        return known[role]
    return next((half for half in (PROMPTS, ANSWERS) if f"# {half}" in above), "?")


def _halves(found: Sequence[Line]) -> Iterator[Line]:
    """The same, each half told by its order where nothing else tells it.

    Raises:
        UnsupportedError: one half without the other.
    """
    option = _APART[found[0].framework]
    apart = [each for each in found if each.half]
    untold = [each for each in apart if each.half == "?"]
    halves = {each.half for each in apart}
    if len(untold) == len(apart) == 2:
        halves = {PROMPTS, ANSWERS}
    if apart and (halves != {PROMPTS, ANSWERS} or len(apart) != len(found)):
        raise UnsupportedError(
            Text("One half of a server cannot be judged: it has --{option}.", option=option),
            Text("Its prompts or its answers are made elsewhere, by lines that are not there."),
            Text(
                "Name a file with both lines, as plan --for {framework} writes them.",
                framework=found[0].framework,
            ),
        )
    for each in found:
        half = (PROMPTS if each is untold[0] else ANSWERS) if each.half == "?" else each.half
        options = {name: value for name, value in each.options.items() if name != option}
        yield Line(each.framework, options, each.times, half)
