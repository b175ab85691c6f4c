"""Does device memory give back what was written? Patterns over a bounded share of what is free.

Run as a process of its own (`python -m gpuscope.doctor.probes.deep_memory`). Every pattern is
written to all blocks before the first is read again, so that caches, which are far smaller, cannot
answer for the memory. The patterns are those of memory tests everywhere (A. van de Goor, "Testing
Semiconductor Memories", 1991): all zeros and ones and alternating bits find cells that stick, a
single one walking through the zeros (and a zero through the ones) finds lines that are shorted,
each word's own number finds addresses that are mixed up, and random words find what depends on the
neighbours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuscope.doctor.probes.deep_devices import Json, answer, free_bytes, on_each, say
from gpuscope.document.text import Text

if TYPE_CHECKING:
    import torch

    from gpuscope.measurement.accelerator import Accelerator

LIMIT_S = 80.0
SHARE = 0.8
"""Of the memory that nobody holds; the rest is left to others."""

BLOCK_BYTES = 1 << 30
MOST_S = 20.0
"""No pattern is begun after this; what was tested by then counts."""

_ALTERNATING = 0x5555555555555555


@dataclass
class Tally:
    """What a test of a memory found.

    Attributes:
        bytes_tested: written and read again by every pattern.
        patterns: those that were completed.
        wrong_words: of 8 bytes, over all patterns.
        first: the first wrong word: pattern, byte offset among the tested ones, bits that differ.
    """

    bytes_tested: int = 0
    patterns: list[str] = field(default_factory=list)
    wrong_words: int = 0
    first: Json | None = None

    def note(self, pattern: str, at_word: int, wrong: Any, got: Any, wanted: Any) -> None:
        """Count the wrong words of one block.

        Args:
            pattern: which.
            at_word: number of the block's first word.
            wrong: mask of the words that differ.
            got, wanted: the words.
        """
        import torch

        count = int(torch.count_nonzero(wrong))
        if not count:
            return
        self.wrong_words += count
        if self.first is None:
            at = int(torch.nonzero(wrong)[0])
            differing = int(got[at]) ^ int(wanted[at])
            self.first = {
                "pattern": pattern,
                "offset_bytes": 8 * (at_word + at),
                "flipped_bits": (differing & (1 << 64) - 1).bit_count(),
            }


Fill = Callable[[int, "torch.Tensor"], object]
"""Writes a block, given the number of its first word."""


def patterns(words: int, device: str) -> Iterator[tuple[str, Fill]]:
    """Yield names, and what fills a block with the pattern.

    Args:
        words: of a block.
        device: where the blocks are.
    """
    import torch

    def constant(value: int) -> Fill:
        return lambda _, block: block.fill_(value)

    yield "zeros", constant(0)
    yield "ones", constant(-1)
    yield "alternating", constant(_ALTERNATING)
    yield "alternating, inverted", constant(~_ALTERNATING)

    def walking(at: int, block: torch.Tensor) -> None:
        step = 1 << 24  # bounds the temporary tensors: 128 MiB each
        shifts = torch.arange(min(step, words), dtype=torch.int64, device=device)
        one = torch.ones((), dtype=torch.int64, device=device)
        for begin in range(0, words, step):
            part = block[begin : begin + step]
            part.copy_(one << ((shifts[: part.numel()] + at + begin) % 64))

    yield "walking one", walking

    def walking_zero(at: int, block: torch.Tensor) -> None:
        walking(at, block)
        block.bitwise_not_()

    yield "walking zero", walking_zero

    def address(at: int, block: torch.Tensor) -> None:
        torch.arange(at, at + words, dtype=torch.int64, device=device, out=block)

    yield "address", address

    def inverted(at: int, block: torch.Tensor) -> None:
        address(at, block)
        block.bitwise_not_()

    yield "address, inverted", inverted

    def scattered(at: int, block: torch.Tensor) -> None:
        draw = torch.Generator(device=device).manual_seed(at)
        block.random_(generator=draw)

    yield "random", scattered


def try_blocks(
    blocks: Sequence[torch.Tensor],
    spare: torch.Tensor,
    device: str,
    deadline_s: float,
    wait: Callable[[], None] = lambda: None,
) -> Tally:
    """Write and read every block with every pattern.

    Args:
        blocks: int64, all of one size.
        spare: one more, for what is expected.
        device: where they are.
        deadline_s: on the clock of `time.perf_counter`; no pattern is begun after it.
        wait: between writing and reading; a test may spoil the memory here.
    """
    words = int(spare.numel())
    tally = Tally(bytes_tested=8 * words * len(blocks))
    for name, fill in patterns(words, device):
        if time.perf_counter() > deadline_s:
            break
        for number, block in enumerate(blocks):
            fill(number * words, block)
        wait()
        for number, block in enumerate(blocks):
            fill(number * words, spare)
            tally.note(name, number * words, block != spare, block, spare)
        tally.patterns.append(name)
    return tally


def allocated(free: int, share: float, block_bytes: int, device: str) -> list[torch.Tensor]:
    """Return blocks of a share of the free memory, as far as they are to be had; at least two.

    Args:
        free: bytes that nobody holds.
        share: of them, at most, with the spare block.
        block_bytes: of each, at most; less where little is free.
        device: where.

    Raises:
        RuntimeError: not even the first two are to be had.
    """
    import torch

    size = min(block_bytes, max(1 << 20, int(free * share) // 4))
    blocks: list[torch.Tensor] = []
    while len(blocks) < 2 or (len(blocks) + 1) * size <= free * share:
        try:
            blocks.append(torch.empty(size // 8, dtype=torch.int64, device=device))
        except RuntimeError as error:
            if "out of memory" not in str(error) or len(blocks) < 3:
                raise
            blocks.pop()  # the comparison needs some memory, too
            break
    return blocks


def ecc_counts(index: int) -> Json:
    """Memory errors that the device has counted since the driver was loaded; null where untold.

    Args:
        index: as PyTorch counts.
    """
    found: Json = {"corrected": None, "uncorrected": None}
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = _handle(pynvml, index)
    except Exception:  # no such library, device or driver: then nothing is known
        return found
    for number, name in enumerate(found):
        try:
            found[name] = int(pynvml.nvmlDeviceGetTotalEccErrors(handle, number, 0))
        except pynvml.NVMLError:
            found[name] = None
    pynvml.nvmlShutdown()
    return found


def _handle(nvml: Any, index: int) -> Any:
    """NVML's handle of PyTorch's device: by its identifier; by its number where a virtual machine
    gives another identifier."""
    from gpuscope.measurement.sensors.visible import torch_uuid, visible

    uuid = torch_uuid(index)
    try:
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    except (nvml.NVMLError, TypeError):
        wanted = visible(index)
        if isinstance(wanted, int):
            return nvml.nvmlDeviceGetHandleByIndex(wanted)
        return nvml.nvmlDeviceGetHandleByUUID(wanted)


def tested(accelerator: Accelerator) -> Json:
    """Test the memory of one device."""
    free = free_bytes(accelerator) or (1 << 30)
    before = ecc_counts(accelerator.index) if accelerator.kind == "cuda" else {}
    blocks = allocated(free, SHARE, BLOCK_BYTES, accelerator.torch_name)
    began = time.perf_counter()
    tally = try_blocks(
        blocks[1:], blocks[0], accelerator.torch_name, began + MOST_S, accelerator.synchronize
    )
    took = time.perf_counter() - began
    after = ecc_counts(accelerator.index) if accelerator.kind == "cuda" else {}
    return {
        "free_bytes": free,
        "bytes_tested": tally.bytes_tested,
        "patterns": tally.patterns,
        "wrong_words": tally.wrong_words,
        "first": tally.first,
        "seconds": took,
        "ecc_new": {name: _more(before[name], after[name]) for name in before},
    }


def _more(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def memory(accelerators: list[Accelerator]) -> Json:
    """Test the memory of every device, all at the same time."""
    say(Text("memory patterns"))
    return {"devices": on_each(accelerators, tested)}


if __name__ == "__main__":
    answer(memory, limit_s=LIMIT_S)
