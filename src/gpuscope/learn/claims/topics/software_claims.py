"""Claims about PyTorch, CUDA, drivers, containers and code."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import how_many
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import called, cannot_say, equals, holds
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.software_figures import in_torch, kept_after_free, on_tensor_cores
from gpuscope.learn.claims.sourced_facts import fact

BOOK = Book("software", "Software and code", "软件与代码")
add = BOOK.add

_REGISTRY = (
    "Whether an image of that name exists is for its registry to say; gpuscope asks no network.",
    "该镜像是否存在需查询镜像仓库；gpuscope 不访问网络。",
)

add(
    "A-039", "nvidia-smi does not show what PyTorch really uses, because its allocator caches.",
    "nvidia-smi 不反映 PyTorch 真实显存，因为分配器有缓存。",
    "cache", "",
    holds(
        "kept > 0", kept=kept_after_free(100 * 2**20),
        truth=(
            "Yes: of a tensor of 100 MiB that was made and freed, {kept:MiB} stay reserved",
            "是：创建并释放一个 100 MiB 张量后，仍预留 {kept:MiB}",
        ),
    ),
)  # fmt: skip
add(
    "A-041", "There is a module torch.cuda.memory_profiler.",
    "存在 torch.cuda.memory_profiler 模块。",
    "module", "",
    holds(
        "module or package", module=in_torch("cuda/memory_profiler.py"),
        package=in_torch("cuda/memory_profiler/__init__.py"),
        instead=in_torch("cuda/memory.py", "def _record_memory_history"),
        truth=(
            "There is none; torch.cuda.memory._record_memory_history and memory_summary exist",
            "没有；可用 torch.cuda.memory._record_memory_history 与 memory_summary",
        ),
    ),
)  # fmt: skip
add(
    "B-010", 'On AMD, PyTorch models are moved with .to("amd").',
    "PyTorch 在 AMD 上用 .to(\"amd\")。",
    "amd", "",
    holds(
        "named_amd > 0", named_amd=how_many("AMD", "pytorch_device", "amd"),
        named_cuda=how_many("AMD", "pytorch_device", "cuda"),
        truth=('With .to("cuda"), as on NVIDIA: so for {named_cuda:%} of AMD\'s devices',
               '用 .to("cuda")，与 NVIDIA 相同：AMD 设备的 {named_cuda:%} 如此'),
    ),
)  # fmt: skip
add(
    "B-011", "torch.cuda.is_available() tells of NVIDIA GPUs.",
    "torch.cuda.is_available() 用于 NVIDIA。",
    "NVIDIA", "",
    holds(
        "on_nvidia == 1", "on_amd == 0", on_nvidia=how_many("NVIDIA", "pytorch_device", "cuda"),
        on_amd=how_many("AMD", "pytorch_device", "cuda"),
        truth=("For NVIDIA and for AMD: both are \"cuda\" in PyTorch",
               "NVIDIA 和 AMD 都适用：在 PyTorch 中都叫 \"cuda\""),
    ),
)  # fmt: skip
add(
    "D-010", "Tensor cores are switched on by cudnn.benchmark = True.",
    "cudnn.benchmark=True 会启用张量核心。",
    "switch", "",
    holds(
        "fp32", fp32=on_tensor_cores("a100", "float32"), fp16=on_tensor_cores("a100", "float16"),
        tf32=on_tensor_cores("a100", "tf32"),
        truth=(
            "The number format does: FP16, BF16 or TF32 run there, FP32 does not, whatever the "
            "flag, which only lets cuDNN time its algorithms",
            "取决于数据类型：FP16、BF16、TF32 用张量核心，FP32 不用；该开关只是让 cuDNN 测速选算法",
        ),
    ),
)  # fmt: skip
add(
    "D-011", "conv.use_tensor_core = True makes a convolution use tensor cores.",
    "conv.use_tensor_core = True 可启用张量核心。",
    "attribute", "",
    holds(
        "in_conv or in_module", in_conv=in_torch("nn/modules/conv.py", "use_tensor_core"),
        in_module=in_torch("nn/modules/module.py", "use_tensor_core"),
        truth=(
            "PyTorch knows no such attribute; Python adds it and nothing reads it",
            "PyTorch 没有这个属性；Python 只是新增了一个没人读取的字段",
        ),
    ),
)  # fmt: skip
add(
    "D-012", "The article's ResNet (six halvings, then a pool of 7) takes images of 32 x 32.",
    "文中的 ResNet（六次减半后接 7×7 池化）可用 32×32 图像。",
    "32 x 32", "",
    holds(
        "left >= 7", left=formula("32 // 2**6"), fitting=formula("7 * 2**6"),
        truth=(
            "Nothing is left of them: 32 / 2^6 is below 1, so the layers fail; it wants images of "
            "{fitting:.0f}",
            "32 除以 2^6 不足 1，运行会报错；需要 {fitting:.0f} 像素的图像",
        ),
    ),
)  # fmt: skip
add(
    "D-013", "The article's model is a ResNet.",
    "文中模型是 ResNet。",
    "ResNet", "",
    cannot_say(
        "It takes the article's code: a ResNet adds each block's input to its output, so look for "
        "that addition.",
        "需看原文代码：ResNet 会把块的输入加到输出上，可据此查找。",
    ),
)  # fmt: skip
add(
    "D-014", "Accuracy is measured on the 10,000 test images of CIFAR-10.",
    "在 CIFAR-10 的 10000 张测试图像上评估。",
    10_000, "", equals(fact("cifar.test")),
)  # fmt: skip
add(
    "D-015", "Conv2d(3, 64, 7, stride=2, padding=3) halves an image of 32 x 32.",
    "Conv2d(3,64,7,stride=2,padding=3) 把 32×32 缩小一半。",
    16, "",
    holds(
        "pixels == 16", pixels=formula("(32 + 2 * 3 - 7) // 2 + 1"),
        weights=formula("3 * 64 * 7**2"),
        truth=(
            "Yes: to {pixels:.0f} pixels a side, with {weights:,.0f} weights",
            "是：边长缩到 {pixels:.0f} 像素，共 {weights:,.0f} 个权重",
        ),
    ),
)  # fmt: skip
add(
    "C-048", "A GeForce RTX 40 wants a driver from 530 on.",
    "RTX 40 需要 530 以上驱动。",
    530, "",
    holds(
        "first_driver >= 530", "cuda12_1 >= 530", first_driver=fact("driver.rtx4090"),
        cuda12_1=fact("cuda12_1.driver"),
        truth=(
            "The RTX 4090 came with {first_driver:.2f}; it is CUDA 12.1 that wants {cuda12_1:.0f}",
            "RTX 4090 首发驱动为 {first_driver:.2f}；需要 {cuda12_1:.0f} 的是 CUDA 12.1",
        ),
    ),
)  # fmt: skip
add(
    "D-016", "CUDA 11.1 with cuDNN 8.1 and Python 3.8 is what to install.",
    "应安装 cudatoolkit 11.1、cuDNN 8.1、Python 3.8。",
    11.1, "",
    holds(
        "11.1 >= ampere", "11.1 >= hopper", ampere=fact("cuda.ampere"), hopper=fact("cuda.ada"),
        truth=(
            "It serves an A100 (from {ampere:.1f}); Hopper and Ada need {hopper:.1f}",
            "可用于 A100（{ampere:.1f} 起）；Hopper 与 Ada 需要 {hopper:.1f}",
        ),
    ),
)  # fmt: skip
add(
    "C-030", "With CUDA 12.1, INT4 got better on the RTX 4090.",
    "CUDA 12.1 改进了 RTX 4090 的 INT4。",
    "12.1", "",
    cannot_say(
        "Nobody recorded both versions on one device.", "没有同一设备上两个版本的对比记录。"
    ),
)  # fmt: skip
add(
    "B-019", "--nproc_per_node=2 starts two processes, one for each of two GPUs.",
    "--nproc_per_node=2 启动两个进程，各用一块 GPU。",
    2, "",
    holds(
        "present", present=in_torch("distributed/run.py", "--nproc-per-node"),
        truth=("Yes, with torchrun", "是，用于 torchrun"),
    ),
)  # fmt: skip
for _id, _en, _zh in (
    ("B-008", "The Docker image nvidia/cuda:12.5.0-runtime-ubuntu22.04 is the one to take.",
     "使用 nvidia/cuda:12.5.0-runtime-ubuntu22.04 镜像。"),
    ("B-021", "The Triton server image 23.12-py3 is the one to take.",
     "使用 Triton 服务器镜像 23.12-py3。"),
):  # fmt: skip
    add(_id, _en, _zh, "a tag", "", cannot_say(*_REGISTRY))
add(
    "B-001", "It takes 18 minutes to read 6,912 characters.",
    "6912 字的文章需读 18 分钟。",
    18, "",
    cannot_say(
        "Not about GPUs; it is {rate:characters/min}.", "与 GPU 无关；合 {rate:characters/min}。",
        rate=formula("6912 / 18"),
    ),
)  # fmt: skip
add(
    "D-002", "CUDA is a language for graphics.",
    "CUDA 是图形处理语言。",
    "graphics", "",
    called("graphics", by="cuda.purpose"),
)  # fmt: skip
add(
    "D-017", "TensorBoard is NVIDIA's.",
    "TensorBoard 是 NVIDIA 的。",
    "NVIDIA", "",
    called("NVIDIA", by="tensorboard.maker"),
)  # fmt: skip
