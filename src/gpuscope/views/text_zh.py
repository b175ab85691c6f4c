"""Chinese for the English texts of the views, by area. The key is the English text."""

from __future__ import annotations

from collections.abc import Mapping

from gpuscope.views.text_zh_bench import BENCH_CHINESE
from gpuscope.views.text_zh_blocks import BLOCKS_CHINESE
from gpuscope.views.text_zh_claims import CLAIMS_CHINESE
from gpuscope.views.text_zh_doctor import DOCTOR_CHINESE
from gpuscope.views.text_zh_energy import ENERGY_CHINESE
from gpuscope.views.text_zh_job import JOB_CHINESE
from gpuscope.views.text_zh_measure import MEASURE_CHINESE
from gpuscope.views.text_zh_pictures import PICTURES_CHINESE
from gpuscope.views.text_zh_recorded import RECORDED_CHINESE
from gpuscope.views.text_zh_watch import WATCH_CHINESE

_GENERAL = {
    ", ": "、",
    ": ": "：",
    ". ": "。",
    "; ": "；",
    "not available": "不可用",
    "measured": "实测",
    "predicted": "预测",
    "calibrated": "标定",
    "datasheet": "数据手册",
    "estimated": "估计",
    "what-if": "假设",
    "the patched source": "打补丁后的源码",
}

_HEADLINE = {
    "{origin} on": "{origin}，设备",
    "Step time": "单步时间",
    "Throughput": "吞吐量",
    "Peak memory": "显存峰值",
    "Energy": "能耗",
    "Cost": "费用",
    "80 % sure: {low} to {high}": "80 % 把握：{low} 至 {high}",
    "{rate} samples/s": "{rate} 样本/秒",
    "{rate} tokens/s": "{rate} token/秒",
    " of {size}  ": "，共 {size}  ",
    "reserved {size}": "预留 {size}",
    "Does not fit.": "放不下。",
    "Does not fit: {size} too much.": "放不下：超出 {size}。",
    "{power} on average": "平均 {power}",
    "{energy} a token": "每 token {energy}",
    " a step": " 每步",
    "{money} a million tokens": "每百万 token {money}",
    "{rate} of {peak}": "{rate}，峰值 {peak}",
    "The device works {device} of each step.": "设备每步工作 {device}。",
    "Operators take {device} of each step; the rest is Python and the framework between them.": (
        "算子每步用时 {device}；其余是算子之间的 Python 与框架。"
    ),
    "The device works {device} of each step. The host (the CPU that runs Python and launches the "
    "device's work) needs {host}: the slower of the two sets the pace.": (
        "设备每步工作 {device}。主机（运行 Python 并启动设备任务的 CPU）需要 {host}："
        "两者中较慢的一方决定速度。"
    ),
}

_TIME = {
    "Where the time goes": "时间花在哪里",
    "Compute-bound: arithmetic sets the time. Bandwidth-bound: device memory does. "
    "Instruction-bound: neither, the units are busy issuing instructions. Launch-bound: "
    "too short to matter but for starting. Idle: the device waits.": (
        "计算受限：时间由运算决定。带宽受限：由显存决定。指令受限：两者都不是，单元忙于发射指令。"
        "启动受限：内核太短，主要耗在启动上。空闲：设备在等待。"
    ),
    "compute-bound": "计算受限",
    "bandwidth-bound": "带宽受限",
    "instruction-bound": "指令受限",
    "launch-bound": "启动受限",
    "transfers": "数据传输",
    "communication": "通信",
    "not classified": "未分类",
    "idle": "空闲",
    "host dispatching": "主机派发",
    "host synchronising": "主机同步",
    "launch gap": "启动间隙",
    "waiting for data": "等待数据",
    "waiting for another stream": "等待另一个流",
    "waiting for another rank": "等待另一个 rank",
    "unknown": "未知",
    "By kernel family": "按内核类别",
    "family": "类别",
    "time": "时间",
    "of step": "占一步",
    "launches": "启动次数",
    "arithmetic": "运算速率",
    "traffic": "显存速率",
    "By phase": "按阶段",
    "forward": "前向",
    "backward": "反向",
    "optimizer": "优化器",
    "input": "输入",
    "other": "其他",
    "Top operators": "耗时最多的算子",
    "× best: how many times longer than the device could do it at its peak arithmetic and memory "
    "rates.": "× 最佳：是设备以峰值运算与显存速率完成同样工作所需时间的多少倍。",
    "operator": "算子",
    "calls": "调用次数",
    "limited by": "受限于",
    "× best": "× 最佳",
    "{n} others": "其余 {n} 个",
}

