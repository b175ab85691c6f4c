"""Chinese for the texts that only the HTML page has. The key is the English text."""

from __future__ import annotations

from collections.abc import Mapping

PAGE_CHINESE: Mapping[str, str] = {
    # frame
    "Skip to the content": "跳到正文",
    "Contents": "目录",
    "Runs": "各次运行",
    "Light": "浅色",
    "Dark": "深色",
    "Written by gpuscope {version}. The data of this page is in it, as JSON.": (
        "由 gpuscope {version} 生成。本页数据以 JSON 形式包含在页面中。"
    ),
    # headline
    "{share} of {size}": "{size} 的 {share}",
    "Energy a step": "每步能耗",
    "{money} a step": "每步 {money}",
    "up to {time}": "最多 {time}",
    "Host and device": "主机与设备",
    "The host is the CPU: it runs Python and launches the device's work, ahead of it where it "
    "can. The slower of the two sets the pace.": (
        "主机即 CPU：它运行 Python 并启动设备的任务，尽可能走在设备前面。两者中较慢的一方决定速度。"
    ),
    "device works": "设备工作",
    "host works": "主机工作",
    # tables
    "Show fewer": "收起",
    "Show all {n}": "显示全部 {n} 项",
    "Search": "搜索",
    "Search operators": "搜索算子",
    "Operators": "算子",
    "Press a row to find it in the timeline.": "点击一行可在时间线中找到它。",
    "Press a row to see that run.": "点击一行查看该运行。",
    "Assumptions and origins": "假设与数据来历",
    "As a table": "以表格显示",
    # timeline
    "Timeline": "时间线",
    "Timeline: arrow keys move, plus and minus zoom, brackets step through the events": (
        "时间线：方向键移动，加减键缩放，方括号键逐个查看事件"
    ),
    "When everything happens. Upper lanes: the host, issuing operators. Lower lanes: the device. "
    "Gaps in the device's lanes are idle time; dashed lines mark the step.": (
        "一切何时发生。上方泳道：主机派发算子；下方泳道：设备。设备泳道中的空隙是空闲时间；"
        "虚线标出一步的起止。"
    ),
    "Click, then scroll to zoom; drag to move; Shift and drag to zoom into a range; keys + − ← → "
    "0, [ and ] step through the events.": (
        "单击后滚轮缩放；拖动平移；按住 Shift 拖动可放大选区；按键 + − ← → 0，[ 与 ] 逐个查看事件。"
    ),
    "Nothing selected. Click an event to see what it is, who launched it and what limits it.": (
        "尚未选择。单击一个事件，可查看它是什么、由谁启动、受什么限制。"
    ),
    "Zoom in": "放大",
    "Zoom out": "缩小",
    "Fit": "适应",
    "Show the whole step": "显示整步",
    "Move left": "左移",
    "Move right": "右移",
    "duration": "时长",
    "starts at": "开始于",
    "phase": "阶段",
    "inputs": "输入",
    "threads": "线程",
    "note": "说明",
    "stream": "流",
    "host operator": "主机：算子",
    "host launch": "主机：启动",
    "host sync": "主机：同步",
    # roofline
    "A bubble is a kernel, its area its time. The line is what the device can do: under the slope "
    "memory limits ({bandwidth}), under the flat part arithmetic does ({peak}). The nearer to the "
    "line, the better.": (
        "每个气泡是一个内核，面积表示时间。折线是设备的能力：斜线下受显存限制（{bandwidth}），"
        "平线下受运算限制（{peak}）。越接近折线越好。"
    ),
    "{share} of its roof": "屋顶的 {share}",
    # modules
    "Device time of each part of the model, width by time, equal layers in one. Press a part to "
    "look inside it.": "模型各部分的设备时间，宽度表示时间，相同的层合并。点击某部分可查看其内部。",
    # memory
    "Memory": "显存",
    "Peak {peak}, {time} into the step. Reserved is what the allocator keeps from the device for "
    "re-use. Memory is taken when the host issues an operator, ahead of the device.": (
        "峰值 {peak}，出现在一步开始后 {time}。“预留”是分配器从设备取得并留作复用的显存。"
        "显存在主机派发算子时分配，早于设备执行。"
    ),
    "Memory over the step": "一步中的显存",
    "allocated": "已分配",
    "reserved": "预留",
    "capacity {size}, far above": "容量 {size}，远高于此",
    "What held the memory is not known.": "占用显存的内容未知。",
    "At the peak": "峰值时",
    "Largest at the peak": "峰值时最大的占用",
    "what": "内容",
    "of peak": "占峰值",
    # tasks
    "Press a row to see its last wave.": "点击一行查看其最后一波。",
    "left empty": "闲置",
    "Its waves are not known.": "其波数未知。",
    "{used} of {slots} places for blocks are taken: the kernel is smaller than the machine.": (
        "{slots} 个线程块位置中占用 {used} 个：该内核小于整台设备的容量。"
    ),
    "{grid} blocks run in {waves} waves of {slots}; in the last one {used} places are taken and "
    "{empty} stay empty.": (
        "{grid} 个线程块分 {waves} 波运行，每波 {slots} 个；最后一波占用 {used} 个位置，"
        "{empty} 个闲置。"
    ),
}
