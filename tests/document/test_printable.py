"""What a terminal would obey is made visible, at the places where texts are made and leave."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpuscope.document.plain import dumps
from gpuscope.document.printable import (
    Door,
    behind_doors,
    doors_open,
    harmless,
    one_line,
    printable,
)
from gpuscope.document.text import Text, joined, render, verbatim
from gpuscope.errors import InputFileError

SOURCE = Path(__file__).resolve().parents[2] / "src" / "gpuscope"

DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}

every = st.text(st.characters(codec=None) | st.sampled_from("\x1b\x9b\u202e\ud8ff\u2028\n\t\r"))


def obeyed(char: str, ours: str = "") -> bool:
    """By Unicode's own properties: controls, marks and isolates of direction, line separators."""
    return char not in ours and (
        unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}
        or unicodedata.bidirectional(char) in DIRECTIONS
        or char in "\u200e\u200f\u061c"
    )


@given(every)
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    assert not any(obeyed(char, "\n\t") for char in printable(text))
    assert not any(map(obeyed, one_line(text)))
    assert one_line(one_line(text)) == one_line(text)
    kept = "".join(char for char in text if not obeyed(char))
    assert all(char in one_line(text) for char in kept)


@given(every)
def test_json_means_the_same(text: str) -> None:
    written = dumps({text: [text]})
    assert not any(map(obeyed, written))
    assert json.loads(written) == {text: [text]}
    assert json.loads(dumps([text], indent=2)) == [text]


def test_ordinary_names_stay() -> None:
    for name in (
        "void at::native::k<float, 4>(int)",
        "矩阵乘法",
        "café",
        "a\u00a0b",
        "🙂",
        "C:\\x",
    ):
        assert one_line(name) == printable(name) == name


def test_a_value_enters_a_text_as_one_line() -> None:
    evil = "a\nFORGED\x1b[2J"
    for text in (
        Text("Kernel {name}.", name=evil),
        verbatim(evil),
        joined([evil, "b"]),
        Text("Outer {inner}", inner=Text("{name}", name=evil)),
        Text("File {path}", path=Path(evil)),
        InputFileError(Text("{path} is damaged.", path=evil)).what,
    ):
        for lang in ("en", "zh"):
            shown = render(text, lang)
            assert "\n" not in shown
            assert "\x1b" not in shown
            assert "a\\nFORGED\\x1b[2J" in shown
    assert "a FORGED" in Text("{error}", error=ValueError("a\nFORGED"))


def test_values_within_values() -> None:
    assert harmless({"a\n": ("b\x1b", 1, [None, "c"])}) == {"a\\n": ("b\\x1b", 1, [None, "c"])}


@contextlib.contextmanager
def standing() -> Iterator[io.BytesIO]:
    below = io.BytesIO()
    stream = io.TextIOWrapper(below, "utf-8", write_through=True)
    before = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = stream
    try:
        with behind_doors():
            yield below
    finally:
        sys.stdout, sys.stderr = before
        stream.detach()


def test_every_way_to_write_goes_through_the_door() -> None:
    import logging

    with standing() as below:
        print("print \x1b[2J\tours")
        sys.stdout.writelines(["lines \x9b\n"])
        sys.stdout.buffer.write("bytes \u202e\n".encode()[:8])
        sys.stdout.buffer.write("bytes \u202e\n".encode()[8:])
        sys.stderr.buffer.write(b"no utf-8 \xff\n")
        sys.stderr.write(warnings.formatwarning("warned \x1b", UserWarning, "f\x1b.py", 1))
        logging.lastResort.emit(logging.LogRecord("a", 40, "f", 1, "logged \x07", (), None))
        assert sys.stdout.encoding == "utf-8"
        assert not sys.stdout.isatty()
        with behind_doors():
            print("twice \x1b")
        with doors_open():
            print("\x1b[32mthe user's own\x1b[0m")
    sent = below.getvalue().decode()
    assert sent.replace("\x1b[32mthe user's own\x1b[0m", "").count("\x1b") == 0
    for told in ("print \\x1b[2J\tours\n", "lines \\x9b\n", "bytes \\u202e\n", "warned \\x1b"):
        assert told in sent
    for told in ("no utf-8 \\udcff\n", "f\\x1b.py", "logged \\x07", "twice \\x1b\n"):
        assert told in sent


def test_a_stream_of_ascii_goes_through_too(tmp_path: Path) -> None:
    """The command-line library writes past a stream that it takes for misconfigured."""
    ran = subprocess.run(
        [sys.executable, "-m", "gpuscope", "n\x1b]0;owned\x07"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "GPUSCOPE_LANG": "en"},
        check=False,
    )
    assert ran.returncode == 2
    assert b"\x1b" not in ran.stderr
    assert b"owned" in ran.stderr


def test_the_door_stands_to_the_end_of_the_process() -> None:
    code = (
        "import atexit, sys\n"
        "from gpuscope.cli.app import main\n"
        "sys.argv = ['gpuscope', '--version']\n"
        "atexit.register(lambda: print('last \\x1b]0;owned\\x07'))\n"
        "main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"last \\x1b]0;owned\\x07" in ran.stdout
    assert b"\x1b" not in ran.stdout


PAST = {"__stdout__", "__stderr__"}
WORTH_A_LOOK = re.compile(r"__std(out|err)__|rich_proxied|onsole\(|rich\b|os\.(write|fdopen)|tty")
MAY = {
    "views/terminal/console.py": "the console itself",
    "document/printable.py": "the door itself",
    "cli/__init__.py": "a handler of signals, which may not use streams, says one word of ours",
}
"""Files that may make a console or reach a raw stream, and why."""


def _past_the_door(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in PAST:
            yield node.attr
        if isinstance(node, ast.Attribute) and node.attr == "rich_proxied_file":
            yield node.attr
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name.rpartition(".")[2] in ("Console", "get_console") or name == "rich.print":
                yield name
            first = ast.unparse(node.args[0]) if node.args else ""
            if name in ("os.write", "os.fdopen", "open") and first in (
                "1",
                "2",
                "'/dev/tty'",
                "sys.stdout.fileno()",
                "sys.stderr.fileno()",
            ):
                yield f"{name}({first})"
        if isinstance(node, ast.ImportFrom) and node.module == "rich":
            yield from (f"rich.{n.name}" for n in node.names if n.name in ("print", "get_console"))


def test_no_module_writes_past_the_door() -> None:
    found = {}
    for path in SOURCE.rglob("*.py"):
        name, text = str(path.relative_to(SOURCE)), path.read_text("utf-8")
        if name not in MAY and WORTH_A_LOOK.search(text):
            past = list(_past_the_door(ast.parse(text)))
            found.update({name: past} if past else {})
    assert not found


def test_the_door_is_only_one() -> None:
    """A stream that is guarded already is not guarded again."""
    with standing():
        out = sys.stdout
        assert isinstance(out, Door)
        with behind_doors():
            assert sys.stdout is out


@given(every, st.booleans())
def test_a_saved_run_that_needs_it_is_walked_through(text: str, ascii_only: bool) -> None:
    from gpuscope.run.reader import _MAY_BE_OBEYED

    written = json.dumps({"name": text}, ensure_ascii=ascii_only)
    assert _MAY_BE_OBEYED.search(written) or one_line(text) == text or not _is_utf8(written)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
