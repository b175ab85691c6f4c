"""Copies from each device to each other one: what arrives, and how fast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpuscope.doctor import expected as models
from gpuscope.doctor.deep import Answer, against, ask, busy, span
from gpuscope.doctor.machine import Machine
from gpuscope.doctor.registry import check
from gpuscope.doctor.types import Finding, Severity
from gpuscope.explain.numbers import count, percent, rate
from gpuscope.explain.types import Words

NAME = "deep_pairs"
TIMEOUT_S = 150.0
SPREAD = 0.15

Pair = Mapping[str, Any]


@check(NAME, "deep", "Copies between each pair of devices: right, and as fast as their link")
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
    lack = all(str(pair["error"]).startswith("Out of memory") for pair in pairs)
    severity: Severity = "unknown" if lack else "error"
    names, text = _names(pairs), str(pairs[0]["error"])
    yield Finding(
        NAME, severity,
        Words(f"Copies between devices fail: {names}", f"设备间拷贝失败：{names}"),
        Words(f"{text.rstrip('.')}.", f"{text.rstrip('.')}。"),
        None if lack else Words(
            "Programs that use these devices together fail.", "同时使用这些设备的程序会失败。"
        ),
        None if lack else Words(
            "Check the links and, with NVSwitch, the fabric manager; read the kernel log.",
            "检查链路；若有 NVSwitch，检查 fabric manager；查看内核日志。",
        ),
        () if lack else ("nvidia-smi topo -p2p rw", "systemctl status nvidia-fabricmanager"),
        answer.known_by,
    )  # fmt: skip


def _wrong(answer: Answer, pairs: Sequence[Pair]) -> Iterator[Finding]:
    if not pairs:
        return
    names = _names(pairs)
    words = sum(int(pair["wrong_words"]) for pair in pairs)
    yield Finding(
        NAME, "error",
        Words(f"Copies arrive damaged: {names}", f"拷贝到达时数据损坏：{names}"),
        Words(
            f"{count(words)} words of 8 bytes differ from what was sent.",
            f"有 {count(words)} 个 8 字节的字与发送内容不同。",
        ),
        Words(
            "Gradients and activations that cross these links are wrong, without any error.",
            "经过这些链路的梯度与激活会出错，却没有任何报错。",
        ),
        Words(
            "If the link is PCIe: with an IOMMU or ACS on, peer copies are wrong on some boards; "
            "boot with iommu=pt or switch it off, and test again; until then NCCL_P2P_DISABLE=1. "
            "If it is NVLink: look at its error counters.",
            "若链路为 PCIe：某些主板开启 IOMMU 或 ACS 时对等拷贝会出错；"
            "用 iommu=pt 启动或将其关闭后再测；在此之前设置 NCCL_P2P_DISABLE=1。"
            "若为 NVLink：查看其错误计数。",
        ),
        ("cat /proc/cmdline", "nvidia-smi nvlink -e", "export NCCL_P2P_DISABLE=1"),
        answer.known_by, values={"wrong_words": words},
    )  # fmt: skip


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
    text = rate(float(slowest["bytes_per_s"]), "B/s")
    of_usual = "" if share is None else f", {percent(share)} of the usual rate"
    of_usual_zh = "" if share is None else f"，为通常速率的 {percent(share)}"
    names = _names(pairs)
    title = Words("Links between devices are slow", "设备间链路偏慢")
    if device is not None:
        title = Words(
            f"The links of device {device} are slow", f"设备 {device} 与其他设备的链路偏慢"
        )
    disturbed = bool(busy(answer.devices))
    yield Finding(
        NAME, "note" if disturbed else "warning",
        title,
        Words(
            f"{names}; the slowest {slowest['from']}→{slowest['to']} at {text}{of_usual}."
            + ("" if slowest["direct"] is not False else " It goes through the host."),
            f"{names}；最慢的 {slowest['from']}→{slowest['to']} 为 {text}{of_usual_zh}。"
            + ("" if slowest["direct"] is not False else "该路径绕经主机。"),
        ),
        Words(
            "Collectives run at the pace of the slowest link.", "集合通信的速度取决于最慢的链路。"
        ),
        Words(
            "Look whether all NVLinks are up and whether they count errors; with NVSwitch, whether "
            "the fabric manager runs.",
            "检查 NVLink 是否全部在线、有无错误计数；若有 NVSwitch，检查 fabric manager 是否运行。",
        ),
        ("nvidia-smi nvlink -s", "nvidia-smi nvlink -e", "nvidia-smi topo -p2p rw"),
        answer.known_by, device, {"slowest_pair_bytes_per_s": float(slowest["bytes_per_s"])},
    )  # fmt: skip


def _right(
    answer: Answer, pairs: Sequence[Pair], tested: int, should: models.Expected | None
) -> Finding:
    rates = [float(pair["bytes_per_s"]) for pair in pairs]
    share = "" if should is None else f" ({percent(min(rates) / should.rate)})"
    told, end = f"{span(rates, 'B/s')}{share}", against(True) if share else Words(".", "。")
    through = sum(pair["direct"] is False for pair in pairs)
    en = f" {through} of them go through the host." if through else ""
    zh = f"其中 {through} 条绕经主机。" if through else ""
    return Finding(
        NAME, "ok",
        Words(
            f"{len(pairs)} of {tested} ways between devices carry data right",
            f"{tested} 条设备间路径中 {len(pairs)} 条数据正确",
        ),
        Words(f"One way {told}{end.en}{en}", f"单向 {told}{end.zh}{zh}"),
        known_by=answer.known_by,
        values={
            "pairs": len(pairs), "pair_bytes_per_s": min(rates), "pairs_through_host": through,
        },
    )  # fmt: skip
