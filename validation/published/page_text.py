"""Words of docs/published.md and its Chinese twin."""
# ruff: noqa: E501 - a Chinese character counts as two columns

from __future__ import annotations

from collections.abc import Mapping

TEXT: Mapping[str, Mapping[str, str]] = {
    "en": {
        "title": "# Other people's measured runs, predicted\n\n[中文](published.zh-CN.md)",
        "intro": (
            "{total} training steps and single passes that other people measured and published, "
            "each with its source in `validation/published/rows.jsonl`. {rows} of them are "
            "predicted here, {waiting} more can be expressed and wait to be run, and {left} cannot, "
            "with the reason. {serving} rows of serving engines "
            "(TensorRT-LLM, vLLM, Neuron) are left out: their batches come and go. No constant was "
            "fitted to any of these rows. `make validate-published` predicts them all anew.\n\n"
            "Compared is the time of a step, or tokens a second, never MFU: every source counts "
            "its FLOPs in its own way. Where a source prints FLOPs alone, its own formula turns "
            "them back into time (`validation/published/measured.py`). An error is predicted over "
            "measured less 1: above 0 is too slow. Intervals are meant to hold 80 %."
        ),
        "NVIDIA": "NVIDIA",
        "others": "others",
        "result": "## Result\n\nTargets, set beforehand: median at most 10 % on NVIDIA, 15 % on "
        "others; intervals hold at least 80 %.",
        "head_all": "| devices of | rows | median | mean | worst | lean | held | interval |",
        "unfinished": "**Not finished:** {waiting} rows wait to be run anew, mostly float8, mixtures of "
        "experts and long pipelines, which are harder than those above. Do not read these "
        "medians as the result for all.",
        "old": "{old} rows, marked † below, were predicted by an earlier state of the models than the "
        "newest and wait to be predicted anew.",
        "by_source": "## By source and hardware\n\n*Lean* is the median with its sign; *held* how "
        "often the interval holds the measurement; *interval* its median half-width.",
        "head_source": "| source | hardware | rows | median | mean | worst | lean | held |"
        " interval |",
        "held_out": "## Sources and releases held out\n\nA profile holds facts of the software, so that "
        "leaving a source out changes no prediction. What the others tell of it: *factor*, by which "
        "the half-widths of kernels, releases and what is not stated must be multiplied so that 80 % "
        "of a source that nobody has read is held (conformal, each source counted once: "
        "`validation/published/sources.py`), and *held at it*; and how far all err to one side, "
        "*leaned* being the error with that taken off. Factors are {least} to {most}, and with them "
        "{covered} of the rows are held. These sources were read while profiles were written, and rows "
        "kept back by others erred 1.6 times as far (11.5 % against 7.1 %), so that no interval is "
        "narrowed: the factor used is at least 1 (*held*). Were all errors 1.6 times as far, {further} of "
        "the rows would be held. Leaning is not used: the median error goes from {plain} to {leaned} "
        "with it.",
        "head_held": "| source left out | rows | median | leaned | factor | held at it | held |",
        "releases": "A release left out of the spread between releases, and its source of the factor:",
        "head_releases": "| release left out | rows | median | leaned | factor | held at it | held |",
        "stacks": "## How each software was expressed\n\nAs facts of its documentation, code or "
        "paper, with their sources, a file for each (`validation/published/stacks/`), chosen by the "
        "software that a row names. Its recipes by model and release are there, too, and what it takes "
        "where a row states nothing. What a row does not state widens its interval by arithmetic: all "
        "of the forward pass again, the pipeline's idle share without chunks, a sequence of half or "
        "twice the length, float8 or 16 bits (`validation/published/unstated.py`). The "
        "program that is predicted is PyTorch's own, captured with these habits. Many microbatches "
        "without a pipeline are computed from one and from two.",
        "head_stacks": "| software | file | what is taken for granted | what is left out |",
        "causes": "## Where it errs, and what to doubt",
        "left": "## Not predicted",
        "head_left": "| source | why | rows |",
        "all": "## Every row",
        "fold": "As CSV: `validation/results/published.csv`.",
        "head_rows": "| model | hardware | devices | measured | predicted | error |"
        " 80 % interval |",
    },
    "zh": {
        "title": "# 预测他人公布的实测结果\n\n[English](published.md)",
        "intro": (
            "共 {total} 个他人测量并公布的训练步与单次前向（或前向加反向），每条都注明出处"
            "（`validation/published/rows.jsonl`）。其中 {rows} 条给出了预测；{waiting} 条可以表达、等待运行；{left} 条不能，并说明原因。"
            "另有 {serving} 条推理服务引擎（TensorRT-LLM、vLLM、Neuron）的结果不在此列：它们的批次随时变化。"
            "没有任何常数是按这些结果拟合的。`make validate-published` 会全部重新预测。\n\n"
            "比较的是每步时间或每秒 token 数，从不比较 MFU：各家对 FLOPs 的计法不同。只公布 FLOPs 的来源，"
            "按其自己的公式换算回时间（`validation/published/measured.py`）。误差 = 预测 ÷ 实测 − 1，大于 0 表示"
            "预测偏慢。区间应包含 80 % 的实测值。"
        ),
        "NVIDIA": "NVIDIA",
        "others": "其他厂商",
        "result": "## 结果\n\n事先定下的目标：NVIDIA 的中位误差不超过 10 %，其他厂商不超过 15 %；"
        "区间至少包含 80 % 的实测值。",
        "head_all": "| 厂商 | 条数 | 中位 | 平均 | 最差 | 偏向 | 区间命中 | 区间半宽 |",
        "unfinished": "**尚未完成：**等待重新运行的 {waiting} 条多为 float8、混合专家和长流水线，比上面的更难；"
        "不要把这些中位数当作全部结果。",
        "old": "{old} 条（下文以 † 标出）由比最新状态更早的模型预测，等待重新预测。",
        "by_source": "## 按来源与硬件\n\n*偏向*是带符号的中位误差；*区间命中*是区间包含实测值的比例；"
        "*区间半宽*取中位数。",
        "head_source": "| 来源 | 硬件 | 条数 | 中位 | 平均 | 最差 | 偏向 | 区间命中 | 区间半宽 |",
        "held_out": "## 留出整个来源与整个版本\n\n配置档只含软件的事实，因此留出一个来源不会改变任何预测。其他来源能说明的是："
        "*系数*，即内核、版本与未说明之处的半宽须乘以多少，才能包含没人读过的来源的 80 %（按来源的保形方法，每个来源计一次："
        "`validation/published/sources.py`），以及*按它命中*的比例；还有全体共同偏向一侧多少，*去偏*即扣除它之后的误差。"
        "系数为 {least} 至 {most}，按它命中 {covered}。编写配置档时读过这些来源，而由他人保留的结果误差是其 1.6 倍"
        "（11.5 % 对 7.1 %），所以不收窄任何区间：实际使用的系数不小于 1（*命中*）。若所有误差都达到 1.6 倍，{further} 的结果仍在区间内。去偏没有采用：中位误差由 {plain} 变为 {leaned}。",
        "head_held": "| 留出的来源 | 条数 | 中位 | 去偏 | 系数 | 按它命中 | 命中 |",
        "releases": "把一个版本从版本间差异中留出，并把其来源从系数中留出：",
        "head_releases": "| 留出的版本 | 条数 | 中位 | 去偏 | 系数 | 按它命中 | 命中 |",
        "stacks": "## 各软件栈如何表达\n\n依据其文档、代码或论文中的事实及出处，每个软件一个文件（`validation/published/stacks/`），"
        "按结果所写的软件选取；各模型、各版本的配方，以及结果没有说明时的取值，也在其中。没有说明之处按算术加宽区间："
        "再做一遍前向、流水线不分块时的空等、序列减半或加倍、float8 或 16 位（`validation/published/unstated.py`）。"
        "被预测的是按这些习惯捕获的 PyTorch 程序。没有流水线而微批次很多时，由一个与两个微批次推算。",
        "head_stacks": "| 软件 | 文件 | 采用的事实 | 未表达的部分 |",
        "causes": "## 误差在哪里，哪些地方值得怀疑",
        "left": "## 没有预测的",
        "head_left": "| 来源 | 原因 | 条数 |",
        "all": "## 每一条",
        "fold": "CSV：`validation/results/published.csv`。",
        "head_rows": "| 模型 | 硬件 | 设备数 | 实测 | 预测 | 误差 | 80 % 区间 |",
    },
}
"""By language."""

