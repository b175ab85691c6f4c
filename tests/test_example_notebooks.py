"""The notebooks of examples/notebooks run, from their first cell to the last, and show the page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
SLOW = ("many_devices_and_serving", "predict_and_explain")


def _cases() -> list[Any]:
    names = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    return [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in names]


@pytest.mark.parametrize("name", _cases())
def test_it_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PYTHONPATH", str(FOLDER.parents[1] / "src"))
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells)  # they are made, not kept
    nbclient.NotebookClient(
        book, timeout=240, resources={"metadata": {"path": str(FOLDER)}}
    ).execute()
    first = next(cell for cell in book.cells if cell.cell_type == "code")
    shown = [out.data.get("text/html", "") for out in first.outputs if "data" in out]
    assert shown[-1].startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!doctype html')