_FAMILIES = {
    "matmul": "矩阵乘",
    "attention": "注意力",
    "convolution": "卷积",
    "normalization": "归一化",
    "reduction": "归约",
    "pointwise": "逐元素",
    "gather": "收集/散布",
    "sort": "排序",
    "copy": "复制",
    "recurrent": "循环网络",
    "transfer": "主机传输",
    "collective": "集合通信",
    "memset": "清零",
    "random": "随机数",
    "fused": "融合内核",
    "kernel": "内核",
    "memcpy": "内存拷贝",
}

_LIMITERS = {
    "compute": "运算单元",
    "issue": "指令发射",
    "tensor core": "张量核心",
    "memory": "显存",
    "l2": "L2 缓存",
    "latency": "延迟",
    "launch": "启动",
    "link": "链路",
    "host": "主机",
}

_MODULES = {
    "By module": "按模块",
    "Device time with what is inside; equal layers are one row (×12 = twelve).": (
        "设备时间，包含子模块；相同的层合并为一行（×12 表示 12 层）。"
    ),
    "module": "模块",
    "model": "模型",
    "parameters": "参数量",
}

_HARDWARE = {
    "Roofline": "屋顶线",
    "The device computes at most {peak} and moves at most {bandwidth}. Kernels with less than "
    "{ridge} FLOP per byte are limited by memory, the others by arithmetic.": (
        "设备运算最快 {peak}，显存读写最快 {bandwidth}。每字节少于 {ridge} FLOP 的内核受显存限制，"
        "其余受运算限制。"
    ),
    "FLOP per byte": "FLOP/字节",
    "reached": "达到",
    "roof": "屋顶",
    "share of the roof": "占屋顶比例",
    "side": "受限于",
    "How the work is split": "任务如何划分",
    "A kernel is a grid of thread blocks. The device runs as many at once as it has room for: one "
    "wave. A last wave that is not full leaves units empty.": (
        "一个内核由许多线程块组成。设备一次能容纳多少块就同时运行多少块，称为一波。"
        "最后一波若未填满，部分单元就会闲置。"
    ),
    "count": "次数",
    "blocks": "线程块",
    "tile": "分块",
    "waves": "波数",
    "last wave": "最后一波",
    "warps": "占用率",
    "{share} full": "满 {share}",
}

_MEMORY = {
    "Memory at the peak": "峰值时的显存",
    "What is allocated at the peak, {time} into the step.": (
        "达到峰值时（一步开始后 {time}）已分配的内容。"
    ),
    "allocated over the step: lowest {low}, highest {high}": (
        "一步中的已分配显存：最低 {low}，最高 {high}"
    ),
    "largest at the peak": "峰值时最大的占用",
    "parameter": "参数",
    "gradient": "梯度",
    "optimizer state": "优化器状态",
    "activation": "激活值",
    "temporary": "临时张量",
    "buffer": "缓冲区",
    "cache": "KV 缓存",
    "workspace": "工作区",
}

_FINDINGS = {
    "What to change first": "首先可以改进什么",
    "Up to {time} ({share}) to gain. ": "最多可节省 {time}（{share}）。",
    "Assumptions": "假设",
    "and {n} more (see --json)": "另有 {n} 条（见 --json）",
    "Where the figures come from": "数据来历",
    "step time": "单步时间",
    "device time": "设备时间",
    "host time": "主机时间",
    "peak memory": "显存峰值",
    "reserved memory": "预留显存",
    "energy": "能耗",
    "Read on a real device.": "在真实设备上读取。",
    "Computed with constants measured on this kind of device.": "用同类设备上实测的常数计算。",
    "Computed with the vendor's figures.": "用厂商数据计算。",
    "Computed with constants carried over from other devices.": "用从其他设备推算的常数计算。",
    "Computed with figures that you changed.": "用您修改过的参数计算。",
}

