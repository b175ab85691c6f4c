"""One file is all: one of each sort in a package of the user's own is seen everywhere."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from gpuscope import children
from gpuscope.registry import PLUGINS, Registry

EXTRAS = '''
from gpuscope.advice.change import Change
from gpuscope.advice.registry import register
from gpuscope.advice.types import Fit
from gpuscope.analysis.findings import Facts, finding
from gpuscope.analysis.types import Finding
from gpuscope.cost.bandwidth import Launch, kernel
from gpuscope.cost.registry import kernel_model
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding as Found
from gpuscope.document.blocks import Explanation
from gpuscope.document.text import Text, verbatim
from gpuscope.learn.lessons.registry import lesson
from gpuscope.measurement.sensors.registry import sensor_vendor


@finding("zebra_crossing", needs="time")
def zebra_crossing(facts: Facts) -> Finding:
    return Finding("zebra_crossing", verbatim("A zebra crosses."), verbatim("Stripes."), 1e-9)


@kernel_model("zebra::trot")
def trot(work):
    moved = sum(tensor.nbytes for tensor in work.inputs)
    return (kernel(work, Launch("zebra_trot", "pointwise", 0.0, float(moved), 0.0)),)


@check("zebra_check", "software", Text("Whether there are zebras"))
def zebra_check(machine):
    yield Found("zebra_check", "ok", verbatim("No zebras."), verbatim("None seen."))


@lesson("zebras", 99, verbatim("Zebras"), verbatim("What is a zebra?"))
def zebras():
    return Explanation("lesson", verbatim("Zebras"), (verbatim("They have stripes."),), ())


class Stripes(Change):
    """Paint stripes."""

    name = "zebra-stripes"
    title = verbatim("stripes")
    group = "operators"

    def fits(self, case):
        return Fit(True, verbatim("Everything can have stripes."))

    def install(self, live):
        pass


register(Stripes())


@sensor_vendor("zebra")
def opened(index):
    return None
'''

BUILD = """
import torch

@torch.library.custom_op("zebra::trot", mutates_args=())
def trot(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@trot.register_fake
def _(x):
    return torch.empty_like(x)

def build():
    x = torch.randn(1 << 20, device="cuda")
    return lambda: trot(x)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("extras")
    (path / "zebra_extras.py").write_text(EXTRAS)
    (path / "work.py").write_text(BUILD)
    return path


EACH = """
import json, sys
from gpuscope.cli.app import main
for line in json.loads(sys.argv[1]):
    sys.argv = ["gpuscope", *line.split()]
    print("$", line, flush=True)
    try:
        main()
    except SystemExit as end:
        assert end.code in (None, 0, 1), end.code
    sys.stdout.flush()
print("$ sensors")
from gpuscope.measurement.sensors.registry import vendors
print([v.name for v in vendors()])
"""
"""Commands one after the other, with what each prints under its line."""
COMMANDS = (
    "predict work.py:build --on h200 --report page.html",
    "predict work.py:build --on h200 --json",
    "advise --list",
    "doctor --list",
    "learn",
    "doctor --json",
)


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, str]:
    """What each command prints."""
    (folder / "each.py").write_text(EACH)
    parts = run(folder, "each", json.dumps(COMMANDS)).split("$ ")[1:]
    told = {line: text for line, _, text in (part.partition("\n") for part in parts)}
    assert set(told) == {*COMMANDS, "sensors"}
    return told


def run(folder: Path, module: str, *words: str) -> str:
    environment = {**children.environment(), PLUGINS: "zebra_extras", "GPUSCOPE_LANG": "en"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), environment["PYTHONPATH"]])
    done = subprocess.run(
        children.python(module, *words),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_a_finding_and_a_kernel_model_are_in_terminal_json_and_page(
    folder: Path, said: dict[str, str]
) -> None:
    assert "A zebra crosses." in said[COMMANDS[0]]
    assert "A zebra crosses." in (folder / "page.html").read_text("utf-8")
    document = json.loads(said[COMMANDS[1]])
    found = document["analysis"]["findings"]
    assert "zebra_crossing" in {each["kind"] for each in found}
    assert "zebra_trot" in json.dumps(document)
    assert document["program"]["unsupported"] == []


@pytest.mark.parametrize(
    ("command", "name"),
    [("advise --list", "zebra-stripes"), ("doctor --list", "zebra_check"), ("learn", "Zebras")],
)
def test_lists_show_it(said: dict[str, str], command: str, name: str) -> None:
    assert name in said[command]


def test_a_check_runs(said: dict[str, str]) -> None:
    assert "zebra_check" in json.dumps(json.loads(said["doctor --json"]))


def test_a_sensor_is_known(said: dict[str, str]) -> None:
    assert "'zebra'" in said["sensors"]


def test_a_module_that_is_not_there_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuscope.errors import MissingPackageError

    monkeypatch.setenv(PLUGINS, "no_such_zebras")
    with pytest.raises(MissingPackageError, match="no_such_zebras"):
        Registry[int]("number", "json").load()


def test_a_registry_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuscope.errors import UnknownNameError

    monkeypatch.delenv(PLUGINS, raising=False)
    numbers = Registry[int]("number", "json", "gpuscope numbers")
    assert numbers.add("two", 2) == numbers.add("two", 2)
    with pytest.raises(ValueError, match="two"):
        numbers.add("two", 3)
    numbers.add("one", 1)
    assert (numbers.names(), list(numbers), numbers.find("three")) == (("one", "two"), [1, 2], None)
    with pytest.raises(UnknownNameError, match="gpuscope numbers"):
        numbers.get("three")
    with numbers.replaced({"three": 3}):
        assert list(numbers) == [3]
    assert list(numbers) == [1, 2]
    assert numbers.drop("one") == 1
    assert numbers.names() == ("two",)
