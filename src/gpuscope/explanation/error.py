"""`error`: what an error message means, how sure that is, and what to try first."""

from __future__ import annotations

import codecs
import re
from dataclasses import replace
from pathlib import Path

from gpuscope.document.blocks import (
    Block,
    Code,
    CodeLine,
    Column,
    Explanation,
    Facts,
    Paragraph,
    Section,
    Table,
)
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, InvalidValueError
from gpuscope.explanation.errors import Diagnosis, Log, diagnose
from gpuscope.explanation.errors.types import CERTAINTY
from gpuscope.explanation.registry import topic

_MOST_BYTES = 16 * 2**20
"""Of a longer log its beginning and its end are read, half each."""

_LONGEST_LINE = 220

_PATH = re.compile(r"(?:~|\.{0,2})/\S+|[^\s:()\"']+\.(?:log|txt|out|err)")
"""One word that can only be meant as a file's name."""

_NO_TEXT = bytes({*range(9), *range(14, 27), *range(28, 32)})
"""Control characters that terminals do not get: not the tab, ends of line, escape, form feed."""

_SAMPLE_BYTES = 2**16
_MOST_NO_TEXT = 0.05


@topic("error")
def error(text: str | Path, dump: str | Path | None = None) -> Explanation:
    """Explain an error.

    Args:
        text: the message, or a whole log; a `Path`, or one line that names a file, is read. It may
            also name a dump of PyTorch's flight recorder, or a folder of dumps.
        dump: a dump, or a folder of dumps, one a rank, that belongs to the message.

    Raises:
        InvalidValueError: nothing but blanks.
        InputFileError: the file is missing, cannot be read, or is no text.
    """
    from gpuscope.explanation.flight_recorder.shown import explain_dumps

    if dump is not None:
        found_there, said = explain_dumps(Path(dump)), error(text)
        section = Section(Text("What the message says"), _told(said))
        return replace(found_there, sections=(*found_there.sections, section))
    named = _named_dump(text)
    if named is not None:
        return explain_dumps(named)
    content = _content(text)
    if not content.strip():
        raise InvalidValueError(
            Text("There is no text to explain."),
            "",
            Text('Type: gpuscope explain error "CUDA out of memory..."'),
        )
    log = Log(content)
    found = diagnose(log)
    return _explained(log, found) if found else _unknown(log)


def _told(said: Explanation) -> tuple[Block, ...]:
    """Another explanation in short, beside the dump's."""
    return (Paragraph(said.title, "key"), *(Paragraph(words) for words in said.summary))


def _named_dump(text: str | Path) -> Path | None:
    """The dump or folder that the text names; None if it is a message or a log."""
    from gpuscope.explanation.flight_recorder.dump import is_dump

    if isinstance(text, str) and ("\n" in text or len(text) > 1000 or not text.strip()):
        return None
    try:
        path = Path(text)
        return path if path.exists() and is_dump(path) else None
    except (OSError, ValueError):
        return None


def text_of(data: bytes, named: str) -> str:
    """Return what was printed as text: UTF-8, or UTF-16 where it begins with its mark.

    Args:
        data: the bytes of a log.
        named: how the error calls it.

    Raises:
        InputFileError: a program or an archive, not a text.
    """
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and 0 in data[:64]:
        return data.decode("utf-16", "replace")
    sample = data[:_SAMPLE_BYTES]
    if len(sample) - len(sample.translate(None, _NO_TEXT)) > _MOST_NO_TEXT * len(sample):
        raise InputFileError(
            Text("{named} is no text.", named=named),
            Text("It holds bytes that no message has."),
            Text("Name the log, or pass the message itself in quotes."),
        )
    return data.decode("utf-8", "replace")


def _content(text: str | Path) -> str:
    if isinstance(text, str):
        if "\n" in text or len(text) > 1000:
            return text
        try:
            named = Path(text)
            if not named.exists() and not _PATH.fullmatch(text):
                return text
        except (OSError, ValueError):
            return text  # no file's name
        return _read(named)
    return _read(text)


def _read(path: Path) -> str:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if size <= _MOST_BYTES:  # a pipe says 0
                data = file.read(_MOST_BYTES)
            else:
                data = file.read(_MOST_BYTES // 2)
                file.seek(size - _MOST_BYTES // 2)
                data += b"\n" + file.read()
    except FileNotFoundError:
        raise InputFileError(
            Text("Cannot read {path}.", path=path),
            Text("There is no such file."),
            Text("Check the path, or pass the message itself in quotes."),
        ) from None
    except OSError as problem:
        raise InputFileError(
            Text("Cannot read {path}.", path=path),
            str(problem.strerror or problem),
            Text("Name a text file, or - for stdin."),
        ) from problem
    return text_of(data, str(path))


def _explained(log: Log, found: list[Diagnosis]) -> Explanation:
    main, *others = found
    summary = [
        main.cause,
        Text("How sure: {certainty}.", certainty=CERTAINTY[main.certainty]),
        Text("Try first: {tries}", tries=main.tries[0]),
    ]
    sections = [Section(Text("What the message says"), _evidence(log, main))]
    sections.append(Section(Text("What to try, in this order"), _tries(main)))
    if others:
        sections.append(Section(Text("Also in this text"), (_others(others),)))
    return Explanation(
        "error", main.title, tuple(summary), tuple(sections), main.commands, main.sources
    )


def _evidence(log: Log, main: Diagnosis) -> tuple[Block, ...]:
    blocks: list[Block] = [_lines(log, main.line)]
    if main.facts:
        blocks.append(Facts(main.facts, Text("Its figures")))
    return (*blocks, *main.blocks)


def _lines(log: Log, line: int) -> Code:
    """The line that shows it, with one before and two after."""
    first, last = max(1, line - 1), min(len(log.lines), line + 2)
    shown = tuple(
        CodeLine(number, _cut(log.lines[number - 1]), tone="warning" if number == line else "plain")
        for number in range(first, last + 1)
        if log.lines[number - 1].strip() or number == line
    )
    return Code(Text("Where it stands"), "text", shown)


def _cut(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"


def _tries(main: Diagnosis) -> tuple[Block, ...]:
    return tuple(
        Paragraph(Text("{number}. {tried}", number=number, tried=tried))
        for number, tried in enumerate(main.tries, 1)
    )


def _others(others: list[Diagnosis]) -> Table:
    return Table(
        Text("They may follow from the first"),
        (Column(Text("line"), ""), Column(Text("error")), Column(Text("cause"))),
        tuple((diagnosis.line, diagnosis.title, diagnosis.cause) for diagnosis in others),
    )


def _unknown(log: Log) -> Explanation:
    """No kind of error is known: say so, and show the lines that look like one."""
    suspects = log.suspects()
    blocks: tuple[Block, ...] = ()
    if suspects:
        lines = tuple(CodeLine(number, _cut(line)) for number, line in suspects)
        blocks = (Code(Text("Lines that look like an error"), "text", lines),)
    said = Text(
        "gpuscope does not know this error. It knows errors of CUDA, HIP, NCCL, cuBLAS, cuDNN, the "
        "driver, data loaders and torch.compile."
    )
    hint = Text("If the text is long, the first error in it, not the last, is mostly the cause.")
    nothing = Text("No line in it looks like an error.")
    sections = (Section(Text("What stands there"), blocks),) if blocks else ()
    return Explanation(
        "error",
        Text("An error that is not known here"),
        (said, hint if suspects else nothing),
        sections,
    )
