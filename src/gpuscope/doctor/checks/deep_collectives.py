"""Collectives over all devices of the host: right results, and bus bandwidth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuscope.doctor import expected as models
from gpuscope.doctor.deep import Answer, against, ask, busy, not_tested, stage_text, with_share
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.document.quantities import Count, Rate
from gpuscope.document.text import Text, joined

NAME = "deep_collectives"
TIMEOUT_S = 180.0
STARTING = "starting"
"""The stage of a rank that has not even imported PyTorch: a slow disk, no hang."""

_DEBUG = "NCCL_DEBUG=INFO python -m gpuscope.doctor.probes.deep_collectives"


@check(NAME, "deep", Text("Collectives over all devices: right results and bus bandwidth"))
def deep_collectives(machine: Machine) -> Iterable[Finding]:
    """Judge the collectives."""
    answer, found = ask(machine, NAME, "deep_collectives", TIMEOUT_S, least_devices=2)
    yield from found
    if answer is None or int(answer.data.get("ranks") or 0) < 2 or "wrong" not in answer.data:
        return
    yield from _failed(answer)
    wrong = {
        operation: {int(r): int(n) for r, n in by_rank.items() if n}
        for operation, by_rank in answer.data["wrong"].items()
    }
    wrong = {operation: by_rank for operation, by_rank in wrong.items() if by_rank}
    if wrong:
        yield _wrong(answer, wrong)
    times: Mapping[str, Mapping[str, Any]] = answer.data.get("times") or {}
    should = _expected(machine, answer, times)
    slow = {
        name: row
        for name, row in times.items()
        if (each := should.get(name)) is not None and each.is_slow(float(row["bus_bytes_per_s"]))
    }
    if slow:
        yield _slow(answer, slow, should)
    if times and not wrong and not slow:
        yield _right(answer, times, should)


def _failed(answer: Answer) -> Iterator[Finding]:
    """`hung` of this test is by rank: which one stands where."""
    stages = answer.data.get("stages")
    if stages and any(stage_text(each) == STARTING for each in stages.values()):
        yield not_tested(NAME, Text("the ranks took too long to start"), answer.known_by)
    elif stages:
        evidence = joined(
            (
                Text("rank {rank}: {stage}", rank=rank, stage=stage_text(stage))
                for rank, stage in stages.items()
            ),
            "; ",
        )
        yield Finding(
            NAME,
            "error",
            Text("Collectives hang"),
            Text("Where each rank stood: {told}.", told=evidence),
            Text("Training on these devices hangs."),
            Text(
                "Look at NCCL's own log; try without peer access (NCCL_P2P_DISABLE=1) and without "
                "shared memory (NCCL_SHM_DISABLE=1): what helps names the part that is broken."
            ),
            (_DEBUG, f"NCCL_P2P_DISABLE=1 {_DEBUG}"),
            answer.known_by,
        )
    error = answer.data.get("ranks_error")
    if error:
        if "out of memory" in str(error).lower():
            yield not_tested(NAME, Text("too little device memory is free"), answer.known_by)
            return
        yield Finding(
            NAME,
            "error",
            Text("Collectives fail"),
            Text("{error}.", error=str(error).rstrip(".")),
            Text("Training on several devices fails."),
            Text("Look at NCCL's own log."),
            (_DEBUG,),
            answer.known_by,
        )


def _wrong(answer: Answer, wrong: Mapping[str, Mapping[int, int]]) -> Finding:
    evidence = joined(
        (
            Text("{operation}: {ranks}", operation=operation, ranks=_by_rank(by_rank))
            for operation, by_rank in wrong.items()
        ),
        "; ",
    )
    return Finding(
        NAME,
        "error",
        Text("Collectives give wrong results"),
        Text("Wrong elements: {told}.", told=evidence),
        Text("Replicas drift apart: training diverges, and no error is raised."),
        Text(
            "See the test of the pairs; try without peer access: if that helps, the links or the "
            "IOMMU damage data."
        ),
        ("gpuscope doctor --deep --only deep_pairs", f"NCCL_P2P_DISABLE=1 {_DEBUG}"),
        answer.known_by,
        values={f"{name}_wrong_elements": sum(rows.values()) for name, rows in wrong.items()},
    )


def _by_rank(counts: Mapping[int, int]) -> Text:
    return joined(Text("rank {rank} {count}", rank=r, count=Count(n)) for r, n in counts.items())


def _expected(
    machine: Machine, answer: Answer, times: Mapping[str, Mapping[str, Any]]
) -> dict[str, models.Expected]:
    """By the model of collectives, where the driver says that all devices are joined by links of
    their own, and they are of one kind."""
    nvml = machine.probe("nvml") or {}
    joined = [(pair.get("p2p") or {}).get("nvlink") for pair in nvml.get("pairs") or ()]
    named = {str(row["name"]): answer.catalogued(row) for row in answer.data.get("devices", ())}
    device = next(iter(named.values()), None)
    if device is None or len(named) != 1 or not joined or any(s != "ok" for s in joined):
        return {}
    found = {}
    for operation, row in times.items():
        each = models.collective(device, operation, int(answer.data["ranks"]), int(row["bytes"]))
        if each is not None:
            found[operation] = each
    return found


def _slow(
    answer: Answer, slow: Mapping[str, Mapping[str, Any]], should: Mapping[str, models.Expected]
) -> Finding:
    evidence = joined(
        Text(
            "{operation} {rate} of about {wanted}",
            operation=name,
            rate=Rate(float(row["bus_bytes_per_s"]), "B/s"),
            wanted=Rate(should[name].rate, "B/s"),
        )
        for name, row in slow.items()
    )
    disturbed = bool(busy(answer.data.get("devices", ())))
    return Finding(
        NAME,
        "note" if disturbed else "warning",
        Text("Collectives are slow"),
        Text("Bus bandwidth: {told}.", told=evidence),
        Text("Gradients and activations wait for it in every step."),
        Text(
            "See the test of the pairs for a slow link; look for NCCL_* variables that switch ways "
            "off; look in NCCL's log which way it takes."
        ),
        ("gpuscope doctor --deep --only deep_pairs", "env | grep NCCL_", _DEBUG),
        answer.known_by,
        values={f"{name}_bus_bytes_per_s": float(r["bus_bytes_per_s"]) for name, r in slow.items()},
    )


def _right(
    answer: Answer, times: Mapping[str, Mapping[str, Any]], should: Mapping[str, models.Expected]
) -> Finding:
    parts = []
    for name, row in times.items():
        bus = float(row["bus_bytes_per_s"])
        evidence = f"{name} {Rate(bus, 'B/s')}"
        parts.append(with_share(evidence, {0: bus}, {0: should.get(name)})[0])
    ranks, end = int(answer.data["ranks"]), against(bool(should))
    return Finding(
        NAME,
        "ok",
        Text("Collectives over {ranks} devices are right and fast enough", ranks=ranks)
        if should
        else Text("Collectives over {ranks} devices are right", ranks=ranks),
        Text("Bus bandwidth: {told}{end}", told=joined(parts), end=end),
        known_by=answer.known_by,
        values={
            "ranks": ranks,
            **{f"{n}_bus_bytes_per_s": float(r["bus_bytes_per_s"]) for n, r in times.items()},
        },
    )
