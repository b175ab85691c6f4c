"""A terminal emulator for the command line: what a screen shows, and what was sent to it."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import dataclass
from unittest import mock

import pyte

from gpuscope.cli.app import make_app

EVIL = (
    "k\x1bc\x1b]0;owned\x07\x1b]52;c;cm0gLXJm\x07\x1b[2J\x1b[H\x9b31m\x9d0;owned\x9c\b\b\r\n"
    "FORGED all is well\u2028FORGED\x85\u202etxt\u2066\u200f\u061c\x7f\x00[link=x][bold]"
)
"""A title, the clipboard, a cleared screen, a forged line, directions, a reset, rich's markup."""

SEQUENCE = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AKG]|\r")
"""What a console of ours sends: colours; of a spinner, the cursor hidden, a line up, erased."""

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Tty(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Shown:
    """What a command did to a terminal.

    Attributes:
        sent: every character.
        title: the window's afterwards.
        lines: the screen.
        code: the exit code.
    """

    sent: str
    title: str
    lines: tuple[str, ...]
    code: int

    def check(self) -> Shown:
        """Nothing was obeyed that gpuscope did not ask for, and no line was forged."""
        assert self.title == ""
        own = SEQUENCE.sub("", self.sent)
        left = OBEYED.search(own)
        assert left is None, repr(own[max(left.start() - 200, 0) : left.end() + 100])
        # By what was sent: a terminal breaks lines of JSON anywhere. A cell of ours may be broken
        # behind a line end that is shown.
        sent = own.split("\n")
        forged = [
            line
            for before, line in zip(["", *sent], sent, strict=False)
            if line.strip(" │|●•·…-").startswith("FORGED") and "\\n" not in before
        ]
        assert not forged, forged
        return self


def on_a_terminal(*arguments: object, lines: int = 200) -> Shown:
    """Run a command line on an emulated terminal."""
    below = io.BytesIO()
    stream = Tty(below, encoding="utf-8", errors="replace", write_through=True)
    words = [str(each) for each in arguments]
    environment = {"GPUSCOPE_LANG": "en", "TERM": "xterm-256color", "COLUMNS": "120"}
    code = 0
    with (
        mock.patch.object(sys, "stdout", stream),
        mock.patch.object(sys, "stderr", stream),
        mock.patch.object(sys, "argv", ["gpuscope", *words]),
        mock.patch.dict("os.environ", environment),
    ):
        try:
            make_app()(words, prog_name="gpuscope")
        except SystemExit as end:
            code = int(end.code or 0)
    return emulated(below.getvalue(), lines, code)


def rows(screen: pyte.Screen) -> list[str]:
    """The rows of a screen. pyte's own `display` fails on half of a wide character that was
    overwritten, as happens while a smaller window is being drawn."""
    return [
        "".join(screen.buffer[row][column].data for column in range(screen.columns))
        for row in range(screen.lines)
    ]


def emulated(sent: bytes, lines: int = 200, code: int = 0) -> Shown:
    """Send bytes to the emulator."""
    screen = pyte.Screen(400, lines)
    pyte.ByteStream(screen).feed(sent.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    shown = tuple(line.rstrip() for line in rows(screen))
    return Shown(sent.decode("utf-8", "replace").replace("\r\n", "\n"), screen.title, shown, code)
