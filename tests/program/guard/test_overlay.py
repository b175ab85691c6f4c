"""The private copy of all files, where the kernel refuses it for one of the folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os
from gpuscope.program.guard import kernel, overlay

mount, refused = kernel.mount, []

def once(source, target, kind, *more):
    if kind == "overlay" and not refused:
        refused.append(target)
        raise OSError(22, "refused")
    return mount(source, target, kind, *more)

kernel.mount = once
try:
    overlay.enter_overlay()
except OSError as error:
    print("none" if error.errno != 17 else "exists")
else:
    print("copied", len(refused))
"""


def test_one_refused_folder_leaves_the_others_their_copies() -> None:
    ran = subprocess.run(
        [sys.executable, "-P", "-c", CODE], capture_output=True, text=True, check=True
    )
    if ran.stdout == "none\n":
        pytest.skip("the kernel allows no copy here at all")
    assert ran.stdout == "copied 1\n"


FROM_AN_EARLY_FOLDER = """
import sys
from gpuscope.program.guard import overlay

overlay._HERE = "/etc/ssl"
try:
    overlay.enter_overlay()
except OSError as error:
    print("none", error)
else:
    with open(sys.argv[1], "w") as file:
        file.write("changed")
    print("written")
"""


def test_where_gpuscope_itself_lies_does_not_matter(tmp_path: Path) -> None:
    """Folders are covered in order; what lies under the first holds the changes of the others."""
    file = tmp_path / "kept.txt"
    file.write_text("as it was")
    ran = subprocess.run(
        [sys.executable, "-P", "-c", FROM_AN_EARLY_FOLDER, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.stdout.startswith("none"):
        pytest.skip("the kernel allows no copy here at all")
    assert (ran.returncode, ran.stdout) == (0, "written\n"), ran.stderr
    assert file.read_text() == "as it was"
