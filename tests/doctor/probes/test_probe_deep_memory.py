from __future__ import annotations

import time

import pytest
import torch

from gpuscope.doctor.probes import deep_memory
from gpuscope.doctor.probes.deep_memory import allocated, patterns, try_blocks

WORDS = 1 << 10
LATER = 1e9


def _blocks(count: int) -> list[torch.Tensor]:
    return [torch.empty(WORDS, dtype=torch.int64) for _ in range(count)]


def _filled(name: str, at: int = 0) -> torch.Tensor:
    block = torch.empty(WORDS, dtype=torch.int64)
    dict(patterns(WORDS, "cpu"))[name](at, block)
    return block


def test_good_memory_is_found_good() -> None:
    tally = try_blocks(_blocks(3), *_blocks(1), "cpu", time.perf_counter() + LATER)
    assert tally.wrong_words == 0
    assert tally.first is None
    assert tally.bytes_tested == 3 * 8 * WORDS
    assert tally.patterns == [name for name, _ in patterns(WORDS, "cpu")]


def test_patterns_are_what_they_are_called() -> None:
    assert _filled("zeros").abs().sum() == 0
    assert _filled("ones").unique().tolist() == [-1]
    assert _filled("walking one")[:64].tolist() == [*(1 << bit for bit in range(63)), -(1 << 63)]
    assert _filled("walking one", at=65)[0] == 2  # goes on where the block before ended
    assert torch.equal(_filled("walking zero"), ~_filled("walking one"))
    assert _filled("address", at=4 * WORDS).tolist() == list(range(4 * WORDS, 5 * WORDS))
    assert not torch.equal(_filled("random", at=0), _filled("random", at=WORDS))
    assert torch.equal(_filled("random", at=7), _filled("random", at=7))


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("bit", [0, 31, 63])
def test_a_bit_that_sticks_is_found(bit, value) -> None:
    blocks = _blocks(3)
    mask = (1 << bit) - (1 << 64) if bit == 63 else 1 << bit

    def stick() -> None:
        word = int(blocks[1][77])
        blocks[1][77] = word | mask if value else word & ~mask

    tally = try_blocks(blocks, *_blocks(1), "cpu", time.perf_counter() + LATER, stick)
    assert tally.wrong_words >= 3  # in about half of the patterns
    assert tally.first is not None
    assert tally.first["offset_bytes"] == 8 * (WORDS + 77)
    assert tally.first["flipped_bits"] == 1


def test_mixed_up_addresses_are_found_by_the_address_pattern_alone() -> None:
    """Two blocks that are one: constant patterns cannot tell."""
    block = torch.empty(WORDS, dtype=torch.int64)
    seen: list[str] = []
    blocks = [block, block]
    tally = try_blocks(blocks, *_blocks(1), "cpu", time.perf_counter() + LATER)
    assert tally.wrong_words > 0
    assert tally.first is not None
    seen.append(tally.first["pattern"])
    assert seen == ["address"]


def test_no_pattern_is_begun_when_time_is_up() -> None:
    tally = try_blocks(_blocks(1), *_blocks(1), "cpu", time.perf_counter() - 1)
    assert tally.patterns == []


@pytest.mark.parametrize(
    ("free", "share", "most", "blocks"),
    [
        (100 << 20, 0.8, 10 << 20, 8),
        (100 << 20, 0.5, 10 << 20, 5),
        (10 << 20, 0.8, 1 << 30, 4),  # four at least: little is free
    ],
)
def test_only_a_share_of_the_free_memory_is_taken(free, share, most, blocks) -> None:
    found = allocated(free, share, most, "cpu")
    assert len(found) == blocks
    assert sum(each.nbytes for each in found) <= free * share
    assert len({each.nbytes for each in found}) == 1


def test_memory_that_runs_out_leaves_room_for_the_comparison(monkeypatch) -> None:
    real, made = torch.empty, []

    def scarce(*args: object, **kwargs: object) -> torch.Tensor:
        if len(made) == 5:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        made.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(torch, "empty", scarce)
    assert len(allocated(100 << 20, 0.8, 10 << 20, "cpu")) == 4


def test_new_errors_are_counted_only_where_both_readings_are_known() -> None:
    assert deep_memory._more(2, 5) == 3
    assert deep_memory._more(None, 5) is None
    assert deep_memory._more(2, None) is None


class _Library:
    class NVMLError(Exception):
        pass

    def __init__(self, uuids: list[str]) -> None:
        self._uuids = uuids

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in self._uuids:
            raise self.NVMLError
        return uuid

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return self._uuids[index]


def test_the_device_is_found_by_identifier_or_number(monkeypatch) -> None:
    from gpuscope.measurement.sensors import visible

    library = _Library(["GPU-a", "GPU-b"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(visible, "torch_uuid", lambda index: "GPU-b")
    assert deep_memory._handle(library, 0) == "GPU-b"
    monkeypatch.setattr(visible, "torch_uuid", lambda index: "GPU-another")
    assert deep_memory._handle(library, 1) == "GPU-b"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert deep_memory._handle(library, 0) == "GPU-b"
    with pytest.raises(_Library.NVMLError):
        deep_memory._handle(library, 5)


def test_without_a_device_nothing_is_counted() -> None:
    assert deep_memory.ecc_counts(99) == {"corrected": None, "uncorrected": None}
