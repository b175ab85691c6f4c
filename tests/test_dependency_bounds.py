"""What gpuscope needs has a lowest and a highest version, and those installed lie between."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from lowest import lowest  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = {n: r for n, r in PROJECT["optional-dependencies"].items() if n != "dev"}
ALL = sorted({*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)})


@pytest.mark.parametrize("stated", ALL)
def test_both_bounds_are_stated_and_hold_here(stated: str) -> None:
    requirements = pytest.importorskip("packaging.requirements")
    needed = requirements.Requirement(stated)
    assert sorted(each.operator for each in needed.specifier) == ["<", ">="]
    try:
        installed = version(needed.name)
    except PackageNotFoundError:
        return
    assert needed.specifier.contains(installed, prereleases=True)


def test_one_package_has_one_pair_of_bounds() -> None:
    names = [each.partition(">=")[0] for each in ALL]
    assert len(names) == len(set(names))


def test_the_lowest_versions_are_those_stated() -> None:
    found = list(lowest(("torch", "figures")))
    assert "msgspec==0.18.5" in found
    assert "torch==2.6" in found
    assert len(found) == len(PROJECT["dependencies"]) + 2
