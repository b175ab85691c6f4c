"""The command line's help and usage errors in the user's language.

typer and click write English. In another language the same is written through a formatter that
looks up headings, help strings and docstrings in the catalogue, and wraps by the columns that
characters take. Nothing of this is touched where the language is English.
"""

from __future__ import annotations

import io
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from typer.core import TyperGroup

from gpuscope.cli import language_of
from gpuscope.cli.groups import take_as_given
from gpuscope.document.language import translated
from gpuscope.document.printable import behind_doors
from gpuscope.document.text import Text

WORDS = (
    Text("Usage:"),
    Text("Options"),
    Text("Arguments"),
    Text("Commands"),
    Text("Show this message and exit."),
    Text("required"),
    Text("default: {value}"),
    Text("Try '{command}' for help."),
    Text("Error: {message}"),
    Text("{message}. Did you mean {names}?"),
    Text("No such option: {name}"),
    Text("No such option {name}."),
    Text("No such option: {name} (Possible options: {names})"),
    Text("No such command {name}."),
    Text("No such command {name}"),
    Text("Missing command."),
    Text("Missing option {name}."),
    Text("Missing argument {name}."),
    Text("Got unexpected extra argument ({arguments})"),
    Text("Got unexpected extra arguments ({arguments})"),
    Text("Got unexpected extra argument(s) ({arguments})"),
    Text("Option {name} requires an argument."),
    Text("Option {name} does not take a value."),
    Text("Invalid value: {message}"),
    Text("Invalid value for {name}: {message}"),
    Text("{value} is not a valid integer."),
    Text("{value} is not a valid float."),
    Text("{value} is not in the range {range}."),
    Text("Input should be a valid integer, unable to parse string as an integer"),
    Text("Input should be a valid number, unable to parse string as a number"),
    Text("Input should be greater than or equal to {limit}"),
)
"""What typer and click say themselves, in the words of their versions."""

_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_OPEN, _CLOSE = "（「《“", "、，。；：？！）」》”"
_PIECE = (
    rf"[{_OPEN}]*"
    rf"(?:\[[^\[\]]{{1,24}}\]|\d[\d.,]* [a-zA-Zµ%°][^\s{_WIDE}]*|[{_WIDE}]|[^\s{_WIDE}]+)?"
    rf"[{_CLOSE}]*\s*"
)
"""What no line break parts: a short bracket, a number and its unit, a word, a character with its
punctuation."""


class SpokenGroup(TyperGroup):
    """A group of commands whose help and usage errors are in the user's language."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **extra: Any) -> Any:
        """Run a command line."""
        lang = language_of(sys.argv[1:] if args is None else args)
        with behind_doors(), speaking(lang, self.context_class):
            return super().main(args, *more, **extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Hand a `--lang` that stands before the command's name on to the command."""
        take_as_given(self.get_params(ctx))
        own, at = list(args), 0
        asked: list[str] = []
        while at < len(own) and own[at].startswith("-"):
            if own[at] == "--lang" or own[at].startswith("--lang="):
                taken = 2 if own[at] == "--lang" else 1
                asked, own = own[at : at + taken], own[:at] + own[at + taken :]
            else:
                at += 1
        return super().parse_args(ctx, own[: at + 1] + asked + own[at + 1 :] if own[at:] else own)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, whose values are checked where they need it."""
        found = super().get_command(ctx, cmd_name)
        if found is not None and ctx is not None:
            take_as_given(found.get_params(ctx))
        return found

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each with what it does: whole sentences, to be looked up."""
        lang = getattr(formatter, "lang", "en")
        if lang == "en":
            super().format_commands(ctx, formatter)
            return
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, each.short_help or (each.help or "").partition("\n\n")[0])
                    for name, each in commands.items()
                    if each is not None and not each.hidden
                ]
            )


@contextmanager
def speaking(lang: str, context: Any) -> Iterator[None]:
    """Let help and usage errors be written in a language.

    Args:
        lang: the language; English changes nothing.
        context: the class of the command-line library's contexts.
    """
    if lang == "en":
        yield
        return
    library = context.__module__.rpartition(".")[0]
    error = sys.modules[f"{library}.exceptions"].ClickException
    usage_error = sys.modules[f"{library}.exceptions"].UsageError
    formatter, shows = context.formatter_class, {each: each.show for each in (error, usage_error)}
    context.formatter_class = _formatter(formatter, lang)
    for each, show in shows.items():
        each.show = _shown(show, lang)
    try:
        yield
    finally:
        context.formatter_class = formatter
        for each, show in shows.items():
            each.show = show


def said(message: str, lang: str) -> str:
    """Return what typer or click says in a language; what it is not known to say stays."""
    for template, pattern in _patterns():
        found = pattern.fullmatch(message)
        if found is not None:
            values = {name: said(value, lang) for name, value in found.groupdict().items()}
            return translated(template, lang).format(**values)
    return message


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    inner = (f"(?P<{part}>.+)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
    return re.compile("".join(inner), re.DOTALL)


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """What each of `WORDS` reads like, the longest first."""
    return [(str(word), _pattern(word)) for word in sorted(WORDS, key=len, reverse=True)]


def _shown(show: Any, lang: str) -> Any:
    def shown(self: Any, file: Any = None) -> None:
        """Write the error, line by line in the language."""
        written = io.StringIO()
        show(self, written)
        lines = written.getvalue().splitlines()
        print("\n".join(said(line, lang) for line in lines), file=file or sys.stderr)

    return shown


def help_text(text: str, lang: str) -> str:
    """Return a help string in a language, with what typer put behind it in brackets."""
    found = re.fullmatch(r"(.*?)(?:(?:^|  )\[([^\n]*)\])?", text, re.DOTALL)
    assert found is not None
    own, extra = " ".join(found[1].split()), found[2]
    given = said(own, lang) if any(own == word for word in WORDS) else translated(own, lang)
    if not extra:
        return given
    more = "; ".join(said(part, lang) for part in extra.split("; "))
    return f"{given}  [{more}]".strip()


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, by the columns that its characters take."""
    lines = [""]
    for piece in re.findall(_PIECE, text):
        if lines[-1] and _columns((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _formatter(base: Any, lang: str) -> Any:
    """A formatter like `base` that writes in a language."""

    class Formatter(base):  # type: ignore[misc]
        def __init__(self, *given: Any, **settings: Any) -> None:
            super().__init__(*given, **settings)
            self.lang = lang

        def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
            begin = said("Usage:", lang)
            super().write_usage(prog, args, begin if begin.endswith("：") else f"{begin} ")

        def write_heading(self, heading: str) -> None:
            colon = translated(": ", lang).rstrip()
            self.write(f"{'':{self.current_indent}}{said(heading, lang)}{colon}\n")

        def write_text(self, text: str) -> None:
            indent = " " * self.current_indent
            for number, paragraph in enumerate(re.split(r"\n\s*\n", text)):
                self.write("\n" if number else "")
                for line in wrapped(help_text(paragraph, lang), self.width - len(indent)):
                    self.write(f"{indent}{line}\n")

        def write_dl(
            self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
        ) -> None:
            first = min(max(len(name) for name, _ in rows), col_max) + col_spacing
            indent = " " * self.current_indent
            for name, text in rows:
                lines = wrapped(help_text(text, lang), max(self.width - first - 2, 10))
                if len(name) > first - col_spacing:
                    self.write(f"{indent}{name}\n")
                    name = ""
                for line in lines:
                    self.write(f"{indent}{name:{first}}{line}".rstrip() + "\n")
                    name = ""

    return Formatter
