"""Collectives over all devices of the host: right results, and bus bandwidth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuscope.doctor import expected as models
from gpuscope.doctor.deep import Answer, against, ask, busy, not_tested
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding
from gpuscope.explain.numbers import count, percent, rate
from gpuscope.explain.types import Words

NAME = "deep_collectives"
TIMEOUT_S = 180.0
STARTING = "starting"
"""The stage of a rank that has not even imported PyTorch: a slow disk, no hang."""

_DEBUG = "NCCL_DEBUG=INFO python -m gpuscope.doctor.probes.deep_collectives"


@check(NAME, "deep", "Collectives over all devices: right results and bus bandwidth")
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
        name: row for name, row in times.items()
        if (each := should.get(name)) is not None and each.is_slow(float(row["bus_bytes_per_s"]))
    }  # fmt: skip
    if slow:
        yield _slow(answer, slow, should)
    if times and not wrong and not slow:
        yield _right(answer, times, should)


def _failed(answer: Answer) -> Iterator[Finding]:
    """`hung` of this test is by rank: which one stands where."""
    stages = answer.data.get("stages")
    if stages and STARTING in stages.values():
        yield not_tested(NAME, "the ranks took too long to start", answer.known_by)
    elif stages:
        told = "; ".join(f"rank {rank}: {stage}" for rank, stage in stages.items())
        yield Finding(
            NAME, "error", Words("Collectives hang", "集合通信挂起"),
            Words(f"Where each rank stood: {told}.", f"各 rank 停在：{told}。"),
            Words("Training on these devices hangs.", "在这些设备上训练会挂起。"),
            Words(
                "Look at NCCL's own log; try without peer access (NCCL_P2P_DISABLE=1) and without "
                "shared memory (NCCL_SHM_DISABLE=1): what helps names the part that is broken.",
                "查看 NCCL 日志；分别关闭对等访问（NCCL_P2P_DISABLE=1）与共享内存"
                "（NCCL_SHM_DISABLE=1）再试：有效的那个就是故障所在。",
            ),
            (_DEBUG, f"NCCL_P2P_DISABLE=1 {_DEBUG}"), answer.known_by,
        )  # fmt: skip
    error = answer.data.get("ranks_error")
    if error:
        if "out of memory" in str(error).lower():
            yield not_tested(NAME, "too little device memory is free", answer.known_by)
            return
        yield Finding(
            NAME, "error", Words("Collectives fail", "集合通信失败"),
            Words(f"{str(error).rstrip('.')}.", f"{str(error).rstrip('.')}。"),
            Words("Training on several devices fails.", "多设备训练会失败。"),
            Words("Look at NCCL's own log.", "查看 NCCL 日志。"), (_DEBUG,), answer.known_by,
        )  # fmt: skip


def _wrong(answer: Answer, wrong: Mapping[str, Mapping[int, int]]) -> Finding:
    told = "; ".join(
        f"{operation}: " + ", ".join(f"rank {r} {count(n)}" for r, n in by_rank.items())
        for operation, by_rank in wrong.items()
    )
    return Finding(
        NAME, "error", Words("Collectives give wrong results", "集合通信结果错误"),
        Words(f"Wrong elements: {told}.", f"错误元素数：{told}。"),
        Words(
            "Replicas drift apart: training diverges, and no error is raised.",
            "各副本逐渐不一致：训练发散，却没有任何报错。",
        ),
        Words(
            "See the test of the pairs; try without peer access: if that helps, the links or the "
            "IOMMU damage data.",
            "对照设备对测试；关闭对等访问再试：若恢复正常，则是链路或 IOMMU 损坏数据。",
        ),
        ("gpuscope doctor --deep --only deep_pairs", f"NCCL_P2P_DISABLE=1 {_DEBUG}"),
        answer.known_by,
        values={f"{name}_wrong_elements": sum(rows.values()) for name, rows in wrong.items()},
    )  # fmt: skip


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
    parts_en, parts_zh = [], []
    for name, row in slow.items():
        got, wanted = rate(float(row["bus_bytes_per_s"]), "B/s"), rate(should[name].rate, "B/s")
        parts_en.append(f"{name} {got} of about {wanted}")
        parts_zh.append(f"{name} {got}，应约 {wanted}")
    disturbed = bool(busy(answer.data.get("devices", ())))
    return Finding(
        NAME, "note" if disturbed else "warning",
        Words("Collectives are slow", "集合通信偏慢"),
        Words(
            "Bus bandwidth: " + ", ".join(parts_en) + ".", "总线带宽：" + "；".join(parts_zh) + "。"
        ),
        Words(
            "Gradients and activations wait for it in every step.", "每一步的梯度与激活都要等它。"
        ),
        Words(
            "See the test of the pairs for a slow link; look for NCCL_* variables that switch "
            "ways off; look in NCCL's log which way it takes.",
            "在设备对测试中查找慢链路；检查是否有关闭通路的 NCCL_* 变量；"
            "在 NCCL 日志中查看所走路径。",
        ),
        ("gpuscope doctor --deep --only deep_pairs", "env | grep NCCL_", _DEBUG),
        answer.known_by,
        values={f"{name}_bus_bytes_per_s": float(r["bus_bytes_per_s"]) for name, r in slow.items()},
    )  # fmt: skip


def _right(
    answer: Answer, times: Mapping[str, Mapping[str, Any]], should: Mapping[str, models.Expected]
) -> Finding:
    parts = []
    for name, row in times.items():
        bus = float(row["bus_bytes_per_s"])
        each = should.get(name)
        share = f" ({percent(bus / each.rate)})" if each is not None else ""
        parts.append(f"{name} {rate(bus, 'B/s')}{share}")
    ranks, told = int(answer.data["ranks"]), ", ".join(parts)
    end = against(bool(should))
    fast = Words(" and fast enough", "且速度正常") if should else Words("", "")
    return Finding(
        NAME, "ok",
        Words(
            f"Collectives over {ranks} devices are right{fast.en}",
            f"{ranks} 个设备间的集合通信正确{fast.zh}",
        ),
        Words(f"Bus bandwidth: {told}{end.en}", f"总线带宽：{told}{end.zh}"),
        known_by=answer.known_by,
        values={
            "ranks": ranks,
            **{f"{n}_bus_bytes_per_s": float(r["bus_bytes_per_s"]) for n, r in times.items()},
        },
    )  # fmt: skip
