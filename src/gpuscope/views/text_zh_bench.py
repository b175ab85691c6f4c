"""Chinese for the English texts about benches. The key is the English text."""

from __future__ import annotations

from collections.abc import Mapping

BENCH_CHINESE: Mapping[str, str] = {
    ".": "。",
    "{title} ({number} of {total}): {points} points …": (
        "{title}（第 {number} 项，共 {total} 项）：{points} 个测点 …"
    ),
    # the words of the data
    "read": "读",
    "write": "写",
    "forward": "前向",
    "backward": "反向",
    "data gradient": "数据梯度",
    "weight gradient": "权重梯度",
    "host to device, pinned": "主机到设备，锁页",
    "device to host, pinned": "设备到主机，锁页",
    "host to device, pageable": "主机到设备，可分页",
    "device to host, pageable": "设备到主机，可分页",
    "both ways at once, pinned": "双向同时，锁页",
    "idle": "空闲",
    "bf16 products": "bf16 矩阵乘法",
    "memory copies": "显存拷贝",
    "to": "发往",
    "from": "来自",
    "causal": "因果",
    # lines of the card
    "Matrix product, {dtype}": "矩阵乘法，{dtype}",
    "of its {dtype} peak": "{dtype} 峰值的占比",
    "Attention {direction}, {dtype}": "注意力{direction}，{dtype}",
    "Attention, decode": "注意力，解码",
    "of its memory bandwidth": "显存带宽的占比",
    "Convolution, {dtype} {layout}": "卷积，{dtype} {layout}",
    "Device memory, {op}": "显存，{op}",
    "L2 cache, {op}": "L2 缓存，{op}",
    "Copy, {op}": "拷贝，{op}",
    "of both directions": "双向合计的占比",
    "Products beside a copy": "与拷贝并行的矩阵乘法",
    "Copy, device {a} to device {b}": "拷贝，设备 {a} 到设备 {b}",
    "Power, {load}": "功耗，{load}",
    "Sustained products, {dtype}": "持续矩阵乘法，{dtype}",
    "for a second": "持续一秒",
    "Clock, {load}": "频率，{load}",
    "Host, one operator": "主机，单个算子",
    "Launch call to kernel start": "从发起调用到内核开始",
    "{operation}, {ranks} ranks": "{operation}，{ranks} 个进程",
    # the sentence
    "{share} of its {dtype} peak at {case}": "在 {case} 下达到其 {dtype} 峰值的 {share}",
    "{share} of its memory bandwidth": "显存带宽的 {share}",
    "{rate} from memory": "显存 {rate}",
    "{device} reaches {what}": "{device}：{what}",
    "its host dispatches an operator in {time}": "主机派发一个算子用时 {time}",
    "This host dispatches an operator in {time}": "本机派发一个算子用时 {time}",
    # the card
    "what": "项目",
    "reached": "达到",
    "case": "条件",
    "The bar is the share of what the datasheet states.": "条形为数据手册标称值的占比。",
    "What this machine reaches": "本机能达到多少",
    "{count} processors": "{count} 个处理器",
    "bench": "测试",
    "points": "测点",
    "left out": "未测",
    "{count} could not be measured": "{count} 项无法测量",
    "Left out: what its time did not suffice for.": "未测：时间不够而略过的测点。",
    "The benches": "各项测试",
    "Interrupted: this is what was measured before. Go on with --resume.": (
        "已中断：以下为中断前测得的结果。用 --resume 继续。"
    ),
    "The clock was held down at times: {why}.": "频率曾被压低：{why}。",
    "{count} not measured: {why}": "{count} 项未测：{why}",
    "Saved in {folder}.": "已保存到 {folder}。",
    "full": "完整",
    "needs": "需要",
    "a GPU": "一块 GPU",
    "two GPUs": "两块 GPU",
    "Longest times, on a current data-centre GPU. Choose with --only A,B.": (
        "最长用时（当前数据中心 GPU）。用 --only A,B 选择。"
    ),
    # two benches
    "device memory": "显存",
    "L2 cache": "L2 缓存",
    "links": "链路",
    "host": "主机",
    "Times of {second} over {first}; above 1× {second} is slower. Within {noise} is noise.": (
        "{second} 与 {first} 的时间之比；大于 1× 表示 {second} 较慢。{noise} 以内视为噪声。"
    ),
    "By what bounds it": "按瓶颈",
    "By family": "按类别",
    "Single points that stand out": "个别异常测点",
    "Against the median of their family, beyond their own scatter.": (
        "与同类中位数相比，且超出自身的离散程度。"
    ),
    "Only one of them has {first} and {second} points: not compared.": (
        "各有 {first} 和 {second} 个测点只存在于一方：未比较。"
    ),
    "The two have no point in common.": "两者没有共同的测点。",
    "Different devices ({first}, {second}): differences are expected.": (
        "设备不同（{first}，{second}）：出现差异属正常。"
    ),
    "Neither machine is slower beyond the noise.": "两台机器的差异都在噪声以内。",
    "{machine} is slower: {where}": "{machine} 较慢：{where}",
    "(its clock is lower)": "（其频率较低）",
    "differs": "不同之处",
    "95 % interval": "95 % 区间",
    "clock ratio": "频率比",
    "state": "状态",
    "first": "前者",
    "second": "后者",
    "other kernel": "内核不同",
    # the page
    "Bench of {device}": "{device} 的实测",
    "Matrix products by size (hot)": "矩阵乘法随尺寸的变化（热）",
    "Bandwidth by working set (hot)": "带宽随工作集的变化（热）",
    "Copies by size": "拷贝随大小的变化",
    "side": "边长",
    "working set": "工作集",
    "size": "大小",
}
