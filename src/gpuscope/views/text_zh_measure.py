"""Chinese for the English texts about measuring and profiling. The key is the English text."""

from __future__ import annotations

from collections.abc import Mapping

MEASURE_CHINESE: Mapping[str, str] = {
    "How it was measured": "测量方式",
    "Warm-up": "预热",
    "Timing": "计时",
    "Host": "主机",
    "Profiler": "剖析器",
    "Clock": "时钟",
    "Machine": "机器",
    "Notes": "说明",
    "power": "功率",
    "thermal": "温度",
    "{steps} steps, and the time had not settled": "{steps} 步，步时间尚未稳定",
    "{steps} steps; steady after {settled}": "{steps} 步；第 {settled} 步之后稳定",
    "the first took {time}": "第一步用时 {time}",
    "asked the device for memory {n} times": "向设备申请内存 {n} 次",
    "{n} graphs compiled": "编译了 {n} 个图",
    "{blocks} blocks of {steps} steps without the profiler, {low} to {high} a step": (
        "不带剖析器计时 {blocks} 组，每组 {steps} 步，每步 {low} 至 {high}"
    ),
    "issues a step in {time}": "发出一步需 {time}",
    "{steps} steps recorded, {time} each: {ratio} of the time without it": (
        "记录了 {steps} 步，每步 {time}：是不带剖析器时的 {ratio}"
    ),
    "{power} over {time}, ± {error} a step": "{time} 内平均 {power}，每步误差 ± {error}",
    "held down by: {reasons}": "降频原因：{reasons}",
    "{reason} limit {share} of the time": "{share} 的时间受{reason}限制",
    "median; {share} interval: {low} to {high}": "中位数；{share} 区间：{low} 至 {high}",
    "Building the workload …": "正在构建工作负载 …",
    "Warming up …": "正在预热 …",
    "Timing …": "正在计时 …",
    "Recording a timeline …": "正在记录时间线 …",
    "Reading the memory …": "正在读取内存 …",
    "Predicting …": "正在预测 …",
    "No prediction: {device} is not in the catalogue.": "没有预测：目录里没有 {device}。",
    "Interrupted: what was measured until then is shown.": "已中断：显示到那时为止的测量结果。",
    "Only one block was timed: there is no interval.": "只计时了一组：没有区间。",
}
