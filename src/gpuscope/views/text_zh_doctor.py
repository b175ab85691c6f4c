"""Chinese for `gpuscope doctor`."""

from __future__ import annotations

_TEXTS = {
    "How this machine is wired": "本机的连接方式",
    "NUMA node {n}": "NUMA 节点 {n}",
    "{n} CPUs": "{n} 个 CPU",
    "PCIe switch": "PCIe 交换机",
    "down": "未连接",
    "of {best}": "可达 {best}",
    "Pairs of devices by the way between them: {ways}": "设备对的互连方式：{ways}",
    "Worth knowing": "值得知道",
    "Could not be read": "无法读取",
    "As it should be": "正常",
    "Also test the devices at work (minutes): gpuscope doctor --deep": (
        "还可以让设备实际运行来检验（需数分钟）：gpuscope doctor --deep"
    ),
    "Nothing was checked.": "没有检查任何项目。",
    "This machine is all right.": "这台机器一切正常。",
    "1 error": "1 个错误",
    "{n} errors": "{n} 个错误",
    "1 warning": "1 个警告",
    "{n} warnings": "{n} 个警告",
    "{what} to mend.": "有 {what}需要处理。",
    "driver": "驱动",
    "in {what}": "运行于 {what}",
    "group": "组",
    "check": "检查项",
    "what it looks at": "检查内容",
    "Only some of them: gpuscope doctor --only health --only driver": (
        "只运行一部分：gpuscope doctor --only health --only driver"
    ),
    "1 check in {time} s.": "1 项检查，用时 {time} 秒。",
    "{n} checks in {time} s.": "{n} 项检查，用时 {time} 秒。",
    "found": "发现",
    "why it matters": "影响",
    "what to do": "处理方法",
    "ok": "正常",
    "note": "提示",
    "warning": "警告",
    "error": "错误",
    "The two machines agree in all {n} results.": "两台机器的 {n} 项结果全部一致。",
    "{told} results are better or worse, {other} differ in figures, {same} agree.": (
        "{told} 项结果好坏不同，{other} 项数值不同，{same} 项一致。"
    ),
    "this machine": "这台机器",
    "the other": "另一台",
    "Examining this machine …": "正在检查这台机器 …",
    "Checking {name} …": "正在检查 {name} …",
    "Recording this machine …": "正在记录这台机器 …",
}

