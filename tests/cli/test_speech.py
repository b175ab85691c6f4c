"""Help and usage errors in the user's language."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from gpuscope.cli.app import app
from gpuscope.cli.speech import help_text, language_of, said, wrapped
from gpuscope.document.language import translated

RUN = CliRunner()
ROOT = typer.main.get_command(app)


def commands(command: object = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command and group of commands."""
    yield path
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*path, name))


def found(path: tuple[str, ...]) -> typer.core.TyperCommand:
    """The command at a path."""
    command = ROOT
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    return command  # type: ignore[return-value]


def told(*arguments: str, **environment: str) -> str:
    """All that a command line prints."""
    return RUN.invoke(app, list(arguments), env=environment, prog_name="gpuscope").output


def test_there_are_commands_within_commands() -> None:
    assert ("explain", "matmul") in commands()
    assert len([*commands()]) > 20


@pytest.mark.parametrize("path", [*commands()])
def test_every_line_of_every_help_is_translated(path: tuple[str, ...]) -> None:
    text = told(*path, "--help", "--lang", "zh")
    assert text.startswith("用法：gpuscope")
    assert re.findall(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", text.partition("\n")[2]) == []
    assert "选项：" in text
    assert "显示此帮助并退出" in text
    for parameter in found(path).params:
        english = getattr(parameter, "help", None)
        if english is not None:
            assert translated(" ".join(english.split()), "zh") != english


@pytest.mark.parametrize("path", [(), ("predict",), ("explain", "conv"), ("lens",)])
def test_nothing_passes_the_catalogue_by(path: tuple[str, ...]) -> None:
    """Outside the pseudo-language's brackets there are names only."""
    text = told(*path, "--help", "--lang", "qps").partition("\n")[2]
    assert not re.search(r"[a-z]{2,} [a-z]{2,}", re.sub(r"⟦[^⟧]*⟧", "", text))


def test_english_stays_as_the_library_writes_it() -> None:
    before = ROOT.context_class.formatter_class
    english = told("doctor", "--help")
    assert told("doctor", "--help", "--lang", "zh") != english
    assert told("doctor", "--help", "--lang", "en") == english
    assert english.startswith("Usage: gpuscope doctor [OPTIONS]\n\n  Is this machine all right?")
    assert ROOT.context_class.formatter_class is before


@pytest.mark.parametrize(
    "environment", [{"GPUSCOPE_LANG": "zh"}, {"LC_ALL": "", "LANG": "zh_CN.UTF-8"}]
)
def test_the_environment_chooses(environment: dict[str, str]) -> None:
    assert told("bench", "--help", **environment).startswith("用法：")
    assert told("bench", "--help", "--lang", "en", **environment).startswith("Usage:")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--lang", "zh", "explain", "matmul", "--help"],
        ["--lang=zh", "explain", "matmul", "--help"],
        ["explain", "--lang", "zh", "matmul", "--help"],
        ["explain", "matmul", "--lang", "zh", "--help"],
    ],
)
def test_the_language_may_stand_anywhere(arguments: list[str]) -> None:
    assert "矩阵乘：分块" in told(*arguments)


def test_a_language_before_the_command_is_the_commands() -> None:
    assert "检查项" in told("--lang", "zh", "doctor", "--list")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["dokter"], "错误：没有命令 'dokter'。是否想输入 'doctor'？"),
        (["doctor", "--fo"], "错误：没有选项 --fo"),
        (["explain", "matmul", "1", "2"], "错误：缺少参数 'K'。"),
        (["watch", "--speed", "a"], "错误：'--speed' 的值无效："),
        (["doctor", "--only"], "错误：选项 '--only' 需要一个值。"),
        (["doctor", "more"], "错误：多余的参数（more）"),
    ],
)
def test_usage_errors_are_told_in_the_language(arguments: list[str], expected: str) -> None:
    done = RUN.invoke(app, arguments, env={"GPUSCOPE_LANG": "zh"}, prog_name="gpuscope")
    assert done.exit_code == 2
    assert expected in done.output
    if arguments != ["doctor", "--only"]:  # typer says no more of it
        assert done.output.startswith("用法：")
        assert "\n查看帮助：" in done.output


def test_a_language_that_does_not_exist_is_the_commands_to_refuse() -> None:
    assert language_of(["doctor", "--lang", "xx"]) == "en"
    assert "xx" in told("doctor", "--list", "--lang", "xx")


def test_what_is_not_known_stays() -> None:
    assert said("Something new happened", "zh") == "Something new happened"
    assert help_text("Some new help.  [default: 3; required]", "zh") == (
        "Some new help.  [默认：3; 必需]"
    )


def test_wide_characters_take_two_columns_and_break_by_their_rules() -> None:
    text = "显存峰值为 21.4 GiB，其中（参数与梯度）占一半。"
    for width in range(12, 40):
        lines = wrapped(text, width)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
        assert not any(line[0] in "，。）" for line in lines)
        assert not any(line.endswith("（") for line in lines)
        assert any("21.4 GiB" in line for line in lines)
    assert wrapped("显存显存显存", 8) == ["显存显存", "显存"]
    assert wrapped("one two three", 8) == ["one two", "three"]
