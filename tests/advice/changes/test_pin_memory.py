"""Page-locked input: quicker copies, only where there is something to gain."""

import pytest
import torch
from changed_cases import case_of
from torch.utils.data import DataLoader, TensorDataset

from gpuscope.advice.registry import find
from gpuscope.advice.types import LoaderSeen, Seen


def _build(rows: int = 8192, pinned: bool = False):
    def build():
        linear = torch.nn.Linear(1024, 64).cuda()
        x = torch.randn(rows, 1024)
        x = x.pin_memory() if pinned else x
        return lambda: linear(x.to("cuda")).sum()

    return build


def _loading():
    linear = torch.nn.Linear(1024, 64).cuda()
    data = TensorDataset(torch.randn(1024, 1024))
    batches = iter(DataLoader(data, batch_size=512))
    return lambda: linear(next(batches)[0].cuda()).sum()


@pytest.mark.parametrize("build", [_build(), _loading])
def test_copies_come_from_locked_memory_and_are_quicker(build) -> None:
    plain, changed = case_of(build), case_of(build, "pin-memory")
    kinds = [
        [op.inputs[-1].pinned for op in case.program.ops if op.phase == "input"]
        for case in (plain, changed)
    ]
    assert kinds == [[False], [True]]
    assert changed.run.step_time_s < plain.run.step_time_s
    assert changed.run.peak_memory_bytes == plain.run.peak_memory_bytes


def test_where_it_fits() -> None:
    change = find("pin-memory")
    assert "32.0 MiB" in change.fits(case_of(_build())).why
    tiny = change.fits(case_of(_build(rows=4)))
    assert not tiny.applies
    assert "gain nothing" in tiny.why
    assert "already" in change.fits(case_of(_build(pinned=True))).why
    assert not change.fits(case_of(lambda: lambda: torch.ones(4, device="cuda") * 2)).relevant


def test_edit(tmp_path) -> None:
    file = tmp_path / "train.py"
    file.write_text("loader = DataLoader(data)\n")
    seen = Seen(loaders=(LoaderSeen({}, 10, f"{file}:1"),))
    (edit,) = find("pin-memory").edits({str(file): file.read_text()}, seen)
    assert edit.text == "loader = DataLoader(data, pin_memory=True)\n"
    assert find("pin-memory").edits({}, Seen()) is None