_CHECKS = {
    "Apple's GPU through Metal, and a Python that is not translated": (
        "Apple GPU（通过 Metal），以及未经转译的 Python"
    ),
    "Kernels for each device's architecture in this PyTorch": "PyTorch 是否含有各设备架构的内核",
    "The driver against the CUDA that PyTorch was built with": (
        "驱动与 PyTorch 构建所用 CUDA 是否匹配"
    ),
    "A tiny piece of work on each device that PyTorch sees": (
        "在 PyTorch 可见的每个设备上做一点计算"
    ),
    "The NVIDIA driver: installed, answering, and all devices there": (
        "NVIDIA 驱动：已安装、有响应、设备齐全"
    ),
    "Intel's devices and the XPU build of PyTorch": "Intel 设备与 PyTorch 的 XPU 版本",
    "NVIDIA's kernel modules: loaded, and as new as the library": (
        "NVIDIA 内核模块：已加载，且与驱动库版本一致"
    ),
    "LD_LIBRARY_PATH and PATH: one CUDA, and no stub libraries": (
        "LD_LIBRARY_PATH 与 PATH：只有一个 CUDA，且没有桩库"
    ),
    "The CUDA libraries that PyTorch really loads, each once": "PyTorch 实际加载的 CUDA 库，各一份",
    "cuDNN, NCCL, cuBLAS, ... as this PyTorch asks for them": (
        "cuDNN、NCCL、cuBLAS 等是否为 PyTorch 所要求的版本"
    ),
    "PyTorch: installed, importable, built for this machine's devices": (
        "PyTorch：已安装、可导入、面向本机设备构建"
    ),
    "AMD's driver and ROCm against the HIP that PyTorch was built with": (
        "AMD 驱动与 ROCm 是否与 PyTorch 构建所用 HIP 匹配"
    ),
    "The CUDA toolkit (nvcc) against the CUDA of PyTorch": "CUDA 工具包（nvcc）与 PyTorch 的 CUDA",
    "Triton, with which torch.compile makes its kernels": "Triton：torch.compile 用它生成内核",
    "The container or virtual system; the container toolkit": "容器或虚拟系统；容器工具包",
    "libcuda as programs load it against the host's driver": "程序加载的 libcuda 与主机驱动",
    "Processors and memory that this process may use": "本进程可用的处理器与内存",
    "/dev/shm: size and free space": "/dev/shm：容量与空闲空间",
    "Devices of the machine against those that PyTorch sees": "机器上的设备与 PyTorch 可见的设备",
    "In WSL: the GPU through Windows' driver": "在 WSL 中：通过 Windows 驱动使用 GPU",
    "Bridges and an IOMMU that send peer traffic through the host": (
        "让设备间流量绕经主机的 PCIe 桥与 IOMMU"
    ),
    "Ports of network cards: up, as fast as their like, near": "网卡端口：已连接、速率一致、距离近",
    "Memory node of each device and of this process": "各设备与本进程所在的 NUMA 节点",
    "NVLink ports against what the device has, their errors, the fabric": (
        "NVLink 端口数是否齐全、错误计数与互联网络状态"
    ),
    "PCIe generation and lanes now, against what is possible": (
        "PCIe 当前代数与通道数，与可达上限相比"
    ),
    "Whether devices reach each other's memory directly": "设备之间能否直接访问彼此的显存",
    "RDMA into device memory: peer module, dma-buf, device files, limits": (
        "到显存的 RDMA：对等模块、dma-buf、设备文件与限制"
    ),
    "Clocks that were set below the default, or stay low under load": (
        "时钟是否被设到默认值以下，或在负载下偏低"
    ),
    "Whether several processes may use a device": "是否允许多个进程使用同一设备",
    "Who holds memory of the devices; dead processes among them": (
        "谁占用显存；其中是否有已死的进程"
    ),
    "Errors of device memory, corrected and not": "显存错误：已纠正与未纠正",
    "Fans of devices that have their own": "自带风扇的设备的风扇状态",
    "Resets, bad memory and killed processes in the kernel log": (
        "内核日志中的复位、内存故障与被杀进程"
    ),
    "PCIe errors in the kernel log (AER)": "内核日志中的 PCIe 错误（AER）",
    "Xid lines of NVIDIA's driver in the kernel log": "内核日志中 NVIDIA 驱动的 Xid 信息",
    "Devices that are split into slices (MIG)": "被切分的设备（MIG）",
    "Whether the driver keeps idle devices ready": "驱动是否让空闲设备保持就绪",
    "Power limits against those that the device ships with": "功率上限与出厂值相比",
    "Memory rows or pages that were replaced after errors": "因错误而被替换的显存行或页",
    "Temperature of chip and memory against their limits": "芯片与显存温度，与上限相比",
    "Why clocks are held down now, and how long they were": "当前降频的原因，以及累计降频时间",
    "Right results and rate of matrix products, in each precision": (
        "各精度矩阵乘的结果是否正确及其速率"
    ),
    "Settings of PyTorch's caching allocator": "PyTorch 缓存分配器的设置",
    "Clock settings of the host's processors": "主机处理器的频率设置",
    "Variables of CUDA and ROCm that change performance": "影响性能的 CUDA 与 ROCm 环境变量",
    "Variables of NCCL that change performance": "影响性能的 NCCL 环境变量",
    "Variables of PyTorch and Triton that change performance": (
        "影响性能的 PyTorch 与 Triton 环境变量"
    ),
    "Memory of the host that is left, and swapping": "主机剩余内存与交换",
    "Transparent huge pages of the host": "主机的透明大页",
    "Limits of this process: open files, processes": "本进程的限制：打开文件数、进程数",
    "Room and speed of where data is read and written": "读写数据之处的空间与速度",
    "Threads of the host against the processors that may be used": "主机线程数与可用处理器数",
    "Collectives over all devices: right results and bus bandwidth": (
        "所有设备间的集合通信：结果是否正确、总线带宽"
    ),
    "Bandwidth of device memory and of copies to and from the host": (
        "显存带宽，以及与主机之间的拷贝带宽"
    ),
    "The host: exact products, memory patterns, memory bandwidth": (
        "主机：乘积是否精确、内存写读图样、内存带宽"
    ),
    "Patterns written to device memory and read again": "向显存写入图样并读回",
    "Copies between each pair of devices: right, and as fast as their link": (
        "每两个设备之间的拷贝：结果正确，且达到链路速率"
    ),
    "Half a minute of full load: rate, clocks, power, heat, unchanged results": (
        "满负荷半分钟：速率、时钟、功率、温度、结果不变"
    ),
    "cuDNN and NCCL as they run against the installed packages": (
        "实际运行的 cuDNN 与 NCCL 是否就是已安装的软件包"
    ),
    "Infinity Fabric between AMD devices": "AMD 设备之间的 Infinity Fabric",
    "AMD devices: temperature, memory errors, throttling": "AMD 设备：温度、显存错误、降频",
    "Apple machines: whether heat holds them down": "Apple 机器：是否因过热降频",
    "Intel devices: what xpu-smi says of each part": "Intel 设备：xpu-smi 对各部件的报告",
}
"""What each check looks at."""

DOCTOR_CHINESE = {**_TEXTS, **_CHECKS}
"""Keys are the English texts."""
