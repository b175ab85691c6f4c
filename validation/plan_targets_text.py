# ruff: noqa: E501 a cause is a line of a table
"""The words of `plan_targets.py`: of each row what it is, and why it is missed where it is."""

from __future__ import annotations

from typing import Any

TEXT: dict[str, dict[str, Any]] = {
    "en": {
        "title": "## Targets",
        "intro": "Every target, as it is today; what is missed says why.",
        "head": "| what | target | reached | | why not |",
        "met": "yes",
        "missed": "**no**",
        "never": "not in {used:.0f} s",
        "rows": {
            "serving broken": (
                "serving: limits broken by more than 10 %",
                "TPOT of MiniMax is predicted too short ([below](#serving))",
            ),
            "serving mean": (
                "serving: regret, mean",
                "a third of it is broken limits, the rest is care where none was broken ([below](#serving))",
            ),
            "serving median": ("serving: regret, median", ""),
            "serving nearest": ("serving: regret below that of the nearest known row", ""),
            "training tau": (
                "published trainings: Kendall's τ, mean",
                "{count} groups of mixtures of experts, in which software and plan change together",
            ),
            "training regret": (
                "published trainings: regret, mean",
                "the same groups: without them {without:.1f} %",
            ),
            "training ties": ("published trainings: the best is among the ties", ""),
            "own regret": ("two H200s: regret, mean", ""),
            "own fits": ("two H200s: fits or not, right", ""),
            "own false": ("two H200s: said to fit in vain", ""),
            "own peak": ("two H200s: peak memory, mean error", ""),
            "tuning mean": ("fine-tuning: peak memory, mean error", ""),
            "tuning worst": (
                "fine-tuning: peak memory, worst",
                "Gemma 2's attention was measured in steps and predicted fused; with the same it is {same:.2f} %",
            ),
            "scored": ("candidates scored a second", ""),
            "8B": (
                "8B on up to 8 devices, processor",
                "three simulated plans are captured with PyTorch's own code, some two seconds each",
            ),
            "405B": (
                "405B on up to 16,384 H100s, processor",
                "its pipelines of 64 stages are simulated for up to a minute, recording and pricing blocks comes before",
            ),
            "serve cold": ("a question of serving, processor, at first", ""),
            "serve kept": ("the same asked again", ""),
            "composed median": ("composed against simulated step, median of {plans} plans", ""),
            "composed tau": (
                "the same: Kendall's τ of the worst question",
                "{wrong} of {of} pairs of plans change places, at most {apart:.1f} % apart",
            ),
            "interval": (
                "80 % intervals, as said before, that hold the step: {parts}",
                "hosts that were not benched pace these steps, and widths not seen before cost cuDNN a plan ([below](#own-runs-on-two-h200s))",
            ),
            "interval today": (
                "the same steps by today's code: {parts}",
                "widths not seen before ([below](#packed-rows-on-an-h200)), and fine-tuning whose host nobody benched",
            ),
        },
        "parts": "own runs {own}, fine-tuning {tuning}, packed rows {packed}",
    },
    "zh": {
        "title": "## 目标",
        "intro": "每一项目标今天的情况；没有达到的说明原因。",
        "head": "| 内容 | 目标 | 达到 | | 原因 |",
        "met": "是",
        "missed": "**否**",
        "never": "{used:.0f} 秒内未完成",
        "rows": {
            "serving broken": (
                "服务：超出限制 10 % 以上",
                "MiniMax 的 TPOT 预测得太短（[见下](#推理服务)）",
            ),
            "serving mean": (
                "服务：遗憾，平均",
                "三分之一是超出的限制，其余是没有超出时的谨慎（[见下](#推理服务)）",
            ),
            "serving median": ("服务：遗憾，中位数", ""),
            "serving nearest": ("服务：遗憾低于最近的已知行", ""),
            "training tau": (
                "公布的训练：Kendall τ，平均",
                "{count} 组混合专家模型，其中软件和方案一起改变",
            ),
            "training regret": ("公布的训练：遗憾，平均", "同样的几组：不计它们为 {without:.1f} %"),
            "training ties": ("公布的训练：最好的在并列之中", ""),
            "own regret": ("两块 H200：遗憾，平均", ""),
            "own fits": ("两块 H200：放得下与否，判断正确", ""),
            "own false": ("两块 H200：误说放得下", ""),
            "own peak": ("两块 H200：显存峰值，平均误差", ""),
            "tuning mean": ("微调：显存峰值，平均误差", ""),
            "tuning worst": (
                "微调：显存峰值，最差",
                "Gemma 2 的注意力测量时逐步计算，预测时是融合的；相同时为 {same:.2f} %",
            ),
            "scored": ("每秒评分的候选数", ""),
            "8B": (
                "8B，最多 8 台设备，处理器时间",
                "三个被模拟的方案用 PyTorch 自己的代码捕获，每个约两秒",
            ),
            "405B": (
                "405B，最多 16,384 块 H100，处理器时间",
                "64 个阶段的流水线模拟至多一分钟，此前还要记录各块并定价",
            ),
            "serve cold": ("一个服务问题，处理器时间，第一次", ""),
            "serve kept": ("再问一次", ""),
            "composed median": ("组合的步时与模拟的步时，{plans} 个方案的中位数", ""),
            "composed tau": (
                "同上：最差问题的 Kendall τ",
                "{of} 对方案中有 {wrong} 对次序颠倒，相差至多 {apart:.1f} %",
            ),
            "interval": (
                "此前所说的 80 % 区间包含步时：{parts}",
                "这些步由没有测过的主机决定快慢，没见过的宽度要 cuDNN 重新规划（[见下](#在两块-h200-上自己的运行)）",
            ),
            "interval today": (
                "同样的步，按今天的代码：{parts}",
                "没见过的宽度（[见下](#在-h200-上打包的行)），以及主机没有测过的微调",
            ),
        },
        "parts": "自己的运行 {own}，微调 {tuning}，打包的行 {packed}",
    },
}
