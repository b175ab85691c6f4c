"""Chinese for what the views say of recordings: trust, ranks, idle spots, launches, copies."""

from __future__ import annotations

_TRUST = {
    "How far this recording can be trusted": "这份记录可信到什么程度",
    "Cannot be answered: {words}.": "无法回答：{words}。",
    "host": "主机",
    "ranks": "各 rank 之间",
    "steps": "各步差异",
    "The device did no work in this recording: what follows is the host's story.": (
        "记录中设备没有任何工作：以下只是主机的情况。"
    ),
    "median of {n} steps; the middle 80 %: {low} to {high}": (
        "{n} 步的中位数；中间 80 %：{low} 至 {high}"
    ),
    "mean {time}": "平均 {time}",
    "median of {n} marked step(s)": "{n} 个标记步的中位数",
    "the whole recording; no step is marked": "整份记录；没有标记步",
}

_IDLE = {
    "Why the device was idle": "设备为何空闲",
    "Each moment without device work, by what the host did meanwhile.": (
        "设备没有工作的每一刻，按主机当时在做什么划分。"
    ),
    "waiting for another rank": "等待其他 rank",
    "cause": "原因",
    "what the host did": "主机在做什么",
    "times": "次数",
    "longest": "最长",
    "not recorded": "未记录",
    "other places": "其他位置",
    "host, a step": "主机每步",
    "in {what}": "位于 {what}",
}

_PATH = {
    "Critical path": "关键路径",
    "The chain of work and waits that sets the step's length: shortening anything else gains "
    "nothing.": "决定一步时长的工作与等待链：缩短其他部分没有收益。",
    "could save at most": "最多可省",
    "part": "部分",
    "longest on the path": "路径上最长的",
    "kernel": "内核",
    "copy": "拷贝",
    "host operator": "主机算子",
    "host call": "主机调用",
    "python": "Python 代码",
    "loading input": "加载输入",
    "launch latency": "启动延迟",
    "synchronising": "同步",
    "handing over": "线程交接",
    "unexplained": "无法解释",
}

_LAUNCHES = {
    "Launches and their queue": "启动及其队列",
    "A host that stays ahead keeps a queue of launched work; an empty queue means that the "
    "device waits for the host.": (
        "主机若领先，就有一队已启动的工作；队列为空说明设备在等主机。"
    ),
    "Launches a step": "每步启动",
    "A launch call": "一次启动调用",
    "From call to work": "从调用到执行",
    "Queue": "队列",
    "Short kernels": "短内核",
    "{share} of the kernels are shorter than their own launch call": (
        "{share} 的内核比自己的启动调用还短"
    ),
    "{rate} a second": "每秒 {rate}",
    "{n} of CUDA graphs with {each} kernels each": "其中 {n} 次 CUDA 图，每次 {each} 个内核",
    "{n} device events without a known launch": "{n} 个设备事件找不到启动调用",
    "{time} a step in all": "每步共 {time}",
    "{time} where nothing was queued": "队列为空时 {time}",
    "{mean} on average, {most} at most": "平均 {mean}，最多 {most}",
    "{share} of the launches found it empty": "{share} 的启动遇到空队列",
    "Not linked": "未关联",
    "at most {most}": "最多 {most}",
    "launched and not yet begun, over the window": "已启动未开始的工作数随时间的变化",
}

_COPIES = {
    "Memory copies": "内存拷贝",
    "Per step. Not hidden: with no kernel beside it.": "按步计。未被掩盖：同时没有内核在运行。",
    "copies": "拷贝",
    "not hidden": "未被掩盖",
    "bytes": "字节",
    "median size": "大小中位数",
    "rate": "速率",
    "of the link": "占链路",
    "host to device": "主机到设备",
    "device to host": "设备到主机",
    "within the device": "设备内",
    "between devices": "设备之间",
    "within the host": "主机内",
    "unknown direction": "方向未知",
    "pageable": "可分页",
    "pinned": "锁页",
}

