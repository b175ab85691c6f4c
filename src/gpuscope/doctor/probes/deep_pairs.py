"""Copies from each device to each other one: is what arrives what was sent, and how fast is it?

Run as a process of its own (`python -m gpuscope.doctor.probes.deep_pairs`). One pair at a time, one
direction at a time. Every copy is compared word by word on the device that received it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuscope.doctor.probes.deep_devices import Json, answer, failure, once_s, say, use
from gpuscope.document.text import Text

if TYPE_CHECKING:
    import torch

    from gpuscope.measurement.accelerator import Accelerator

LIMIT_S = 80.0
SIZE_BYTES = 1 << 28
PAIR_S = 0.06
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)
"""2^64 over the golden ratio: multiplied with it, neighbouring numbers get unlike bits."""


def words(count: int, sender: int, device: str) -> torch.Tensor:
    """Return words that differ from each other and from every other sender's.

    Args:
        count: how many, of 8 bytes.
        sender: number of the device that they are sent from.
        device: where to make them.
    """
    import torch

    numbers = torch.arange(count, dtype=torch.int64, device=device)
    return (numbers + sender * count + 1) * _ODD


def pair(sender: Accelerator, receiver: Accelerator, size_bytes: int = SIZE_BYTES) -> Json:
    """Copy from one device to another, compare, and time it."""
    import torch

    count = size_bytes // 8
    source = words(count, sender.index, sender.torch_name)
    target = torch.zeros(count, dtype=torch.int64, device=receiver.torch_name)
    expected = words(count, sender.index, receiver.torch_name)

    def wait() -> None:
        for each in (sender, receiver):
            use(each)
            each.synchronize()

    wait()
    seconds = once_s(lambda: target.copy_(source, non_blocking=True), wait, for_s=PAIR_S)
    wrong = int(torch.count_nonzero(target != expected))
    return {
        "from": sender.index,
        "to": receiver.index,
        "direct": direct(sender, receiver),
        "bytes": 8 * count,
        "seconds": seconds,
        "bytes_per_s": 8 * count / seconds,
        "wrong_words": wrong,
    }


def direct(sender: Accelerator, receiver: Accelerator) -> bool | None:
    """Whether one may reach the other's memory; None where PyTorch does not tell."""
    import torch

    module: Any = getattr(torch, sender.kind, None)
    ask = getattr(module, "can_device_access_peer", None)
    return None if ask is None else bool(ask(sender.index, receiver.index))


def pairs(accelerators: list[Accelerator]) -> Json:
    """Test every ordered pair."""
    from gpuscope.measurement.bench.harness import is_lost

    rows: list[Json] = []
    lost: set[int] = set()
    for sender in accelerators:
        for receiver in accelerators:
            if sender is receiver or {sender.index, receiver.index} & lost:
                continue
            way = {"sender": sender.torch_name, "receiver": receiver.torch_name}
            say(Text("copies from {sender} to {receiver}", **way))
            try:
                rows.append(pair(sender, receiver))
            except Exception as error:
                both = {"from": sender.index, "to": receiver.index}
                rows.append({**both, **failure(error)})
                if is_lost(error):
                    lost |= {sender.index, receiver.index}
    return {"pairs": rows}


if __name__ == "__main__":
    answer(pairs, limit_s=LIMIT_S)
