from __future__ import annotations

import torch

from gpuscope.doctor.probes import deep_pairs
from gpuscope.measurement.accelerator import Accelerator


def _three() -> list[Accelerator]:
    found = [Accelerator("cpu") for _ in range(3)]
    for index, each in enumerate(found):
        each.index = index
    return found


def test_what_is_sent_differs_from_sender_to_sender_and_word_to_word() -> None:
    sent = [deep_pairs.words(1 << 10, sender, "cpu") for sender in range(3)]
    together = torch.cat(sent)
    assert together.unique().numel() == together.numel()
    bits = (int(sent[0][5]) ^ int(sent[0][6])) & (1 << 64) - 1
    assert bits.bit_count() > 10


def test_every_ordered_pair_is_tested(monkeypatch) -> None:
    monkeypatch.setattr(deep_pairs, "SIZE_BYTES", 1 << 16)
    real = deep_pairs.pair
    monkeypatch.setattr(deep_pairs, "pair", lambda a, b: real(a, b, 1 << 16))
    found = deep_pairs.pairs(_three())["pairs"]
    assert {(row["from"], row["to"]) for row in found} == {
        (a, b) for a in range(3) for b in range(3) if a != b
    }
    for row in found:
        assert row["wrong_words"] == 0
        assert row["bytes_per_s"] > 0
        assert row["direct"] is None  # PyTorch does not tell for processors


def test_damage_on_the_way_is_found(monkeypatch) -> None:
    real = torch.Tensor.copy_

    def damaged(target: torch.Tensor, source: torch.Tensor, **_: object) -> torch.Tensor:
        real(target, source)
        target[3] ^= 1 << 40
        return target

    monkeypatch.setattr(torch.Tensor, "copy_", damaged)
    a, b, _ = _three()
    assert deep_pairs.pair(a, b, 1 << 12)["wrong_words"] == 1


def test_a_lost_device_is_not_asked_again(monkeypatch) -> None:
    asked = []

    def pair(a: Accelerator, b: Accelerator) -> dict:
        asked.append((a.index, b.index))
        if 2 in (a.index, b.index):
            raise RuntimeError("CUDA error: unspecified launch failure")
        return {"from": a.index, "to": b.index}

    monkeypatch.setattr(deep_pairs, "pair", pair)
    found = deep_pairs.pairs(_three())["pairs"]
    assert asked == [(0, 1), (0, 2)]
    assert found[1]["lost"]
