"""Copies from each device to each other one: what arrives, and how fast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpuscope.doctor import expected as models
from gpuscope.doctor.deep import Answer, against, ask, busy, span, with_share
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding, Severity
from gpuscope.document.quantities import Count, Percent, Rate
from gpuscope.document.text import Text, plural, sentences

NAME = "deep_pairs"
TIMEOUT_S = 150.0
SPREAD = 0.15

Pair = Mapping[str, Any]


@check(NAME, "deep", Text("Copies between each pair of devices: right, and as fast as their link"))
def deep_pairs(machine: Machine) -> Iterable[Finding]:
    """Judge every pair."""
    answer, found = ask(machine, NAME, "deep_pairs", TIMEOUT_S, least_devices=2)
    yield from found
    if answer is None:
        return
    pairs: Sequence[Pair] = answer.data.get("pairs") or ()
    yield from _failed(answer, [pair for pair in pairs if pair.get("error")])
    done = [pair for pair in pairs if not pair.get("error")]
    wrong = [pair for pair in done if pair["wrong_words"]]
    yield from _wrong(answer, wrong)
    slow = _slow(machine, answer, done)
    yield from _told_slow(answer, slow)
    bad = {id(pair) for pair in (*wrong, *(pair for pair, _ in slow))}
    good = [pair for pair in done if id(pair) not in bad]
    if good:
        yield _right(answer, good, len(done), _expected(machine, answer))


def _names(pairs: Iterable[Pair]) -> str:
    shown = [f"{pair['from']}→{pair['to']}" for pair in pairs]
    return ", ".join(shown[:8]) + (f", … ({len(shown)})" if len(shown) > 8 else "")


def _failed(answer: Answer, pairs: Sequence[Pair]) -> Iterator[Finding]:
    if not pairs:
        return
    lack = all(pair.get("no_memory") for pair in pairs)
    severity: Severity = "unknown" if lack else "error"
    names, text = _names(pairs), str(pairs[0]["error"])
    yield Finding(
        NAME,
        severity,
        Text("Copies between devices fail: {names}", names=names),
        Text("{error}.", error=text.rstrip(".")),
        None if lack else Text("Programs that use these devices together fail."),
        None
        if lack
        else Text("Check the links and, with NVSwitch, the fabric manager; read the kernel log."),
        () if lack else ("nvidia-smi topo -p2p rw", "systemctl status nvidia-fabricmanager"),
        answer.known_by,
    )


def _wrong(answer: Answer, pairs: Sequence[Pair]) -> Iterator[Finding]:
    if not pairs:
        return
    names = _names(pairs)
    words = sum(int(pair["wrong_words"]) for pair in pairs)
    yield Finding(
        NAME,
        "error",
        Text("Copies arrive damaged: {names}", names=names),
        Text("{words} words of 8 bytes differ from what was sent.", words=Count(words)),
        Text("Gradients and activations that cross these links are wrong, without any error."),
        Text(
            "If the link is PCIe: with an IOMMU or ACS on, peer copies are wrong on some boards; "
            "boot with iommu=pt or switch it off, and test again; until then NCCL_P2P_DISABLE=1. "
            "If it is NVLink: look at its error counters."
        ),
        ("cat /proc/cmdline", "nvidia-smi nvlink -e", "export NCCL_P2P_DISABLE=1"),
        answer.known_by,
        values={"wrong_words": words},
    )


def _expected(machine: Machine, answer: Answer) -> models.Expected | None:
    """What a pair reaches where all of them are joined by a switch, as the driver says."""
    nvml = machine.probe("nvml") or {}
    joined = [(pair.get("p2p") or {}).get("nvlink") for pair in nvml.get("pairs") or ()]
    if not joined or any(state != "ok" for state in joined):
        return None
    devices = {row["name"]: answer.catalogued(row) for row in answer.devices}
    if len(devices) != 1:
        return None
    device = next(iter(devices.values()))
    return None if device is None else models.pair_copy(device)


def _slow(
    machine: Machine, answer: Answer, pairs: Sequence[Pair]
) -> list[tuple[Pair, float | None]]:
    """Pairs that are too slow, with their share of the usual rate; direct and indirect ones are
    each held against their own kind."""
    should = _expected(machine, answer)
    found: list[tuple[Pair, float | None]] = []
    for kind in (True, False, None):
        some = [pair for pair in pairs if pair["direct"] is kind]
        outliers = models.slow_ones(
            {at: float(pair["bytes_per_s"]) for at, pair in enumerate(some)}, SPREAD
        )
        for at, pair in enumerate(some):
            below = should is not None and should.is_slow(float(pair["bytes_per_s"]))
            if below or (at in outliers and len(some) > 2):
                found.append((pair, outliers.get(at)))
    return found


def suspect(pairs: Sequence[Pair]) -> int | None:
    """The device that all slow pairs have in common; None if there is no such one.

    Args:
        pairs: the slow ones.
    """
    common = set.intersection(*({pair["from"], pair["to"]} for pair in pairs)) if pairs else set()
    return int(common.pop()) if len(common) == 1 else None


def _told_slow(answer: Answer, slow: Sequence[tuple[Pair, float | None]]) -> Iterator[Finding]:
    if not slow:
        return
    pairs = [pair for pair, _ in slow]
    device = suspect(pairs)
    slowest, share = min(slow, key=lambda each: float(each[0]["bytes_per_s"]))
    way = {"names": _names(pairs), "sender": slowest["from"], "receiver": slowest["to"]}
    rate = Rate(float(slowest["bytes_per_s"]), "B/s")
    found = Text("{names}; the slowest {sender}→{receiver} at {rate}.", rate=rate, **way)
    if share is not None:
        found = Text(
            "{names}; the slowest {sender}→{receiver} at {rate}, {share} of the usual rate.",
            rate=rate,
            share=Percent(share),
            **way,
        )
    title = Text("Links between devices are slow")
    if device is not None:
        title = Text("The links of device {device} are slow", device=device)
    disturbed = bool(busy(answer.devices))
    yield Finding(
        NAME,
        "note" if disturbed else "warning",
        title,
        sentences(found, Text("It goes through the host.") if slowest["direct"] is False else None),
        Text("Collectives run at the pace of the slowest link."),
        Text(
            "Look whether all NVLinks are up and whether they count errors; with NVSwitch, whether "
            "the fabric manager runs."
        ),
        ("nvidia-smi nvlink -s", "nvidia-smi nvlink -e", "nvidia-smi topo -p2p rw"),
        answer.known_by,
        device,
        {"slowest_pair_bytes_per_s": float(slowest["bytes_per_s"])},
    )


def _right(
    answer: Answer, pairs: Sequence[Pair], tested: int, should: models.Expected | None
) -> Finding:
    rates = [float(pair["bytes_per_s"]) for pair in pairs]
    given, shared = with_share(span(rates, "B/s"), {0: min(rates)}, {0: should})
    end = against(True) if shared else Text(".")
    through = sum(pair["direct"] is False for pair in pairs)
    by_host = plural(
        "{count} of them goes through the host.", "{count} of them go through the host.", through
    )
    return Finding(
        NAME,
        "ok",
        Text(
            "{pairs} of {tested} ways between devices carry data right",
            pairs=len(pairs),
            tested=tested,
        ),
        sentences(Text("One way {told}{end}", told=given, end=end), by_host if through else None),
        known_by=answer.known_by,
        values={"pairs": len(pairs), "pair_bytes_per_s": min(rates), "pairs_through_host": through},
    )