_RANKS = {
    "By rank": "按 rank",
    "rank": "rank 编号",
    "computing": "计算",
    "span": "跨度",
    "busy": "忙碌",
    "From the first to the last device event of each rank; unions, so nothing counts twice.": (
        "从每个 rank 的第一个到最后一个设备事件；取并集，不重复计时。"
    ),
    "and {n} more (see --json)": "还有 {n} 项（见 --json）",
    "Who waits for whom": "谁在等谁",
    "A collective ends when its last rank has come: what the shortest of its kernels takes is "
    "transfer, the rest is waiting for that rank.": (
        "集合通信要等最后一个 rank 到达才能结束：其中最短的内核时间是传输，其余是等那个 rank。"
    ),
    "transfer": "传输",
    "waiting": "等待",
    "made others wait": "让别人等",
    "came last": "最后到达次数",
    "clock": "时钟偏差",
    "most waiting in": "等待最多的通信",
    "last rank": "最后到达的 rank",
    "late by": "迟到",
    "because": "原因",
    "collective": "集合通信",
    "message": "消息大小",
    "transfer, each": "单次传输",
    "bus bandwidth": "总线带宽",
    "Communication": "通信",
    "One rank alone does not tell transfer from waiting: bandwidths are lower bounds.": (
        "只有一个 rank 时无法区分传输与等待：带宽只是下限。"
    ),
    "began late": "开始得晚",
    "more work": "工作更多",
    "slower kernels": "内核更慢",
    "other communication": "忙于其他通信",
}

_STEPS = {
    "How steps differ": "各步的差异",
    "{n} steps: median {median}, {fastest} to {slowest}; the middle 80 % spread over {spread} "
    "of the median.": (
        "{n} 步：中位数 {median}，范围 {fastest} 至 {slowest}；"
        "中间 80 % 的跨度为中位数的 {spread}。"
    ),
    "slow step": "慢步",
    "step {n}": "第 {n} 步",
    "extra": "多出",
    "what was longer": "变长的部分",
}

_SNAPSHOT = {
    "made in backward": "反向中产生",
    "What is allocated at the peak, {time} into the recording.": (
        "峰值时的占用，位于记录开始后 {time}。"
    ),
    "Peak {peak}, {time} into the recording. Reserved is what the allocator keeps from the device "
    "for re-use.": "峰值 {peak}，位于记录开始后 {time}。预留是分配器向设备申请并留作复用的部分。",
}

_HOST = {
    "What the host did": "主机做了什么",
    "Each without what it calls in turn; all host threads together.": (
        "每项不含其内部调用；所有主机线程合计。"
    ),
    "share": "占比",
    "The device works {device} ({share}) of a step": "每步中设备工作 {device}（{share}）",
    "The device works {device} ({share}) of the recording": (
        "记录中设备工作 {device}（{share}）"
    ),
    "; the host (the CPU that runs Python and launches the device's work) {host}": (
        "；主机（运行 Python 并启动设备工作的 CPU）工作 {host}"
    ),
    "No cause can be named: the device works {share} of the time, and for {dark} of it the "
    "recording does not tell what it waited for. Record again, with whole steps marked.": (
        "无法指出原因：设备在 {share} 的时间内工作，另有 {dark} 的时间记录没有说明它在等待什么。"
        "请重新记录，并标记完整的训练步。"
    ),
    "Nothing stands out. The device works {share} of the time.": (
        "没有突出的问题。设备有 {share} 的时间在工作。"
    ),
    "rank {rank}": "{rank} 号 rank",
}

_SYMBOLS = {
    "By kernel": "按内核",
    "The device's own symbols, shortened.": "设备内核符号（已缩短）。",
    "symbol": "符号",
    "each": "单次",
}

_COMMANDS = {
    "Reading {workload} …": "正在读取 {workload} …",
    "Read {done} of {total} …": "已读取 {done} / {total} …",
}

RECORDED_CHINESE = {
    **_TRUST, **_IDLE, **_PATH, **_LAUNCHES, **_COPIES, **_RANKS, **_STEPS, **_SYMBOLS,
    **_SNAPSHOT, **_HOST, **_COMMANDS,
}  # fmt: skip
