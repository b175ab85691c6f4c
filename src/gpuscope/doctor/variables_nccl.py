"""Variables of NCCL and RCCL that change performance.

Source: NVIDIA, NCCL User Guide, "Environment Variables" (those marked as meant for debugging or
experiments only).
"""

from __future__ import annotations

from gpuscope.doctor.variables import Setting, below, is_on
from gpuscope.explain.types import Words

NCCL: tuple[Setting, ...] = (
    Setting(
        "NCCL_P2P_DISABLE", is_on, "warning",
        Words("NCCL may not use peer access.", "NCCL 被禁止使用点对点访问。"),
        Words(
            "Devices of one machine then talk through the host's memory: NVLink lies idle.",
            "同机设备只能经主机内存通信：NVLink 闲置。",
        ),
    ),
    Setting(
        "NCCL_P2P_LEVEL", lambda v: v.strip().upper() in ("LOC", "0"), "warning",
        Words("NCCL may not use peer access.", "NCCL 被禁止使用点对点访问。"),
        Words(
            "Devices of one machine then talk through the host's memory.",
            "同机设备只能经主机内存通信。",
        ),
    ),
    Setting(
        "NCCL_SHM_DISABLE", is_on, "warning",
        Words("NCCL may not use shared memory.", "NCCL 被禁止使用共享内存。"),
        Words(
            "Where peer access is missing, traffic takes the network, even inside one machine.",
            "无点对点访问时，即使在同一台机器内也要走网络。",
        ),
    ),
    Setting(
        "NCCL_IB_DISABLE", is_on, "warning",
        Words("NCCL may not use InfiniBand or RoCE.", "NCCL 被禁止使用 InfiniBand/RoCE。"),
        Words("Machines talk over TCP, many times slower.", "跨机通信改用 TCP，慢很多倍。"),
    ),
    Setting(
        "NCCL_NET_GDR_LEVEL", lambda v: v.strip().upper() in ("LOC", "0"), "warning",
        Words("NCCL may not use GPUDirect RDMA.", "NCCL 被禁止使用 GPUDirect RDMA。"),
        Words("Network traffic is copied through the host.", "网络流量要经主机中转。"),
    ),
    Setting(
        "NCCL_DEBUG", lambda v: v.strip().upper() == "TRACE", "warning",
        Words("NCCL logs every call.", "NCCL 记录每次调用。"),
        Words(
            "Logging slows small collectives and fills disks.",
            "日志拖慢小的集合通信并占满磁盘。",
        ),
        True,
    ),
    Setting(
        "NCCL_DEBUG", lambda v: v.strip().upper() == "INFO", "note",
        Words("NCCL logs how it sets up.", "NCCL 打印初始化日志。"),
        Words("Only the start is slower.", "仅启动稍慢。"),
    ),
    Setting(
        "NCCL_ALGO", is_on, "note", Words("NCCL's algorithm is forced.", "NCCL 算法被固定。"),
        Words(
            "NCCL would choose by size; one for all is rarely best.",
            "NCCL 本会按大小选择；固定一种很少最优。",
        ),
    ),
    Setting(
        "NCCL_PROTO", is_on, "note", Words("NCCL's protocol is forced.", "NCCL 协议被固定。"),
        Words(
            "LL suits small messages and halves the rate of large ones; LL128 on platforms that "
            "do not support it gives wrong data.",
            "LL 适合小消息，大消息速率减半；在不支持的平台上强制 LL128 会得到错误数据。",
        ),
    ),
    Setting(
        "NCCL_MAX_NCHANNELS", below(8), "note",
        Words("NCCL is held to few channels.", "NCCL 通道数受限。"),
        Words("Fewer multiprocessors for it, and less bandwidth.", "占用更少 SM，但带宽也更低。"),
    ),
    Setting(
        "NCCL_MAX_CTAS", below(8), "note",
        Words("NCCL is held to few thread blocks.", "NCCL 线程块数受限。"),
        Words("Fewer multiprocessors for it, and less bandwidth.", "占用更少 SM，但带宽也更低。"),
    ),
    Setting(
        "NCCL_BUFFSIZE", below(1 << 20), "note",
        Words("NCCL's buffers are small.", "NCCL 缓冲区偏小。"),
        Words("Large collectives are cut into more steps.", "大的集合通信被切成更多步。"),
    ),
    Setting(
        "NCCL_LAUNCH_MODE", lambda v: v.strip().upper() == "GROUP", "note",
        Words("NCCL launches all devices from one thread.", "NCCL 由单线程统一启动。"),
        Words("Meant for one process with several devices.", "用于单进程多设备的情形。"),
    ),
    Setting(
        "NCCL_SOCKET_IFNAME", lambda v: v.strip().lstrip("=") in ("lo", "docker0"), "note",
        Words(
            "NCCL is bound to an interface of this machine only.",
            "NCCL 被绑定到仅限本机的网卡。",
        ),
        Words("Jobs over several machines cannot connect.", "多机任务将无法连接。"),
    ),
    Setting(
        "TORCH_NCCL_BLOCKING_WAIT", is_on, "warning",
        Words("Waiting for a collective blocks the host.", "等待集合通信会阻塞主机。"),
        Words("The host cannot run ahead: less overlap.", "主机无法提前下发：重叠减少。"), True,
    ),
    Setting(
        "TORCH_NCCL_DESYNC_DEBUG", is_on, "note",
        Words(
            "Every collective is logged to find desynchronised ranks.",
            "记录每次集合通信以查找失步。",
        ),
        Words("A little time on each collective.", "每次集合通信略有开销。"),
    ),
    Setting(
        "TORCH_DISTRIBUTED_DEBUG", lambda v: v.strip().upper() == "DETAIL", "warning",
        Words("Each collective is checked across ranks.", "每次集合通信都做跨 rank 校验。"),
        Words("An extra synchronisation before each of them.", "每次之前多一次同步。"), True,
    ),
)  # fmt: skip
