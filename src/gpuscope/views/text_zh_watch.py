"""Chinese for the texts of `gpuscope watch`."""

from __future__ import annotations

WATCH_CHINESE: dict[str, str] = {
    "({share} sure)": "（把握 {share}）",
    "application clocks": "应用时钟设定",
    "software power cap": "软件功耗上限",
    "hardware slowdown": "硬件降频",
    "sync boost": "同步加速组",
    "software thermal slowdown": "软件过热降频",
    "hardware thermal slowdown": "硬件过热降频",
    "hardware power brake": "硬件功率制动",
    "display clocks": "显示时钟",
    "last minute": "最近 1 分钟",
    "last {minutes} minutes": "最近 {minutes} 分钟",
    "SM clock": "SM 频率",
    "memory clock": "显存频率",
    "temperature": "温度",
    "throttled by": "降频原因",
    "PCIe link": "PCIe 链路",
    "generation {generation} × {width}": "第 {generation} 代 × {width}",
    "Not available: {figures}.": "不可用：{figures}。",
    "utilisation": "利用率",
    "SMs": "SM 活动",
    "tensor cores": "张量核心",
    "PCIe in": "PCIe 流入",
    "PCIe out": "PCIe 流出",
    "device links": "设备互连",
    "processors": "处理器",
    "No accelerator is seen on this host.": "此主机上没有发现加速器。",
    "Should there be one? Type: gpuscope doctor": "本应有一个？请运行：gpuscope doctor",
    "what it does": "正在做什么",
    "Processes": "进程",
    "No process is on a device.": "没有进程在使用设备。",
    "and {count} more": "另有 {count} 个",
    "process": "进程号",
    "program": "程序",
    "device memory": "显存占用",
    "does not answer": "没有响应",
    "Serving {url}": "正在提供 {url}",
    "Waiting until process {pid} asks what to record …": "等待进程 {pid} 询问要记录什么 …",
    "What its Python threads do now (py-spy):": "它的 Python 线程此刻在做什么（py-spy）：",
    "not throttled": "未降频",
    "Looking …": "正在读取 …",
    "quit": "退出",
    "pause": "暂停",
    "go on": "继续",
    "paused": "已暂停",
    "end of recording": "记录已播完",
    "help": "帮助",
    "close help": "关闭帮助",
    "The figures": "各项数值",
    "The verdicts: what the last 10 seconds mean": "判断：最近 10 秒意味着什么",
    "Share of time in which any kernel ran; one that uses a single SM counts as much as "
    "one that fills the device.": (
        "有任意内核在运行的时间占比；只占用一个 SM 的内核与占满整个设备的内核同样计入。"
    ),
    "Share of the SMs that had work, on average. High utilisation with few SMs: kernels "
    "too small.": "平均有工作的 SM 占比。利用率高而 SM 占比低：内核太小。",
    "Share of time in which they multiplied; large matrix products reach 60 to 80 %.": (
        "张量核心在做乘法的时间占比；大矩阵乘法可达 60 % 到 80 %。"
    ),
    "Traffic of the device's memory over its peak; streaming kernels reach 80 to 90 %.": (
        "显存流量占峰值带宽的比例；流式内核可达 80 % 到 90 %。"
    ),
    "The most honest of all: units that work draw power, units that wait do not.": (
        "最诚实的指标：单元工作就耗电，等待则不耗。"
    ),
    "Traffic with the host: input that is copied in, results out.": (
        "与主机之间的流量：拷入的输入、拷出的结果。"
    ),
    "Traffic with other devices (NVLink, xGMI), both ways together.": (
        "与其他设备之间的流量（NVLink、xGMI），双向合计。"
    ),
    "The arithmetic units set the pace: well used.": "由运算单元决定速度：利用充分。",
    "The device's memory sets the pace.": "由显存带宽决定速度。",
    "The links set the pace, or a collective waits for another rank.": (
        "由互连决定速度，或集合通信在等待另一个 rank。"
    ),
    "Full kernels with gaps: data loading is too slow. More workers, pinned memory, "
    "prefetching.": "内核饱满但有空隙：数据加载太慢。可增加 worker、使用锁页内存、预取。",
    "Small kernels or gaps: Python launches too slowly. Larger batches, torch.compile, "
    "CUDA graphs.": (
        "内核太小或有空隙：Python 启动太慢。可增大批量、使用 torch.compile 或 CUDA graph。"
    ),
    "The power limit holds the clock down.": "功耗上限压低了频率。",
    "Heat holds the clock down: see to the cooling.": "过热压低了频率：请检查散热。",
    "Works, but does not tell which unit limits it.": "在工作，但没有说明受哪个单元限制。",
    "No kernel ran.": "没有内核运行。",
}
