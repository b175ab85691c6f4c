"""Every figure of an explanation into a folder, as SVG and PNG: all of them or none."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from gpuscope.atomic import whole_folder, write_atomically
from gpuscope.document.blocks import Bars, Block, Diagram, Explanation, Explorer, HeatMap, Lines
from gpuscope.document.plain import utf8
from gpuscope.document.text import Text
from gpuscope.errors import InputFileError, require_package
from gpuscope.views.pictures.drawing import can_draw, png, svg

_LONGEST = 48


def write_pictures(explanation: Explanation, folder: str | Path, lang: str = "en") -> list[Path]:
    """Write every figure of an explanation as `NN-slug.svg` and `NN-slug.png`.

    Args:
        explanation: what is drawn, in its order.
        folder: made if it is missing; other files in it stay.
        lang: "en" or "zh".

    Returns:
        The files written; none for an explanation without a figure.

    Raises:
        InputFileError: the folder cannot be written.
        MissingPackageError: matplotlib is not installed.
    """
    blocks = [block for section in explanation.sections for block in section.blocks]
    return write_blocks(blocks, folder, lang)


def write_blocks(blocks: Sequence[Block], folder: str | Path, lang: str = "en") -> list[Path]:
    """Write the figures among some blocks; arguments and errors as `write_pictures`."""
    check_folder(folder)
    require_package("matplotlib", "Writing figures", "figures")
    files: dict[str, bytes] = {}
    for number, block in enumerate((b for b in blocks if can_draw(b)), 1):
        stem = f"{number:02d}-{_slug(block)}"
        files[f"{stem}.svg"] = utf8(svg(block, lang))
        files[f"{stem}.png"] = png(block, lang)
    if files:
        _write(files, Path(folder))
    return [Path(folder) / name for name in files]


def check_folder(folder: str | Path) -> None:
    """Refuse a folder that could not be written, before the work that would fill it.

    Raises:
        InputFileError: it is a file, its parent is missing, or it may not be written to.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputFileError(
            Text("{target} is a file.", target=target),
            Text("Figures need a folder."),
            Text("Name another one."),
        )
    holder = target if target.is_dir() else target.parent
    if not holder.is_dir():
        raise InputFileError(
            Text("Cannot make {target}.", target=target),
            Text("The folder {holder} does not exist.", holder=holder),
            Text("Type: mkdir -p {holder}", holder=holder),
        )
    if not os.access(holder, os.W_OK):
        raise InputFileError(
            Text("Cannot write to {target}.", target=target),
            Text("{holder} may not be written to.", holder=holder),
            Text("Choose another folder."),
        )


def _write(files: dict[str, bytes], target: Path) -> None:
    """A new folder takes its name when all is in it; into an old one go whole files."""
    if target.is_dir():
        for name, content in files.items():
            write_atomically(target / name, content)
        return
    try:
        with whole_folder(target) as made:
            for name, content in files.items():
                write_atomically(made / name, content)
    except OSError as error:
        raise InputFileError(
            Text("Cannot make {target}.", target=target),
            str(error.strerror or error),
            Text("Choose another folder."),
        ) from error


def _slug(block: Block) -> str:
    """A file's name from the English title: "time-by-kernel-family"."""
    assert isinstance(block, Bars | Lines | HeatMap | Diagram | Explorer)
    plain = re.sub(r"[^a-z0-9]+", "-", str(block.title).lower()).strip("-")
    return plain[:_LONGEST].rstrip("-") or type(block).__name__.lower()
