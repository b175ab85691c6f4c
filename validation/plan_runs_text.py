"""The words of `plan_runs_page.py`."""

from __future__ import annotations

from typing import Any

TEXT: dict[str, dict[str, Any]] = {
    "en": {
        "title": "## Own runs on two H200s",
        "intro": (
            "{predicted} plans of six models (DDP, FSDP, ZeRO-1, tensor parallelism, recomputation, "
            "micro-batches up to the memory's limit) were predicted and committed before any was "
            "run (`validation/plan_runs.py`). Measured with PyTorch 2.11 in two runs, each plan "
            "in processes of its own: {ran} ran, {full} ran out of memory, which is kept as a "
            "result; {left} were not finished in the time there was. Nothing was tuned on them."
        ),
        "totals": "| what | target | result |",
        "rows": (
            ("regret of the choice: mean, worst", "3 %"),
            ("Kendall's τ, mean", "–"),
            ("fits or not: right; said to fit in vain", "98 %; 0"),
            ("peak memory: mean error, worst", "1.5 %"),
            ("step as said before: median error, worst, in its 80 % interval", "75–90 %"),
            ("the same by today's code", "75–90 %"),
            ("… and constants of that host", "75–90 %"),
        ),
        "head": "| question | ran + out of memory | τ | chosen | best measured | regret |",
        "read": (
            "The choice is among those measured, so its regret is over these. Where the device sets "
            "the pace steps of Llama and Qwen were predicted 1 to 8 % too short. GPT-2's, 7 to 24 % "
            "too short, had no cause then; it was the host: FSDP's Python (FSDP costs GPT-2 medium "
            "46 ms over DDP, Llama 3.2 1B nothing). Peaks are those of PyTorch's allocator; of two plans that were "
            "said not to fit both ran out of memory, 142 and 153 GiB of 140. On H100s nothing was "
            "run: the predictions of that device stand in the same file.\n\nTwo plans were also run "
            "as the script that `--for fsdp2` writes, as it is: Llama 3.2 1B (FSDP, micro-batch 8) "
            "took 301 ms a step (292 predicted, interval 278 to 306), Qwen3 1.7B (ZeRO-1, "
            "micro-batch 1, selective recomputation) 1,203 ms (565; 544 to 1,450). Their peaks "
            "were 16 and 28 KB off, of 54 and 32 GiB.\n\nTwo files that `--for torchtitan` writes were "
            "started with torchtitan 0.2.2 itself (`validation/torchtitan_runs.py`, predicted and "
            "committed before), Llama 3.1 8B with FSDP: 16 sequences of 2,048 (micro-batch 4) took "
            "1,589 ms a step (1,543 predicted, interval 1,456 to 1,643), 2 of 16,384 with selective "
            "recomputation 2,073 ms (1,903; 1,812 to 2,007), outside of its interval. torchtitan "
            "reserved 120.3 and 123.7 GiB; allocated were 113.8 and 119.7 predicted, and what was "
            "is not known, since torchtitan starts the peak anew at each line of its log. The second "
            "lacks 169 ms: our selective recomputation keeps the results of all products, "
            "torchtitan's of every second one. The other half of the blocks' forward products, "
            "1.14e14 FLOPs, takes 160 to 180 ms at 640 to 710 TFLOP/s: arithmetic after the fact, "
            "not measured alone. Writing the file showed an error in ours: without "
            "`selective_ac_option` torchtitan computes every second block again whole."
        ),
        "worst": "| question | plan | said before | today | today, by that host | measured |",
        "physics": (
            "The three worst are all paced by the host: the smaller a micro-batch, the more "
            "operators a step has for the same work, and a tensor-parallel block dispatches several "
            "times as many, each through DTensor's Python. An instruction of `torch.distributed`'s "
            "Python takes 2.8 times as long as one of a model's, measured by made-up programs on "
            "another machine ([distributed-accuracy.md]"
            "(distributed-accuracy.md#python-of-torchdistributed)); before, it cost the same, and "
            "plans with tensor parallelism lacked 41 to 51 % even with the constants of their own "
            "host (14.1 µs to dispatch an addition, 1.96 times those of the quickest). That bench "
            "knows of DTensor's Python only by the speed of plain Python. None of these runs was "
            "fitted to; but the upper end of an unknown host's interval is that of ten machines, of "
            "which this is one."
        ),
    },
    "zh": {
        "title": "## 在两块 H200 上自己的运行",
        "intro": (
            "六个模型的 {predicted} 个方案（DDP、FSDP、ZeRO-1、张量并行、重计算、直到显存上限的微批次）"
            "在任何一个运行之前就已预测并提交（`validation/plan_runs.py`）。用 PyTorch 2.11 分两次测量，"
            "每个方案有自己的进程：{ran} 个运行成功，{full} 个显存不足，这也作为结果保留；{left} 个没有在限时内"
            "完成。没有任何东西按它们调整过。"
        ),
        "totals": "| 对象 | 目标 | 结果 |",
        "rows": (
            ("所选的遗憾：平均，最差", "3 %"),
            ("Kendall τ，平均", "–"),
            ("是否放得下：判对；误称放得下", "98 %；0"),
            ("显存峰值：平均误差，最差", "1.5 %"),
            ("此前预测的步时：误差中位数，最差，落在 80 % 区间内", "75–90 %"),
            ("同上，按今天的代码", "75–90 %"),
            ("…… 并用那台主机的常数", "75–90 %"),
        ),
        "head": "| 问题 | 运行 + 显存不足 | τ | 所选 | 测得最好的 | 遗憾 |",
        "read": (
            "选择只在测过的方案之中，遗憾也按它们计。在设备决定速度的地方，Llama 和 Qwen 的步时被预测短了 1 % "
            "到 8 %。GPT-2 短了 7 % 到 24 %，当时原因不明，其实是主机：FSDP 的 Python（FSDP 使 GPT-2 medium 比 DDP 多花 46 ms，Llama 3.2 1B 则不多花）。峰值是 PyTorch "
            "分配器的；两个被判为放不下的方案都显存不足（140 GiB 中的 142 和 153 GiB）。H100 上没有运行：该设备"
            "的预测在同一文件中。\n\n两个方案还按 `--for fsdp2` 写出的脚本原样运行：Llama 3.2 1B（FSDP，"
            "微批次 8）每步 301 ms（预测 292，区间 278 到 306），Qwen3 1.7B（ZeRO-1，微批次 1，选择性重计算）"
            "1,203 ms（565；544 到 1,450）。它们的峰值相差 16 和 28 KB（54 和 32 GiB）。"
            "\n\n`--for torchtitan` 写出的两个文件用 torchtitan 0.2.2 本身启动（`validation/torchtitan_runs.py`，"
            "此前已预测并提交），Llama 3.1 8B 加 FSDP：16 个 2,048 token 的序列（微批次 4）每步 1,589 ms（预测 1,543，"
            "区间 1,456 到 1,643）；2 个 16,384 token 的序列、选择性重计算为 2,073 ms（1,903；1,812 到 2,007），"
            "在区间之外。torchtitan 预留了 120.3 和 123.7 GiB；预测的已分配量为 113.8 和 119.7，实际分配量未知，"
            "因为 torchtitan 每写一行日志就重新开始计峰值。第二个差 169 ms：我们的选择性重计算保留所有乘积的结果，"
            "torchtitan 只保留每两个中的一个。各块前向乘积的另一半为 1.14e14 FLOPs，以 640 到 710 TFLOP/s 计需 "
            "160 到 180 ms：这是事后的算术，没有单独测量。写文件时发现了我们的一个错误：没有 `selective_ac_option` 时 "
            "torchtitan 把每第二个块整块重算。"
        ),
        "worst": "| 问题 | 方案 | 此前预测 | 今天 | 今天，按那台主机 | 测得 |",
        "physics": (
            "最差的三个都由主机决定速度：微批次越小，同样的工作在一步中的算子越多；张量并行的块要分派数倍的算子，"
            "每个都经过 DTensor 的 Python。`torch.distributed` 的 Python 的一条指令用时是模型的 2.8 倍，由另一台机器上的"
            "虚构程序测得（[distributed-accuracy.md](distributed-accuracy.zh-CN.md)）；此前两者同价，张量并行的方案即使"
            "用自己主机的常数（分派一次加法 14.1 µs，最快主机的 1.96 倍）也少 41 % 到 51 %。那次基准只通过普通 Python 的"
            "速度知道 DTensor 的 Python。没有任何东西按这些运行拟合；但未知主机的区间上端取自十台机器，这台是其中之一。"
        ),
    },
}
