"""The step needs more memory than the device has."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding, MemoryStory
from gpuscope.analysis.wording import percent, size

_NAMES = {
    "parameter": ("parameters", "参数"),
    "gradient": ("gradients", "梯度"),
    "optimizer_state": ("optimizer states", "优化器状态"),
    "activation": ("activations", "激活"),
    "temporary": ("temporaries", "临时张量"),
    "input": ("inputs", "输入"),
    "buffer": ("buffers", "缓冲区"),
    "cache": ("key-value cache", "键值缓存"),
    "workspace": ("workspaces", "工作区"),
    "communication": ("communication buffers", "通信缓冲区"),
}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


@finding
def does_not_fit(facts: Facts) -> Finding | None:
    """Applies when the peak is above the device's capacity.

    No gain is stated: a step that cannot run has no time to save.
    """
    memory = facts.memory
    if memory is None or memory.capacity_bytes is None:
        return None
    excess = memory.missing_bytes
    if excess <= 0:
        return None
    parts = sorted(memory.at_peak.items(), key=lambda item: -item[1])[:3]
    listed = ", ".join(f"{_NAMES.get(name, (name, name))[0]} {size(n)}" for name, n in parts)
    listed_zh = "、".join(f"{_NAMES.get(name, (name, name))[1]} {size(n)}" for name, n in parts)
    fitting = [option for option in facts.fit if option.fits][:3]
    where, where_zh = _first_failure(facts, memory)
    need, have = size(memory.capacity_bytes + excess), size(memory.capacity_bytes)
    share = excess / memory.capacity_bytes
    much, much_zh = f"{percent(share)} of", f"{percent(share)}"
    if share >= 1:
        much, much_zh = f"{share:.1f}×", f"{share:.1f} 倍"
    who, who_zh = "The step does not fit: it", "放不下：这一步"
    if facts.fullest is not None and facts.job is not None and len(facts.job.ranks) > 1:
        who = f"Rank {facts.fullest} does not fit: it"
        who_zh = f"rank {facts.fullest} 放不下：它"
    return Finding(
        kind="does_not_fit",
        title=f"{who} needs {need}, the device has {have}.",
        evidence=f"{size(excess)} ({much} the device's memory) too much. "
        f"Largest at the peak: {listed}.{where}",
        max_gain_s=None,
        hint=" Or: ".join(_sentence(option.text) for option in fitting)
        or "None of the usual changes is enough: use a smaller model or devices with more memory.",
        title_zh=f"{who_zh}需要 {need}，设备只有 {have}。",
        evidence_zh=f"超出 {size(excess)}（设备内存的 {much_zh}）。峰值时最大的部分：{listed_zh}。"
        f"{where_zh}",
        hint_zh="或者：".join(option.text_zh for option in fitting)
        or "常用的改变都不够：请使用更小的模型或内存更大的设备。",
    )


def _first_failure(facts: Facts, memory: MemoryStory) -> tuple[str, str]:
    """Where memory first runs out, in both languages; empty where that is not known."""
    at, ops = memory.failed_op, facts.program.ops if facts.program else ()
    another_rank = facts.fullest is not None and facts.fullest != facts.rank
    if at is None or at >= len(ops) or another_rank:
        return "", ""
    asked = size(memory.failed_bytes)
    if at < 0:
        return (
            f" It runs out before the step, at {asked} for {memory.failed_for}.",
            f"在这一步开始之前就已耗尽：为 {memory.failed_for} 申请 {asked} 时。",
        )
    op = ops[at]
    module = f" in {op.module}" if op.module else ""
    module_zh = f"（模块 {op.module}）" if op.module else ""
    return (
        f" It runs out at operator {at + 1} of {len(ops)}, {op.name}{module}, which asks for "
        f"{asked}.",
        f"在第 {at + 1} 个算子（共 {len(ops)} 个）{op.name}{module_zh} 申请 {asked} 时耗尽。",
    )
