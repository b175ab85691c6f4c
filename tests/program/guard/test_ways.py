"""99 ways to leave something behind, gone under each guard: no file is another than before."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuscope import children

_SPEC = importlib.util.spec_from_file_location("guard_ways", Path(__file__).parent / "ways.py")
assert _SPEC is not None
assert _SPEC.loader is not None
ways = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(ways)

GUARDS: dict[str, dict[str, str]] = {
    "overlay": {},
    "hook": {"GPUSCOPE_NO_OVERLAY": "1"},
    "hook alone": {"GPUSCOPE_NO_OVERLAY": "1", "WITHOUT_LANDLOCK": "1"},
}

UNSEEN = {"libc", "torch_jit_module_save", "torch_file_writer", "pyarrow"}
"""What a hook alone does not see: files that another language opens by itself."""


@dataclass(frozen=True)
class Went:
    """What the ways came to under one guard."""

    held: dict[str, Any]
    said: dict[str, str]
    changed: list[str]
    alive: bool


@pytest.fixture(scope="module", params=GUARDS)
def went(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Went:
    base = tmp_path_factory.mktemp("guard")
    victims, scratch = base / "victims", base / "scratch"
    scratch.mkdir()
    for name in ways.WAYS:
        ways.prepare(victims / name)
    before = {name: ways.state(victims / name) for name in ways.WAYS}
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        done = subprocess.run(
            [sys.executable, ways.__file__, str(victims), str(other.pid), str(scratch)],
            env=children.environment(os.environ) | GUARDS[request.param] | {"HOME": str(victims)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        alive = other.poll() is None
        other.kill()
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    held = lines[0] if lines else {}
    said = {name: text for line in lines[1:] for name, text in line.items()}
    if held.get("way", held.get("held")) != request.param.split()[0]:
        pytest.skip(f"this machine has no {request.param}: {held} {done.stderr[-300:]}")
    assert {path.name for path in victims.iterdir()} == set(ways.WAYS)
    changed = [name for name in ways.WAYS if ways.state(victims / name) != before[name]]
    return Went(held, said, changed, alive)


def test_no_way_changes_anything(went: Went) -> None:
    unseen = set() if went.held["kernel"] else UNSEEN
    assert set(went.changed) <= unseen
    assert set(went.said) == set(ways.WAYS)  # none of them ended the process
    assert went.alive


def test_other_machines_and_processes_are_out_of_reach(went: Went) -> None:
    for name in (*ways.ENDS, "kill_by_descriptor", "kill_by_program"):
        assert went.said[name] != "done", name


def test_a_refusal_is_caught_by_no_exception_handler(went: Went) -> None:
    """`ways.main` catches `Exception` first; what is marked got by that."""
    if went.held["held"] == "overlay":
        pytest.skip("the kernel answers")
    for name in ("posix_remove", "posix_open", "kill", "connect"):
        assert went.said[name].startswith("!RefusedError: ways.py wants to"), name


USUAL = {
    *("open_w", "open_a", "open_r_plus", "open_x", "write_text", "path_mkdir", "os_makedirs"),
    *("os_replace_from_temporary", "shutil_move_in", "shutil_copytree", "shutil_rmtree"),
    *("os_remove_dir_fd", "os_rename_dir_fd", "path_symlink", "os_link", "sqlite", "log_file"),
    *("torch_save", "torch_jit_save", "safetensors", "numpy_save", "thread", "gzip", "zipfile"),
    *(
        "cache_that_is_not_there",
        "forked",
        "multiprocessing_fork",
        "mapped",
        "os_truncate",
        "os_chmod",
        "in_place",
    ),
}


def test_usual_work_is_done(went: Went) -> None:
    """Nothing is refused that could be done on a copy."""
    assert {name: said for name, said in went.said.items() if name in USUAL} == dict.fromkeys(
        went.said.keys() & USUAL, "done"
    )
