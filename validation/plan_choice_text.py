"""The words of docs/plan-accuracy.md and of its Chinese twin."""

from __future__ import annotations

from typing import Any

TEXT: dict[str, dict[str, Any]] = {
    "en": {
        "title": "# What `plan` would have chosen\n\n[中文](plan-accuracy.zh-CN.md)",
        "intro": (
            "Publishers print several runs of one model on the same devices. Each such group "
            "is a question: the rule of [plan.md](plan.md) (least predicted time; of those "
            "that cannot be told apart the simplest) chooses from the predictions of "
            "[published.md](published.md) alone, and its choice is held against what was "
            "measured. Runs with the same plan, precision and batch are one candidate, with "
            "the median of its releases. Nothing is tuned on these groups. `make "
            "validate-plan` writes this page, in seconds and without a GPU."
        ),
        "result": "## Result",
        "head": (
            "| groups by model, device, count, length, source … | groups | Kendall's τ, "
            "mean | regret, mean | regret, worst | regret at random | the best is among the "
            "ties |"
        ),
        "loose": "at least three runs (the target: τ 0.7, regret 5 %, 80 % among the ties)",
        "strict": "… and by precision and batch, at least two runs",
        "read": (
            "*Regret* is how much longer a token takes with the choice than with the best of "
            "the group; *at random*, with a candidate taken blindly. Groups in which only the "
            "release of the software differs leave nothing to choose and are left out. The "
            "first line has candidates with another precision or batch, which are easy to "
            "order; the second has only plans, and is the honest one: there the choice is on "
            "the mean hardly better than chance, in most groups the best all the same. The "
            "groups are few, so one of them moves a mean a lot. Ties are wide: predictions "
            "across software that is not ours have intervals of some ± 20 %."
        ),
        "memory": (
            "Could what was chosen be run? Every candidate here was, so that the rule cannot "
            "fail on memory; but of all {count} published runs, the bound that rules "
            "candidates out (parameters and optimizer states alone) took {bound} for too "
            "large, and the quick estimate with activations, which only puts candidates last, "
            "{estimate} (103 while it took 45 bytes a feature for every block, before it counted "
            "what a block keeps). Most that are left state no recomputation, or run software "
            "that keeps less than PyTorch's own: fused losses, activations in float8."
        ),
        "worst": "## Every group",
        "head_groups": (
            "| model (source) | devices | plans/runs | τ | chosen | best measured | regret |"
        ),
        "left": (
            "The two large regrets are mixtures of experts on 256 Blackwell devices: one plan "
            "of Qwen3 235B was measured with release 26.02 alone, at less than half of what "
            "is predicted, and the better plan of DeepSeek V3 on B200s with 26.04.01 alone. "
            "Software and plan changed together there, and a prediction knows no release. A third, "
            "Qwen3 30B on 16 H100s, was lost for a while (τ 0.43, regret 12 %): its two plans are 8 % "
            "apart in prediction (4.31 and 4.67 µs a token), the better one was measured with two "
            "releases 1.8 times apart, the other between. Sums of gradients inside of products, "
            "which small micro-batches repeat twice as often, put it last (4.70 and 4.52); with "
            "every row predicted by the same models it is first again."
        ),
        "serving": "## Serving",
        "serving_intro": (
            "Other people's serving points ([serving-accuracy.md](serving-accuracy.md)): a "
            "question is a model, a system, a precision, two lengths and a limit of TPOT (10, "
            "20, 30, 50 ms), the candidates are all that were measured, and which keep the limit "
            "is not told. Each is simulated as its harness asked. Errors of TPOT are taken to be "
            "the same for all candidates of a question, which are one model on one system, and "
            "log-normal, 0.19, which they are on the rows that constants may be fitted on: the "
            "rule takes the candidate that on the mean over such errors has the largest share of "
            "the best candidate's tokens a second and device, nothing where it breaks the limit. "
            "Regret is in measured tokens a second and device; a limit broken by more than 10 % "
            "counts 100 %. Of {rows} rows {answered} are answered, with a median error of the "
            "simulated TPOT of {error}. `python validation/serving_choice.py POINTS.csv --write` "
            "makes the figures; the points are not part of this project."
        ),
        "serving_head": "| rule | questions | limit broken | regret, mean | regret, median |",
        "serving_rules": (
            "expected share of the best, simulated",
            "expected tokens, simulated",
            "expected tokens, by the quick score (before)",
            "most in flight, feasible by the nearest known row",
            "most in flight, feasible *known*",
            "fewest devices, feasible *known*",
            "chance",
        ),
        "serving_read": (
            "Of the target (8 % broken, 12 % mean, 0 % median) the first and the last are reached. The rule and its "
            "0.19 were settled on the rows that constants may be fitted on, where regret fell from "
            "16.9 to 13.1 % and broken limits from 9.0 to 6.0 %, then these questions were asked: "
            "mean and median are better than by the rule before, broken limits are more. The simulator "
            "has changed since, the rule has not. Last it was told how the servers of one harness were "
            "started, by the files of the tool behind it, and what scales of blocks cost Hopper's products "
            "([serving-accuracy.md](serving-accuracy.md)): broken limits of these questions fell from 10.5 %, "
            "mean regret from 20.4 %. On the rows that may be fitted on TPOT came nearer (8.8 to 8.2 % in the median) "
            "and the choice did not (5.4 to 6.3 % broken, 12.8 to 13.8 % regret). "
            "By the quick score an engine that stops decoding for prompts (SGLang) and one that "
            "mixes both look alike, and requests that end together and begin together are not "
            "seen; the simulator has both.\n\n{share} of the regret is broken limits, {count} of them. Of MiniMax-M2.5, whose kernels nobody has "
            "benched for us, are {minimax}, of Qwen3 32B and 235B in block-scaled fp8 {fp8} (13 before): "
            "TPOT of what was chosen there is predicted {low} to {high} % too short. The rest is care "
            "where nothing was broken, {careful_share} of it on {careful} ({questions} questions, {careful_mean} in "
            "the mean; cause not found). With feasibility known, predicted tokens choose with {known} of "
            "regret: what is missing is the limit's side of TPOT. One measured candidate of a question, "
            "taken to correct the others, did not help (22.4 % for 21.7 at that time): errors differ with "
            "the number in flight. An oracle that knows every measurement but one repeat breaks {floor_broken} of "
            "the limits and loses {floor_mean} ({floor_groups} groups with candidates that were measured again, "
            "`validation/serving_repeats.py`): what rows do not state leaves no more than that. With the "
            "{groups} groups in which something is not answered, and no answer counted as 100 %: "
            "broken {broken}, mean regret {mean}; the nearest known row, which answers all: "
            "{near_broken} and {near_mean}. AIConfigurator was not run on these questions: of these "
            "rows it answers half, with a median error of TPOT of 17 %."
        ),
    },
    "zh": {
        "title": "# `plan` 会怎样选择\n\n[English](plan-accuracy.md)",
        "intro": (
            "发布者会给出同一模型在相同设备上的多次运行。每一组就是一个问题："
            "[plan.zh-CN.md](plan.zh-CN.md) 的规则（预测时间最短；无法区分的取最简单的）只根"
            "据 [published.zh-CN.md](published.zh-CN.md) 的预测来选择，再与测量结果对照。方案"
            "、精度和批次相同的运行算作一个候选，取各软件版本的中位数。没有任何东西按这些组调"
            "整过。`make validate-plan` 生成本页，只需数秒，不需要 GPU。"
        ),
        "result": "## 结果",
        "head": (
            "| 按模型、设备、设备数、长度、来源分组…… | 组数 | Kendall τ，平均 | 遗憾，平"
            "均 | 遗憾，最差 | 随机选择的遗憾 | 最好的在并列之中 |"
        ),
        "loose": "至少三次运行（目标：τ 0.7，遗憾 5 %，80 % 在并列之中）",
        "strict": "……并按精度和批次，至少两次运行",
        "read": (
            "*遗憾*：采用所选方案时，每个 token 所用的时间比组中最好的长多少；*随机*：盲目选"
            "取一个候选时的值。只有软件版本不同的组没有可选之处，不计入。第一行中有精度或批次"
            "不同的候选，容易排序；第二行只有方案不同，是诚实的一行：平均而言，那里的选择只比"
            "随机略好，但多数组中仍是最好的。组数很少，一组就会使平均值变动很多。并列很宽：对"
            "于不是我们的软件，预测区间约为 ± 20 %。"
        ),
        "memory": (
            "所选的方案能运行吗？这里的每个候选都运行过，所以规则不会在内存上出错；但在全部 "
            "{count} 次公布的运行中，用来排除候选的下界（只算参数和优化器状态）认为 {bound} "
            "次太大，而含激活的快速估计（只把候选排到最后）认为 {estimate} 次太大（在它按每块"
            "实际保留的内容计数之前，每特征一律取 45 字节时为 103 次）。余下的多数没有说明重计"
            "算，或其软件比 PyTorch 自己的保留得更少：融合的损失、float8 的激活。"
        ),
        "worst": "## 每一组",
        "head_groups": "| 模型（来源） | 设备 | 方案/运行 | τ | 所选 | 测得最好的 | 遗憾 |",
        "left": (
            "两个大的遗憾都是 256 个 Blackwell 设备上的混合专家模型：Qwen3 235B 的一个方案只"
            "用 26.02 版测过，不到预测速度的一半；DeepSeek V3 在 B200 上较好的方案只用 "
            "26.04.01 版测过。那里软件和方案一起改变，而预测不知道版本。第三组，16 个 H100 上的 Qwen3 30B，"
            "曾一度选错（τ 0.43，遗憾 12 %）：两个方案的预测只差 8 %（每 token 4.31 与 4.67 µs），较好的一个用"
            "两个版本测过，相差 1.8 倍，另一个介于其间。矩阵乘内的梯度累加（微批小的方案次数加倍）曾使它落后"
            "（4.70 与 4.52）；所有条目由同一模型预测后，它又在前。"
        ),
        "serving": "## 推理服务",
        "serving_intro": (
            "他人测量的推理服务点（[serving-accuracy.zh-CN.md](serving-accuracy.zh-CN.md)）：一"
            "个问题是模型、系统、精度、两个长度和 TPOT 的限制（10、20、30、50 ms），候选是所有测过的"
            "配置，不告知哪些守住了限制。每个候选都按其测试程序的方式模拟。一个问题的候选是同一系统上的同一模型，"
            "因此认为它们的 TPOT 误差相同，且为对数正态，标准差 0.19，即可用于拟合的行上的值：规则取在这些误差上平均"
            "占最佳候选每秒每设备 token 数份额最大的，超出限制处为零。遗憾按测得的每秒每设备 token 数计；超出限制 "
            "10 % 以上算 100 %。{rows} 行中回答了 {answered} 行，模拟的 TPOT 误差中位数为 {error}。"
            "`python validation/serving_choice.py POINTS.csv --write` 生成这些数字；数据点不属于本项目。"
        ),
        "serving_head": "| 规则 | 问题数 | 超出限制 | 遗憾，平均 | 遗憾，中位数 |",
        "serving_rules": (
            "期望占最佳的份额，模拟",
            "期望 token 数，模拟",
            "期望 token 数，按快速评分（此前）",
            "并发最多，可行性取最近的已知行",
            "并发最多，可行性*已知*",
            "设备最少，可行性*已知*",
            "随机",
        ),
        "serving_read": (
            "目标（超出 8 %，平均 12 %，中位数 0 %）中第一项和最后一项达到。规则及其 0.19 是在可用于拟合的行上定下的，在那里遗憾从 "
            "16.9 降到 13.1 %，超出限制从 9.0 降到 6.0 %，随后才问这些问题：平均和中位数比此前的规则好，超出限制的更多。此后模拟器改过，规则没有。"
            "最近一次按背后工具自己的文件告诉它一个测试程序的服务器是怎样启动的，以及分块缩放使 Hopper 的乘积多花多少"
            "（[serving-accuracy.zh-CN.md](serving-accuracy.zh-CN.md)）：这些问题的超出限制由 10.5 % 下降，平均遗憾由 20.4 % 下降。"
            "在可用于拟合的行上，TPOT 更接近（中位数 8.8 到 8.2 %），选择则没有（超出 5.4 到 6.3 %，遗憾 12.8 到 13.8 %）。"
            "按快速评分，为提示暂停解码的引擎（SGLang）与混合两者的引擎看起来一样，一起结束又一起开始的请求也看不出来；"
            "模拟器两者都有。\n\n{share} 的遗憾来自 {count} 次超出限制，其中 {minimax} 次是 MiniMax-M2.5，它的核没有为我们测过，{fp8} 次是分块 fp8 的 Qwen3 32B 与 235B（此前 13 次）："
            "那里所选方案的 TPOT 被预测短了 {low} 到 {high} %。其余是没有超出时的谨慎，其中 {careful_share} 在 {careful}（{questions} 个问题，平均 "
            "{careful_mean}；原因未找到）。已知可行性时，按预测的 token 数选择的遗憾为 {known}：缺的是 TPOT 在限制哪一侧。用一个问题中一个"
            "测过的候选去修正其他候选没有帮助（当时 22.4 % 对 21.7 %）：误差随并发而变。"
            "知道除一次重复以外所有测量的先知超出 {floor_broken} 的限制、损失 {floor_mean}（有候选被重复测量的 {floor_groups} 组，"
            "`validation/serving_repeats.py`）：行中没有写明的东西只造成这么多。"
            "若计入有候选未回答的 {groups} 组，且不回答算 100 %：超出 {broken}，平均遗憾 {mean}；全部都回答的最近已知行则为 "
            "{near_broken} 与 {near_mean}。没有在这些问题上运行 AIConfigurator：这些行它回答一半，TPOT 误差的中位数为 17 %。"
        ),
    },
}
