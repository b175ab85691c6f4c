"""What a process is called, without what else stands in its command line."""

from __future__ import annotations

import pytest

from gpuscope.measurement.sensors.types import ProcessUse, Reading
from gpuscope.watch.process_names import short_name, with_names


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("python train.py --token SECRET", "python train.py"),
        ("/usr/bin/python3.11 -u /home/me/run.py x", "python3.11 run.py"),
        ("python -m torch.distributed.run --nproc 8 a.py", "python -m torch.distributed.run"),
        ("python -c print(1)", "python -c"),
        ("python -X dev -W error a.py", "python a.py"),
        ("python", "python"),
        ("python -m", "python -m"),
        ("/opt/vllm/server --key SECRET", "server"),
    ],
)
def test_only_program_and_script_are_told(line: str, name: str) -> None:
    found = short_name(line.split(" "))
    assert found == name
    assert "SECRET" not in found


def named(tmp_path, process: ProcessUse) -> str:
    (tmp_path / "7").mkdir(exist_ok=True)
    (tmp_path / "7" / "cmdline").write_bytes(b"/usr/bin/python\0train.py\0--lr\0" + b"1\0")
    (found,) = with_names(Reading(0.0, processes=(process,)), tmp_path).processes or ()
    return found.name


def test_names_come_from_the_host_where_it_can_tell(tmp_path) -> None:
    assert named(tmp_path, ProcessUse(7, "/usr/bin/python")) == "python train.py"
    assert named(tmp_path, ProcessUse(7)) == "python train.py"
    assert named(tmp_path, ProcessUse(8, "python")) == "python"  # not here


def test_another_process_of_that_number_is_not_believed(tmp_path) -> None:
    """In a container the driver's numbers may be those of the host outside."""
    assert named(tmp_path, ProcessUse(7, "ollama")) == "ollama"


def test_no_processes_stay_none(tmp_path) -> None:
    assert with_names(Reading(0.0), tmp_path).processes is None


def test_a_process_that_calls_itself_anything_stays_one_line(tmp_path) -> None:
    """Any user of a shared machine reaches the administrator's screen with this."""
    assert named(tmp_path, ProcessUse(8, "x\x1b]0;owned\x07\nroot")) == r"x\x1b]0;owned\x07\nroot"
    (tmp_path / "9").mkdir()
    evil = "python\0/home/\u202ex\x1b[2J.py\0".encode()
    (tmp_path / "9" / "cmdline").write_bytes(evil)
    (found,) = with_names(Reading(0.0, processes=(ProcessUse(9),)), tmp_path).processes or ()
    assert found.name == r"python \u202ex\x1b[2J.py"
