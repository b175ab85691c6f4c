"""The step needs more memory than the device has."""

from __future__ import annotations

from gpuscope.analysis.findings.facts import Facts
from gpuscope.analysis.findings.registry import finding
from gpuscope.analysis.types import Finding
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
        f"Largest at the peak: {listed}.",
        max_gain_s=None,
        hint=" Or: ".join(_sentence(option.text) for option in fitting)
        or "None of the usual changes is enough: use a smaller model or devices with more memory.",
        title_zh=f"{who_zh}需要 {need}，设备只有 {have}。",
        evidence_zh=f"超出 {size(excess)}（设备内存的 {much_zh}）。峰值时最大的部分：{listed_zh}。",
        hint_zh="或者：".join(option.text_zh for option in fitting)
        or "常用的改变都不够：请使用更小的模型或内存更大的设备。",
    )
