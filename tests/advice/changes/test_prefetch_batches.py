"""Input copied one step ahead: hidden beside the kernels, for one more buffer."""

import pytest
import torch
from changed_cases import case_of
from torch.utils.data import DataLoader, Dataset

from gpuscope.advice.registry import find

ROWS = 8192
BATCH_BYTES = ROWS * 1024 * 4


def _fixed():
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
    x = torch.randn(ROWS, 1024)
    return lambda: model(x.to("cuda")).sum().backward()


class Rows(Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(ROWS, 1024)


def _loading(workers: int):
    def build():
        model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
        batches = iter(DataLoader(Rows(), batch_size=None, num_workers=workers, pin_memory=True))
        return lambda: model(next(batches).to("cuda", non_blocking=True)).sum().backward()

    return build


def _copies(case) -> list:
    return [op for op in case.program.ops if op.phase == "input"]


@pytest.mark.parametrize("build", [_fixed, _loading(0), _loading(2)])
def test_copied_beside_the_kernels(build) -> None:
    plain, changed = case_of(build), case_of(build, "prefetch-batches")
    (copy,) = _copies(changed)
    assert copy.stream != 0
    assert not copy.sync
    assert copy.inputs[-1].pinned
    assert [c.stream for c in _copies(plain)] == [0]
    assert changed.run.step_time_s <= plain.run.step_time_s * 1.001


def test_the_whole_copy_is_hidden() -> None:
    plain, changed = case_of(_fixed), case_of(_fixed, "prefetch-batches")
    link_s = BATCH_BYTES / plain.device.host_link_bandwidth_bytes_per_s
    assert plain.run.step_time_s - changed.run.step_time_s > 0.8 * link_s


def test_the_kernels_wait_for_the_copy_of_the_step_before() -> None:
    program = case_of(_fixed, "prefetch-batches").program
    (copy,) = [op for op in program.ops if op.phase == "input"]
    (first, *_) = [op for op in program.ops if op.waits]
    assert first.waits == (copy.index - len(program.ops),)


def test_a_second_buffer_is_held() -> None:
    plain, changed = case_of(_fixed), case_of(_fixed, "prefetch-batches")
    more = changed.run.peak_memory_bytes - plain.run.peak_memory_bytes
    assert more == BATCH_BYTES
    assert "32.0 MiB" in find("prefetch-batches").price(plain)


def test_where_it_fits() -> None:
    change = find("prefetch-batches")
    assert change.fits(case_of(_fixed)).applies
    assert "already" in change.fits(case_of(_fixed, "prefetch-batches")).why
    assert not change.fits(case_of(lambda: lambda: torch.ones(4, device="cuda") * 2)).relevant