_COMPARE = {
    "Ratios are to {first}: 2.00× takes half the time.": (
        "倍数以 {first} 为基准：2.00× 表示只用一半时间。"
    ),
    "Side by side": "并排对比",
    "samples/s": "样本/秒",
    "tokens/s": "token/秒",
    "{size} too much": "超出 {size}",
    "device": "设备",
    "step": "单步",
    "80 % interval": "80 % 区间",
    "speed": "速度",
    "mostly": "主要",
    "capacity": "容量",
    "fits?": "放得下？",
    "energy a step": "每步能耗",
    "$/M tokens": "美元/百万 token",
    "yes": "是",
    "no": "否",
    "By class": "按时间类别",
    "By module": "按模块",
    "By operator": "按算子",
}

_SWEEP = {
    "Elasticity: by how many per cent the step time changes for one per cent more since the row "
    "above; −1 pays off in full, 0 not at all.": (
        "弹性：相对上一行，每增加 1 % 时单步时间变化百分之几；−1 表示完全见效，0 表示毫无作用。"
    ),
    "A full bar: the step is 10 % faster too. Resources that change nothing are no loss to save "
    "on.": "满格表示单步同样快 10 %。毫无作用的资源，省下也无妨。",
    "About {share} of the step depends on none of these: the host, launches and latencies.": (
        "一步中约 {share} 与这些都无关：取决于主机、启动与延迟。"
    ),
    "What is worth paying for": "什么值得花钱",
    "elasticity": "弹性",
    "! does not fit.": "! 表示放不下。",
    "10 % more of": "增加 10 %",
    "no change": "无变化",
    "memory bandwidth": "显存带宽",
    "L2 cache": "L2 缓存",
    "host link": "主机链路",
    "batch": "批量",
    "sequence": "序列长度",
    "devices": "设备数",
    "compute units": "计算单元数",
    "clock": "时钟频率",
    "power limit": "功率上限",
    "launch latency": "启动延迟",
    "scale-up bandwidth": "节点内互联带宽",
    "price per hour": "每小时价格",
}

_COMMANDS = {
    "{n} models. Predict one: gpuscope predict gpt2 --on h200": (
        "共 {n} 个模型。预测其中一个：gpuscope predict gpt2 --on h200"
    ),
    "name": "名称",
    "tasks": "任务",
    "description": "说明",
    "Wrote {path}": "已写入 {path}",
    "Predict with it: {command}": "用它来预测：{command}",
    "Fitting constants …": "正在拟合常数……",
    "Unexpected error: {kind}: {text}": "意外错误：{kind}：{text}",
    "This is a mistake in gpuscope.": "这是 gpuscope 的错误。",
    "Please report it with what the same command prints under {variable}=1.": (
        "请设置 {variable}=1 重新运行同一命令，并附上输出来报告。"
    ),
    "Interrupted.": "已中断。",
    "Capturing {workload} …": "正在捕获 {workload} …",
    "Predicting on {device} ({number} of {total}) …": (
        "正在预测 {device}（第 {number} 个，共 {total} 个）…"
    ),
    "Point {number} of {total} …": "第 {number} 点，共 {total} 点 …",
    "Running {name} in the simulator …": "正在模拟器中运行 {name} …",
    "What more {resource} brings …": "更多{resource}能带来什么 …",
}

CHINESE: Mapping[str, str] = {
    **_GENERAL, **_HEADLINE, **_TIME, **_FAMILIES, **_LIMITERS, **_MODULES, **_HARDWARE, **_MEMORY,
    **_FINDINGS, **_COMPARE, **_SWEEP, **_COMMANDS, **MEASURE_CHINESE,
    **RECORDED_CHINESE, **BENCH_CHINESE, **BLOCKS_CHINESE,
    **PICTURES_CHINESE, **CLAIMS_CHINESE, **DOCTOR_CHINESE, **WATCH_CHINESE, **ENERGY_CHINESE,
    **JOB_CHINESE,
}  # fmt: skip
