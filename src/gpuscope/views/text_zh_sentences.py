"""Chinese of sentences that other rooms write into a run: its notes, assumptions and sources.

The key is the English sentence with {names} where figures and names stand; `sentences.py` finds
them again in the finished sentence.
"""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    # What was read, and what was left out.
    "an unknown device": "未知设备",
    "Left out, not a trace: {names}. Name one to read it.": (
        "已略过，不是跟踪记录：{names}。要读取请直接写出文件名。"
    ),
    "Left out, not a trace: {names}.": "已略过，不是跟踪记录：{names}。",
    "Left out, cannot be read: {names}.": "已略过，无法读取：{names}。",
    "Left out, the rank is there already: {names}.": "已略过，该 rank 已有记录：{names}。",
    "{n} file(s) were named twice and count once.": "{n} 个文件重复列出，只算一次。",
    "{n} file(s) do not say their rank: they were numbered in the order of their names.": (
        "{n} 个文件没有写明 rank：按文件名顺序编号。"
    ),
    "{n} ranks are too large to keep whole: the host's events are there for rank {ranks} (the "
    "first, the one that computes longest, and the one that waits least); of the others device "
    "work and steps are.": (
        "{n} 个 rank 太大，不能全部保留：只有 rank {ranks}"
        "（第一个、计算最久的、等待最少的）保留主机事件；"
        "其余只保留设备工作与步。"
    ),
    "The clock of rank {rank} is not that of the others: its start was set to theirs, so times "
    "across ranks cannot be compared.": (
        "rank {rank} 的时钟与其他 rank 不同：已把它的起点对齐，因此不能跨 rank 比较时间。"
    ),
    # Memory snapshots.
    "This is a memory snapshot: it holds no times of kernels.": "这是显存快照：其中没有内核时间。",
    "Device {index} is shown; others by peak: {others}.": (
        "显示的是设备 {index}；其他设备按峰值：{others}。"
    ),
    "No history was recorded: this is the memory at the moment of the snapshot, not the peak. "
    "Call torch.cuda.memory._record_memory_history() before the step.": (
        "没有记录历史：这是快照那一刻的显存，不是峰值。请在步之前调用 "
        "torch.cuda.memory._record_memory_history()。"
    ),
    "{n} damaged entries were left out.": "略过了 {n} 条损坏的记录。",
    "The history holds no times: its points are in order, a microsecond apart.": (
        "历史中没有时间：各点按顺序排列，相隔一微秒。"
    ),
    # Measuring.
    "Interrupted: what was measured until then is shown.": "已中断：显示此前测得的内容。",
    "The step time had not settled after {n} steps: it may still change.": (
        "{n} 步之后单步时间仍未稳定：可能还会变化。"
    ),
    "Only one block was timed: there is no interval.": "只计时了一组：没有区间。",
    "Under the profiler a step takes {share} longer; idle times of the timeline are scaled to the "
    "step time without it.": (
        "带剖析器时一步多用 {share}；时间线上的空闲时间已按不带剖析器的单步时间缩放。"
    ),
    "The device is not ours alone: {names}. Times may be longer than they need be.": (
        "设备不是独占的：{names}。时间可能偏长。"
    ),
    "The loader ran out after {n} batch(es) and began again.": (
        "数据加载器在 {n} 个批次后用完，已从头开始。"
    ),
    "No timeline: the profiler failed ({why}).": "没有时间线：剖析器失败（{why}）。",
    "No memory breakdown: the history failed ({why}).": "没有显存分解：历史记录失败（{why}）。",
    "Steps were timed on the device, by events at their boundaries.": (
        "各步在设备上计时，用步边界处的事件。"
    ),
    "Steps were timed on the host, from boundary to boundary.": "各步在主机上计时，从边界到边界。",
    "Too few steps ran without the profiler: the step time is that of the recorded ones.": (
        "不带剖析器的步太少：单步时间取自记录的步。"
    ),
    "The recording ended early: the program started its own profiler.": (
        "记录提前结束：程序启动了自己的剖析器。"
    ),
    "The program ended in the middle of the recording.": "程序在记录中途结束。",
    "Ranks with a trace: {ranks}.": "有记录的 rank：{ranks}。",
    # Predicting.
    "With the best combination: {sentence}": "采用最佳组合时：{sentence}",
    "{limit} lowers the clock to about {clock} in this step.": (
        "{limit}使这一步的频率降到约 {clock}。"
    ),
    "The power limit of {watts} W": "{watts} W 的功耗上限",
    "Kernel times hold a small correction learned on this device (within a factor of 2 for short"
    " kernels, 10 % for long ones).": (
        "内核耗时含有在该设备上学到的小修正（短内核不超过 2 倍，长内核不超过 10 %）。"
    ),
    "Every token makes the cache longer than it ever was, and cuDNN plans its attention anew for"
    " each new length; lengths that the process has met before do not cost this.": (
        "每个词元都使缓存达到新的长度，而 cuDNN 要为每个新长度重新规划注意力；进程已经遇到过的长度"
        "没有这项开销。"
    ),
    "The data decides the size of matrix products here, and cuBLAS loads a kernel, for about 1 ms,"
    " when a new size needs one: the first hundred steps or so take longer than this.": (
        "这里矩阵乘法的大小由数据决定；遇到需要新内核的大小时，cuBLAS 要加载一个内核，约 1 ms："
        "最初一百步左右比这更慢。"
    ),
    "Operators without a kernel model, taken as bandwidth-bound: {names}.": (
        "没有内核模型的算子，按带宽受限处理：{names}。"
    ),
    "Checks of data read by the host are taken as passed: .all() true, .any() false; but not that"
    " all picked indices are equal to one (the end of generation).": (
        "主机读取数据所做的检查视为通过：.all() 为真，.any() 为假；但不认为所有选出的下标都等于"
        "某一个（生成结束）。"
    ),
    "Kernels that run at the same time on different streams do not slow each other.": (
        "不同流上同时运行的内核互不拖慢。"
    ),
    "No collective in the program: each of the {n} devices runs its own copy.": (
        "程序中没有集合通信：{n} 个设备各运行一份。"
    ),
    "Batches of a DataLoader with workers are taken as ready when the step asks for them.": (
        "带工作进程的 DataLoader 的批次，视为在需要时已经就绪。"
    ),
    "Indices picked by topk, argmax or sort are taken as spread evenly over their range.": (
        "topk、argmax 或 sort 选出的下标，视为在范围内均匀分布。"
    ),
    "Triton kernels of your own are not followed: each is taken as moving every tensor that it is"
    " given once.": "不跟踪您自己的 Triton 内核：每个内核按把所给的每个张量搬运一次计算。",
    "Integers that the host reads from tensors (.item(), .tolist()) are unknown without their"
    " values: where code uses one, 1 is taken.": (
        "主机从张量读出的整数（.item()、.tolist()）没有真实数据便无从得知：代码用到时取 1。"
    ),
    "Half of a data-dependent selection (nonzero, boolean index) is taken as true.": (
        "依赖数据的选择（nonzero、布尔下标）视为一半为真。"
    ),
    "Flags read from tensors (.item() on a bool) are taken as False.": (
        "从张量读出的标志（布尔值的 .item()）视为 False。"
    ),
    "Arrays read by NumPy are taken as zeros.": "NumPy 读取的数组视为全零。",
    "All values given to unique() are taken as distinct.": "传给 unique() 的值视为互不相同。",
    "Tensors compared by torch.equal are taken as equal.": "用 torch.equal 比较的张量视为相等。",
    # Where the energy comes from.
    "calibrated: power at rest, active, issuing, per FLOP and byte under steady loads": (
        "标定：稳定负载下的静态功耗、多处理器活动功耗、指令发射功耗、每次浮点运算与每字节的能耗"
    ),
    "Model FLOPs are those of matrix products, convolutions, attention and recurrent layers of the "
    "forward and backward pass, 2 per multiply-add; causal attention counts the half that the "
    "mask leaves; norms, activations and the optimizer do not count. MFU = model FLOPs / (step "
    "time x dense peak of {dtype}). HFU also counts forward work repeated in the backward pass: by "
    "activation checkpointing, and the attention scores that fused attention computes again.":
        "模型浮点运算量指前向和反向传播中矩阵乘、卷积、注意力和循环层的运算，每次乘加计 2；"
        "因果注意力只计掩码留下的一半；归一化、激活和优化器不计。MFU = 模型浮点运算量 /（步骤时间 "
        "× {dtype} 的稠密峰值）。HFU 还计入反向传播中重做的前向计算：激活检查点，"
        "以及融合注意力重算的注意力分数。",
    # What advise and optimize are doing.
    "Capturing the workload …": "正在捕获工作负载 …",
    "Measuring this machine's host, about 20 s …": "正在测量本机主机，约 20 秒 …",
    "Predicting: {names} …": "正在预测：{names} …",
    "Predicting a batch of {batch} …": "正在预测批大小 {batch} …",
    "Measuring the code as it is …": "正在测量原始代码 …",
    "Trying {names} …": "正在试验 {names} …",
    "comparing results": "正在比较结果",
    "Writing the patch, and running it …": "正在写补丁，并运行它 …",
    # Compiled programs.
    "torch.compile ({mode}): kernels are fused by the rules of its compiler, Inductor, in {which}; "
    "no compiler was run.": (
        "torch.compile（{mode}）：按其编译器 Inductor 的规则融合内核，范围是{which}；"
        "没有运行编译器。"
    ),
    "what compiled functions call": "编译函数所调用的部分",
    "the whole forward and backward pass": "整个前向与反向过程",
    "max-autotune: the compiler measures Triton's matrix products against the library's on the "
    "device; the library's are taken, so the step may be a little faster.": (
        "max-autotune：编译器会在设备上比较 Triton 与库的矩阵乘；这里取库的，因此实际可能略快。"
    ),
    "The host reads a value {n} times inside the compiled function: each is a graph "
    "break{lines}.": (
        "主机在编译函数内部读取了 {n} 次张量的值：每次都是一处图断裂{lines}。"
    ),
    "The compiled function returns {size} MB that nobody differentiates (such as logits beside a "
    "loss): its backward pass is given zeros of that size to read. Return only what is used.": (
        "编译函数返回了 {size} MB 没有人求导的结果（例如损失旁边的 logits）："
        "反向过程因此要读取同样大小的全零梯度。请只返回用得到的结果。"
    ),
    "Attention runs unfused inside the compiled function, where a mask that is expanded along the "
    "keys, or wants a gradient, rules every fused kernel out: slower than a fused kernel, and it "
    "may make compiling a loss.": (
        "编译函数内的注意力没有融合：沿键方向展开的掩码，或需要梯度的掩码，使所有融合内核都不可用。"
        "它比融合内核慢，可能使编译得不偿失。"
    ),
}