HARDWARE_DOUBTS: Mapping[str, tuple[str, ...]] = {
    "en": (
        "MPT, A100: attention in the first generation of flash attention. With the second, long "
        "sequences came out 20 % too fast.",
        "MPT, H100: too fast. CUDA 11.8 and PyTorch 2.0 were the first to support Hopper; the "
        "matrix rates here were measured with later libraries. No source says by how much they "
        "grew, so nothing was changed.",
        "Attention on Hopper: flash attention 2 uses instructions of the A100, so it reaches on "
        "an H100 what was measured on the H200, about 300 TFLOP/s; before these rows it was taken "
        "to reach as large a share of the peak as on an A100.",
        "Megatron's family was 20 to 110 % too slow as long as PyTorch's own steps were predicted. What was missing is physics and "
        "settings, each taken from the sources, none from an error. (1) Tensor parallel communication, exposed in PyTorch, runs beside "
        "its product; the copies after each gather are not made. (2) Rotary positions, gated activations, the order of experts' "
        "tokens and sums of gradients are no kernels of their own. (3) Transformer Engine takes cuDNN's attention where PyTorch takes "
        "flash attention 2 (GB300, B300). (4) MLPerf's logs print neither precision nor chunks nor microbatch; the configuration files that "
        "they come with do, and those are the profile's (before, they were looked up run by run); Llama 3's paper implies chunks of one layer, so eight stages a rank (16 "
        "stages and 16 microbatches without interleaving would idle for half of the step).",
        "Pipelines: in PyTorch's schedules a stage's first pass waits for its parameters, and the next stage for that pass, so the "
        "waits of all stages add up: 1.9 s of a predicted step of 8.5 s for Llama 3 405B on 16,384 H100s. Megatron-LM and Meta's code "
        "gather ahead and sum gradients beside the passes, and are predicted that way now. Gathers beside their own product, too, "
        "were held back here until lately, since both name the same memory.",
        "Mixtures of experts: tokens are spread evenly here and there (the source forces balance). How they are sent, what runs "
        "beside it and what is computed again is what each release's recipe says (`stacks/nemo.toml`). Experts are "
        "taken as chosen one by one; DeepSeek-V3 chooses groups of them first, which reaches fewer nodes. B200, B300 and H100 of "
        "early releases come out 20 to 65 % too fast: on B300 a layer of Qwen3-235B takes about as long with two sequences as with one, "
        "which says that the host set the pace, and Megatron's host was not measured; experts are one kernel here, and one product each "
        "in Transformer Engine of that time. Where a row does not state microbatch "
        "or interleaving, one sequence and none are taken.",
        'fms-fsdp: 10 % (A100) and 24 % (H100) too fast. Its "selective" recomputation is of whole blocks, one in so many '
        "(docs/configurations.md), and how many is not stated; the cheapest kind is predicted, operator by operator. All blocks "
        "again would add up to a third. Its H100s reached 39 % of their peak where its A100s reached 54 %.",
        "Llama 3.1-8B with context parallelism (torchtitan): 32 % and 35 % too fast at 131,072 and 262,144 tokens, 7 % at 65,536. "
        "Attention is nearly all of such a step; ring steps of that release did not overlap as well as predicted, or its kernel "
        "fell below 300 TFLOP/s. Not settled.",
        "Long sequences (NeMo): the source prints FLOPs alone. NeMo's formula counts attention whole (12 s^2 h a layer, "
        "nemo/utils/flops_formulas.py); the causal half had been taken, which made the same runs 12 to 60 % too slow. Counted as NeMo "
        "does they come out 2 % too slow to 19 % too fast: the ring of NeMo 24.03 did not hide all of its exchanges.",
        "B200 (SimuMax's machine): 8 % too fast in the middle, 11 % before cuDNN's attention was fitted. Its own table of single products "
        "(configs/system/b200_bf16_ceperm.json) has 1,085 TFLOP/s in the middle for those above 0.3 ms, in loops of 100 calls under "
        "the power limit; 1,390 are predicted for such a loop. NVIDIA's own steps on GB200 need more than the table would leave "
        "them, so two machines of one name differ: no constant was taken from either's steps, nor from the table. Of DeepSeek-V3 cut "
        "to four layers three have experts, as the source's scripts set it; with the whole model's three leading blocks without any "
        "it came out 31 % too fast. Its three runs with context parallelism are 14 to 19 % too fast since they are predicted as its "
        "scripts set them, over heads (10 to 12 % as a ring): one more thing that machine did slower.",
        "Blackwell's power: the energy of a FLOP was carried from the H200 as a share of the board's power, as if a GB300's cost "
        "1.4 times a B200's. B200, GB200, B300 and GB300 have the same pair of dies: a FLOP costs the same joules on each now, the "
        "H200's over 1.32 (measured energy efficiency of a B200, arXiv:2512.02189v2), and a board with more watts keeps a higher "
        "clock. Dense models on GB300 had been 7 to 22 % too slow for it.",
        "From NeMo 26.06 on the recipes make an expert's activation and its cast inside of the product before it "
        "(cutedsl_fused_grouped_mlp), which is taken out of the step now, and Qwen3's exchange beside other work, which had been "
        "overlooked: Qwen3-235B on GB200 had been 36 % too slow, and is 14 %. DeepSeek-V3 on GB300 still comes out 10 % too slow from "
        "then on: attention in float8 and graphs of a whole iteration are in its recipe and not predicted.",
        "Sums of gradients inside of a product: Megatron's products for weights read and write the sum, in float32 or, where a "
        "recipe says so, bfloat16. Only a result by itself had been counted. SimuMax's table, which nothing was fitted to, shows "
        "it: single products that add were 3 % quicker here than the others against it, those of experts with few tokens took half "
        "of what they take; both are as the others now.",
        "ZeRO-3 of 2021: 51 % and 35 % too fast. One of its rows was misread as GPT-3's size; sizes without a name are now known by their "
        "number of parameters. What DeepSpeed did around its gathers is not stated.",
        "Intervals: kernels; what the row does not state; how far a run moves from one release to the next, which published "
        "repeats of the same run tell (`validation/published/repeats.py`: 4 % for dense models, 13 % with experts, 80 %, in "
        "logarithms); and a factor that other sources tell (above). Only the last looks at errors, never at those of its own source.",
        "TPU: products keep blocks of sums in 128 MiB of scratchpad (before: a cache of 32 MiB, and "
        "most were bound by memory) and reach what Google's micro-benchmark of a v6e does, 90 % of "
        "the peak; heads of 128 fill half of its 256 x 256 arrays. Recipe by recipe, what is kept and "
        "what overlaps is MaxText's own setting. What remains is too fast: collectives that hinder "
        "products, copies to the host and all-reduces are not in it. On Mixtral the capacity "
        "of 1.25 and the products that dispatch tokens are not, either. MaxText's own rows are "
        "of December 2023, when its configuration had other defaults (no gates, heads of 256, a tied output layer): with these, sizes are those of "
        "their names. 22B and 52B on v4 came out 1 % too fast to 5 % too slow at first sight, v5e 2 % too fast to 13 % too slow; the "
        "tensor parallel ones (128B, 512B) 28 to 36 % too slow, and 4 to 11 % once their collectives run beside products, as their scripts' flags say.",
        "GPT-3 175B on v5p multiplies in int8: the script says so, and its rate, with everything "
        "computed again, would be 115 % of the bf16 peak. It is no longer compared.",
        "AMD: what float32 products, elementwise steps, softmax and layer norms reach on an MI210 is "
        "fitted to NeuSight's measurements of single operators (docs/hardware.md); before, float32 on "
        "its matrix units took constants of the H200's vector lanes. GPT-2 large in training takes "
        "5.9 times as long for batch 4 as for batch 1 there: not explained.",
        "NeuSight: sizes, heads and what is timed are those of its own files: its gpt3_xl is 3,072 "
        "wide, 2.9 billion parameters (before, it was taken for GPT-3 XL); a pass of BERT classifies; "
        "gradients add up from pass to pass. Precision is not stated; float32 without tensor cores is "
        "assumed from its device files. What float32 products reach on a T4 (half of its peak, at "
        "70 W; two runs of its tables differ by 17 %, and both are fitted), an L4 (a quarter, at 72 W: before, it came out 25 to 40 % too fast), a V100 and an A100 on "
        "PCIe is fitted to its tables of single operators.",
        "Attention windows: Gemma 3 12B on TPUs, five of whose six blocks see 1,024 tokens, came out 1 % and 7 % too fast at first sight, with "
        "what its recipe prints (sequences of 32,768, blocks of 1,024, the output layer in 16 pieces). GPT-OSS 120B had come out 20 to 50 % too "
        "fast, and not for its windows: Megatron-Core clamps an expert's gate and value and puts them together again in steps of their own, adds the last "
        "bias in float32 steps (`_apply_bias`, megatron/core/transformer/moe/experts.py), and turns queries and keys step by step, since YaRN scales them. "
        "With these in the program its rows in bf16 are 11 % too fast to 5 % too slow, those in MXFP8 5 to 6 % too fast. Not in it are attention's sinks and what GB200's recipe computes again "
        "(norms, the activation of experts). One plan on one machine went from 28,947 to 18,304 and back to 28,672 "
        "tokens/s a GPU in its last three releases.",
        "NeMo 25.09 prints no precision: its footnote and the layouts of its recipes say float8. Dense models came out 9 % too fast to 13 % too slow, mixtures of "
        "experts 27 % too fast to 32 % too slow; Qwen3 on GB200 and B200, whose recipes replay CUDA graphs, had been 49 and 103 % too slow without.",
        "State-space mixers: Nemotron 3 Nano came out 19 to 26 % too fast at first sight, 17 to 23 % since mamba_ssm's kernels were recorded on an H200: "
        "they take 1.3 times (forward) and 1.6 times (backward) as long as with each tensor moved once (`src/gpuscope/cost/recurrent/state_space.py`). On Blackwell nobody "
        "measured them. Experts of 1,856 features in one product each, its router's steps in float32 and its second choice of experts for the balancing loss are not in the program.",
        "NVFP4 (Llama 3 70B on GB200) came out 4 % too fast to 5 % too slow at first sight. Its casts read a tensor three times (Transformer Engine's quantizer); what its products reach is carried from "
        "other dtypes, 85 % of the peak.",
        "Blackwell's attention: what cuDNN reaches there is fitted to NVIDIA's own times of single kernels (cudnn-frontend's benchmark of May 2026, Llama 3.1's and DeepSeek-V3's shapes on "
        "GB200 and GB300). Carried from the H200 the backward pass for heads of 192 had taken 1.5 to 1.7 times as long: DeepSeek-V3 on GB300 came out 21 % too slow from NeMo 26.06 on, and is 10 % now.",
        "Low-rank adapters (MLPerf, Llama 2 70B): expressed from its train.py and configuration, nothing else, they came out "
        "5 % too fast to 10 % too slow at first sight. Two habits decide: with eight ranks a sequence the host sets the pace without CUDA graphs (0.99 s, 0.23 measured), and "
        "a ring of keys and values instead of shared heads takes half as long again (0.35 s). Rows that state no parallelism, and "
        "those that split adapters over tensor parallel ranks, are not expressed.",
        "Long pipelines: how much tasks slow each other was settled when none changed by more than 1/10,000 of the step, so that in a "
        "step of a minute nothing was settled at all. Their sum counts now: Llama 3 405B on 256 GB200s takes 57.8 s where 55.7 had "
        "been predicted.",
        "Host: what DTensor's Python costs beside its operators is counted since it was benched. Megatron-LM, NeMo, Meta's code and MaxText "
        "have layers of their own, and are predicted without it (`dtensor = false` in their files): with it GPT-3 20B of NeMo, split over "
        "two ranks, came out 78 % too slow. What their own Python costs was not measured here; Transformer Engine's linear layer took the host 2.7 times as long as PyTorch's "
        "in August 2025, on Grace (github.com/NVIDIA/TransformerEngine/issues/2053). It is what the worst rows lack: with a host twice as slow Qwen3-235B on B300 of NeMo 26.02 "
        "comes out 5 % too slow instead of 55 % too fast, on 64 B200s 26 % instead of 42 %, Qwen3-30B on H100 15 % too fast instead of 58 %, and rows without exchange beside other "
        "work hardly move. With the 2.7 for products, casts, norms and attention alone they are 39 to 49 % too fast. Not in the predictions.",
        "Releases differ: Qwen3-235B on 256 GB200s went from 5,448 to 7,376 tokens/s a GPU between "
        "NeMo 26.02 and 26.06, with the same plan. A prediction knows no release.",
    ),
    "zh": (
        "MPT，A100：注意力为第一代 flash attention。若按第二代计算，长序列的预测会快 20 %。",
        "MPT，H100：预测偏快。CUDA 11.8 与 PyTorch 2.0 刚开始支持 Hopper；这里的矩阵乘速率是用后来的库测得的。"
        "没有来源说明差多少，因此没有改动。",
        "Hopper 上的注意力：flash attention 2 使用 A100 的指令，在 H100 上只能达到 H200 上实测的水平，约 300 TFLOP/s；"
        "此前的假设是它能达到与 A100 相同的峰值比例。",
        "Megatron 一系：按 PyTorch 自身的步骤预测时偏慢 20 至 110 %。缺的是物理过程与设置，都取自来源，没有一项取自误差。"
        "（1）张量并行通信在 PyTorch 中是暴露的，在这里与矩阵乘重叠，收集之后也没有拷贝。（2）旋转位置编码、带门控的激活、专家 token 的排序、"
        "梯度累加都不是单独的内核。（3）Transformer Engine 使用 cuDNN 注意力，而 PyTorch 在 GB300、B300 上选 flash attention 2。"
        "（4）MLPerf 的日志不打印精度、分块与微批次，随附的配置文件写明，现属于其配置档（此前逐次查找）；Llama 3 论文的描述意味着每块一层，即每卡八个阶段"
        "（16 个阶段、16 个微批次若不交错，半个步都在空等）。",
        "流水线：在 PyTorch 的调度中，一个阶段的首次前向要等参数收集完，下一阶段又要等这次前向，于是所有阶段的等待累加："
        "16,384 块 H100 上的 Llama 3 405B，预测的一步 8.5 s 中占 1.9 s。Megatron-LM 与 Meta 的代码提前收集参数，并在计算的同时对梯度求和，"
        "现在按此预测。与自身矩阵乘并行的收集，此前也因两者引用同一块内存而被推迟。",
        "混合专家：两边的 token 都均匀分配（来源强制均衡）。token 如何发送、与什么并行、哪些部分重算，都按各版本的配方"
        "（`stacks/nemo.toml`）。这里假设专家逐个选出；DeepSeek-V3 先选专家组，到达的节点更少。早期版本的 B200、B300 与 H100 "
        "偏快 20 至 65 %：在 B300 上，Qwen3-235B 的一层在两个序列时与一个序列时用时相近，说明节奏由主机决定，而 Megatron 的主机开销没有测量；"
        "这里所有专家是一个内核，当时的 Transformer Engine 则每个专家一次矩阵乘。"
        "没有说明微批次或交错的，按一个序列、不交错计算。",
        "fms-fsdp：A100 上偏快 10 %，H100 上偏快 24 %。它的“选择性”重算是每隔若干块整块重算（docs/configurations.md），间隔没有说明；"
        "这里按最省的逐算子方式预测。若全部块都重算，最多增加三分之一。它的 H100 达到峰值的 39 %，A100 为 54 %。",
        "带上下文并行的 Llama 3.1-8B（torchtitan）：131,072 与 262,144 个 token 时偏快 32 % 与 35 %，65,536 时为 7 %。这样的一步几乎全是注意力；"
        "当时版本的环形步骤重叠不如预测，或内核低于 300 TFLOP/s。尚无定论。",
        "长序列（NeMo）：来源只公布 FLOPs。NeMo 的公式把注意力全部计入（每层 12 s^2 h，nemo/utils/flops_formulas.py）；此前按因果的一半换算，"
        "使同样的运行显得预测偏慢 12 至 60 %。按 NeMo 的计法，预测偏慢 2 % 至偏快 19 %：NeMo 24.03 的环形交换没有全部被隐藏。",
        "B200（SimuMax 的机器）：中位偏快 8 %，拟合 cuDNN 注意力之前为 11 %。其自己的单个矩阵乘表（configs/system/b200_bf16_ceperm.json）中，0.3 ms 以上的中位为 1,085 TFLOP/s，"
        "是功率限制下连续 100 次调用的结果；这里对这样的循环预测为 1,390。NVIDIA 自己在 GB200 上的训练步所需的速度高于该表所能给出的，"
        "可见同名的两台机器不同：没有从任何一方的训练步取常数，也没有从该表取。截为四层的 DeepSeek-V3 有三层带专家（来源的脚本如此设置）；"
        "此前按整个模型的前四层计算，偏快 31 %。其三条上下文并行的结果按脚本在注意力头之间切分预测，快 14 至 19 %（按环形为 10 至 12 %）。",
        "Blackwell 的功率：每次运算的能量此前按板卡功率的份额从 H200 推来，似乎 GB300 每次运算要费 B200 的 1.4 倍。B200、GB200、B300 与 GB300 "
        "是同一对裸片：现在每次运算能量相同，为 H200 的 1/1.32（B200 实测能效，arXiv:2512.02189v2），功率更高的板卡保持更高的频率。"
        "GB300 上的稠密模型此前因此偏慢 7 至 22 %。",
        "从 NeMo 26.06 起，配方把专家的激活及其转换并入前一个矩阵乘（cutedsl_fused_grouped_mlp），现在不再单独计时；Qwen3 的交换与其他工作重叠，此前被忽略：GB200 上的 Qwen3-235B 曾偏慢 36 %，现为 14 %。此后 GB300 上的 DeepSeek-V3 "
        "仍偏慢 10 %：其配方中的 float8 注意力与整步 CUDA graph 没有预测。",
        "在矩阵乘之内累加梯度：Megatron 求权重梯度的矩阵乘会读写累加值，为 float32，配方写明时为 bfloat16。此前只计入结果本身。"
        "没有用于拟合的 SimuMax 表可以证明：与它相比，累加的单个矩阵乘在这里比其他的快 3 %，token 很少的专家只有实际的一半；现在两者与其他一致。",
        "2021 年的 ZeRO-3：偏快 51 % 与 35 %。其中一条曾被误读为 GPT-3 的尺寸；没有名字的尺寸现在按参数量识别。DeepSpeed 在收集前后做了什么没有说明。",
        "区间：内核；没有说明之处；同一任务在版本之间的变化，由已公布的重复测量给出（`validation/published/repeats.py`：稠密模型 4 %，混合专家 13 %，"
        "80 %，对数）；以及由其他来源给出的系数（见上）。只有最后一项看误差，且从不看本来源的误差。",
        "TPU：矩阵乘把部分和的块放在 128 MiB 的片上存储中（此前按 32 MiB 缓存计算，大多受内存限制），并达到 "
        "Google 的 v6e 微基准的水平，即峰值的 90 %；128 宽的注意力头只填满 256 x 256 阵列的一半。保留什么、"
        "重叠什么，逐个配方取自 MaxText 的设置。剩余误差是偏快：妨碍矩阵乘的集合通信、到主机的拷贝、"
        "all-reduce 未计入；Mixtral 还缺容量系数 1.25 与分发 token 的矩阵乘。MaxText 自己的结果写于 2023 年 12 月，"
        "当时其配置的默认值不同（无门控、头宽 256、输出层与词嵌入共用）：照此，各模型的参数量与其名称一致。v4 上的 22B 与 52B 初次预测即为快 1 % 至慢 5 %，v5e 为快 2 % 至慢 13 %；"
        "张量并行的 128B 与 512B 慢 28 至 36 %，按其脚本的标志让集合通信与矩阵乘重叠后为慢 4 至 11 %。",
        "v5p 上的 GPT-3 175B 用 int8 做矩阵乘：其脚本如此设置，且在全部重算时其速率将是 bf16 峰值的 115 %。不再比较。",
        "AMD：MI210 上 float32 矩阵乘、逐元素步骤、softmax 与层归一化能达到的速率，由 NeuSight 的单算子实测拟合"
        "（docs/hardware.zh-CN.md）；此前其矩阵单元上的 float32 用的是 H200 向量单元的常数。GPT-2 large 训练在 batch 4 时"
        "用时是 batch 1 的 5.9 倍：原因不明。",
        "NeuSight：模型尺寸、输出头与计时范围取自其自己的文件：其 gpt3_xl 宽 3,072、29 亿参数（此前被当作 GPT-3 XL）；"
        "BERT 推理是分类；梯度逐次累加。来源没有说明精度；依据其设备文件假设为不使用张量核心的 float32。T4（70 W，约为峰值的"
        "一半；其两次测量相差 17 %，两者都参与拟合）、L4（72 W，约四分之一：此前预测偏快 25 至 40 %）、V100 与 PCIe 版 A100 上 float32 矩阵乘能达到的速率，由其单算子实测拟合。",
        "滑动窗口：TPU 上的 Gemma 3 12B（六块中五块只看 1,024 个 token）按其配方（序列 32,768、分块 1,024、输出层分 16 块）初次预测即快 1 % 与 7 %。GPT-OSS 120B 曾快 20 至 50 %，"
        "原因不在窗口：Megatron-Core 对专家的门控与数值分步截断再拼接，最后的偏置以单独的 float32 步骤相加（megatron/core/transformer/moe/experts.py 的 `_apply_bias`），"
        "且因 YaRN 缩放，查询与键的旋转逐步计算。计入后 bf16 的各行为快 11 % 至慢 5 %，MXFP8 的快 5 至 6 %。注意力汇点（sink）与 GB200 配方重算的部分（归一化、专家激活）仍不在程序中。"
        "同一方案在同一机器的最近三个版本中，每 GPU 每秒 token 数由 28,947 变为 18,304，又回到 28,672。",
        "NeMo 25.09 没有写明精度：其脚注与配方中的布局说明是 float8。稠密模型快 9 % 至慢 13 %，混合专家模型快 27 % 至慢 32 %；GB200 与 B200 上的 Qwen3，其配方重放 CUDA graph，不计入时慢 49 与 103 %。",
        "状态空间层：Nemotron 3 Nano 初次预测即快 19 至 26 %，mamba_ssm 的内核在 H200 上记录之后为 17 至 23 %：它们所用时间是每个张量搬运一次的 1.3 倍（前向）与 1.6 倍（反向）（`src/gpuscope/cost/recurrent/state_space.py`）。"
        "Blackwell 上没有人测过。每个宽 1,856 的专家各为一次矩阵乘、路由的 float32 步骤、为均衡损失再选一次专家均不在程序中。",
        "NVFP4（GB200 上的 Llama 3 70B）初次预测即为快 4 % 至慢 5 %。其转换要读三遍张量（Transformer Engine 的量化器）；其矩阵乘能达到的速率沿用其他数据类型的，为峰值的 85 %。",
        "Blackwell 的注意力：cuDNN 在其上能达到的速率，由 NVIDIA 自己公布的单内核时间拟合（cudnn-frontend 2026 年 5 月的测试，GB200 与 GB300 上 Llama 3.1 与 DeepSeek-V3 的形状）。"
        "此前沿用 H200 的常数，宽 192 的头的反向慢 1.5 至 1.7 倍：GB300 上的 DeepSeek-V3 自 NeMo 26.06 起慢 21 %，现为 10 %。",
        "低秩适配器（MLPerf，Llama 2 70B）：只按其 train.py 与配置表达，初次预测即为快 5 % 至慢 10 %。两个习惯起决定作用：八卡分担一个序列时，"
        "没有 CUDA graph 则由主机定步速（0.99 s，实测 0.23），以环形传递键值代替分担注意力头则再长一半（0.35 s）。未写明并行方式的，"
        "以及在张量并行各卡之间切分适配器的，未表达。",
        "长流水线：任务之间互相拖慢多少，原来以每个任务的变化不超过一步的万分之一为准，于是一分钟的步里什么都没有算进去。现在按总和计："
        "256 个 GB200 上的 Llama 3 405B 为 57.8 s，原预测 55.7 s。",
        "主机：DTensor 的 Python 在其算子之外的开销，自测得以来计入。Megatron-LM、NeMo、Meta 的代码与 MaxText 有自己的层，预测时不计（其文件中 `dtensor = false`）：计入时 NeMo 的 GPT-3 20B（两卡切分）会慢 78 %。它们自己的 Python 开销在此没有测过；2025 年 8 月在 Grace 上，Transformer Engine 的线性层所用主机时间是 PyTorch 的 2.7 倍（github.com/NVIDIA/TransformerEngine/issues/2053）。"
        "最差的几行缺的正是它：主机慢一倍时，NeMo 26.02 的 B300 上 Qwen3-235B 由快 55 % 变为慢 5 %，64 个 B200 上由快 42 % 变为慢 26 %，H100 上 Qwen3-30B 由快 58 % 变为快 15 %，而交换不与其他工作重叠的行几乎不变。"
        "只对矩阵乘、转换、归一化与注意力取 2.7 倍时仍快 39 至 49 %。预测中未计入。",
        "软件版本有差别：同样的切分方式，256 块 GB200 上的 Qwen3-235B 从 NeMo 26.02 的每卡 5,448 token/s 升到 26.06 的 7,376。预测不知道版本。",
    ),
}
"""Causes of errors, by language."""

