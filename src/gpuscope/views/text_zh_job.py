"""Chinese for what is told of a predicted job of many ranks."""

from __future__ import annotations

JOB_CHINESE = {
    "{rate} a device": "每设备 {rate}",
    "rank {rank}, the fullest; rank {other} needs least: {size}": (
        "rank {rank} 占用最多；rank {other} 最少：{size}"
    ),
    "of all {n} devices": "（全部 {n} 个设备）",
    "{power} a device": "每设备 {power}",
    "mean of {n} devices": "{n} 个设备的平均",
    "exposed communication: {label}": "未被掩盖的通信：{label}",
    "pipeline bubble": "流水线气泡",
    "waiting for other ranks": "等待其他进程",
    "device idle (host, start-up)": "设备空闲（主机、启动）",
    "waiting by chance": "随机等待",
    "The mean over all {n} ranks. Exposed: data moves and the device does nothing else; what "
    "runs beside kernels costs nothing here.": (
        "全部 {n} 个进程的平均。未被掩盖：数据在传输而设备没有其他工作；与内核并行的通信在此不计。"
    ),
    "The job": "整个作业",
    "ranks": "进程",
    "exposed": "未掩盖",
    "bubble": "气泡",
    "hidden": "被掩盖",
    "Equal ranks are one line. Hidden: communication under kernels and copies.": (
        "相同的进程合为一行。被掩盖：在内核与拷贝之下进行的通信。"
    ),
    "{rank} and {n} more": "{rank} 等 {n} 个以上",
    "dimension": "维度",
    "size": "大小",
    "a group of it": "其中一组",
    "talks over": "所用链路",
    "running": "运行",
    "A device's place says which part it holds: pp 1 is the second stage, tp 0 the "
    "first shard of each layer, dp 3 the fourth replica's data.": (
        "设备的位置说明它持有哪一部分：pp 1 是第二级，tp 0 是每层的第一个分片，dp 3 处理第四个副本"
        "的数据。"
    ),
    "The mesh": "设备网格",
    "the host": "主机",
    "node {n}": "节点 {n}",
    "… and {n} more nodes, alike": "……另有 {n} 个同样的节点",
    "One line a stage, time to the right. Digits: forward passes of microbatches 0, 1, ...; "
    "letters: backward passes a, b, ...; a dot: the stage waits.": (
        "每级一行，时间向右。数字：微批次 0、1……的前向；字母：反向 a、b……；点：该级在等待。"
    ),
    "Bubble {share} of the schedule; {ideal} with equal stages and instant sends.": (
        "气泡占调度的 {share}；若各级相等且收发不耗时，则为 {ideal}。"
    ),
    "The pipeline": "流水线",
    "a device": "每设备",
    "efficiency": "效率",
    "$/step": "每步美元",
    "Efficiency: what a device does in a second, against the first row.": (
        "效率：单个设备每秒完成的工作，与第一行相比。"
    ),
    "With {n} devices: {limit}": "{n} 个设备时：{limit}",
    "How it scales": "扩展情况",
}