WHY_ZH: Mapping[str, str] = {
    "expressed, but not run since the models changed": "可以表达，但模型改动之后尚未重新运行",
    "the sequence is not stated": "序列长度没有说明",
    "another framework's compiler, not described well enough": "使用其他框架的编译器，描述不足",
    "its attention windows have no ready-made program": "其滑动窗口注意力没有现成的程序",
    "what low-rank adapters its software trains is not described": "未说明其软件训练怎样的低秩适配器（LoRA）",
    "low-rank adapters under tensor parallelism have no ready-made program": "张量并行下的低秩适配器（LoRA）"
    "没有现成的程序",
    "time to train is no time of a step": "训练总时间不是单步时间",
    "MFU is no time of a step": "MFU 不是单步时间",
    "the batch is not stated": "批大小没有说明",
    "multi-token prediction has no ready-made program": "多 token 预测没有现成的程序",
    "experts of a latent have no ready-made program": "潜在空间中的专家没有现成的程序",
    "the precision is not stated": "精度没有说明",
    "its parallelism is not stated": "并行方式没有说明",
    "a job of several devices, which Accelerate's Megatron plugin prepared": "由 Accelerate 的 Megatron 插件准备的多设备任务",
    "a switch transformer has no program here": "Switch Transformer 没有现成的程序",
}
"""Reasons in Chinese; other reasons stay as they are."""
