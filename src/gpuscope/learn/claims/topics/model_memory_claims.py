"""Claims about the memory that models need, about KV caches and attention."""

from __future__ import annotations

from gpuscope.learn.claims.catalogue_figures import catalogue, most
from gpuscope.learn.claims.expression import formula
from gpuscope.learn.claims.judging import at_least, called, cannot_say, equals, holds
from gpuscope.learn.claims.model_figures import attention_flops, config, parameters
from gpuscope.learn.claims.registry import Book
from gpuscope.learn.claims.software_figures import dtype_bytes, product_columns
from gpuscope.learn.claims.sourced_facts import fact
from gpuscope.learn.claims.types import Source

BOOK = Book("models", "Models, KV cache and attention", "模型、KV 缓存与注意力")
add = BOOK.add

_ZERO = "Rajbhandari et al., ZeRO, SC 2020, section 3.1 (mixed-precision Adam)"
_FLASH = "Dao et al., FlashAttention, NeurIPS 2022, section 3"


def _training_bytes() -> Source:
    """Bytes of a parameter in mixed-precision training with Adam, without activations."""
    return formula(
        "weight + gradient + master + momentum + variance", unit="bytes/parameter",
        sources=(_ZERO,), weight=dtype_bytes("bfloat16"), gradient=dtype_bytes("bfloat16"),
        master=dtype_bytes("float32"), momentum=dtype_bytes("float32"),
        variance=dtype_bytes("float32"),
    )  # fmt: skip


def _kv_bytes(tokens: float, users: float = 1) -> Source:
    """KV cache of Llama 3.1 70B in BF16."""
    return formula(
        "2 * layers * kv_heads * head * item * tokens * users", unit="GiB", tokens=float(tokens),
        users=float(users), layers=config("llama-3.1-70b", "num_hidden_layers"),
        kv_heads=config("llama-3.1-70b", "num_key_value_heads"),
        head=config("llama-3.1-70b", "head_dim"), item=dtype_bytes("bfloat16"),
    )  # fmt: skip


def _products(name: str) -> Source:
    """Matrix products of one pass of a Llama: seven a layer and two of attention, and the head."""
    label = name.removeprefix("llama-2-").removeprefix("llama-3.1-").upper()
    return formula(
        "layers * (7 + 2) + 1", layers=config(name, "num_hidden_layers"), label=(label, label)
    )


add(
    "A-047", "Splitting the model makes training of hundreds of billions of parameters possible.",
    "模型/流水线并行使千亿参数模型的训练成为可能。",
    "possible", "",
    holds(
        "needed > largest", "needed / 64 < largest",
        needed=formula("1e11 * of_each", unit="GB", of_each=_training_bytes()),
        largest=most("memory_bytes", "NVIDIA"),
        truth=(
            "Yes: 100 billion parameters need {needed:TB}, no NVIDIA device has over {largest:GB}, "
            "a share of 64 fits",
            "是：千亿参数需 {needed:TB}，单设备最多 {largest:GB}，分成 64 份即可放下",
        ),
    ),
)  # fmt: skip
add(
    "B-020", "Data parallelism is not enough; with tensor and pipeline it is 3-D parallelism.",
    "仅靠数据并行不够，需结合张量与流水线并行（3D 并行）。",
    "3-D", "",
    holds(
        "whole > device", "split < device",
        whole=formula(
            "parameters * of_each", unit="TB", parameters=parameters("llama-3.1-405b"),
            of_each=_training_bytes(),
        ),
        split=formula(
            "parameters * of_each / (8 * 16)", unit="GB", parameters=parameters("llama-3.1-405b"),
            of_each=_training_bytes(),
        ),
        device=catalogue("h100", "memory_bytes"),
        truth=(
            "Yes: Llama 3.1 405B trains with {whole:TB} of state; every data-parallel copy would "
            "hold it whole, 8-way tensor and 16-way pipeline leave {split:GB} a GPU",
            "是：Llama 3.1 405B 训练状态共 {whole:TB}，纯数据并行每卡都要整份；"
            "8 路张量 × 16 路流水线后每卡 {split:GB}",
        ),
    ),
)  # fmt: skip
add(
    "A-058", "A model of a trillion parameters takes 180 A100 of 80 GB to train.",
    "训练万亿参数模型需要 180 块 80 GB A100。",
    180, "GPUs",
    equals(
        formula(
            "ceil(1e12 * of_each / memory)", of_each=_training_bytes(),
            memory=catalogue("a100-sxm-80gb", "memory_bytes"),
        ),
        truth=("{v0:GPUs} for its state, before activations", "仅训练状态就要 {v0:GPUs}，不含激活"),
    ),
)  # fmt: skip
add(
    "A-063", "For each billion parameters, full fine-tuning wants about 16 GB.",
    "全量微调每 10 亿参数约需 16 GB。",
    16, "bytes/parameter",
    equals(
        _training_bytes(),
        truth=("{v0:.0f} GB, without activations", "{v0:.0f} GB，不含激活"),
    ),
)  # fmt: skip
add(
    "A-064", "Full fine-tuning of 7B may take over 100 GB.",
    "7B 模型全量微调可能超过 100 GB。",
    100, "GB", at_least(formula("7e9 * of_each", unit="GB", of_each=_training_bytes())),
)  # fmt: skip
for _id, _en, _zh in (
    ("A-059", "In FP16, Llama 3 70B is about 140 GB large.", "Llama 3 70B 的 FP16 约需 140 GB。"),
    ("C-019", "A 70B model in FP16 is about 140 GB.", "70B 模型 FP16 约 140 GB。"),
):  # fmt: skip
    add(
        _id, _en, _zh, 140, "GB",
        equals(
            formula(
                "parameters * item", unit="GB", parameters=parameters("llama-3.1-70b"),
                item=dtype_bytes("float16"),
            ),
            truth=("{v0:GB} for the weights alone", "仅权重即 {v0:GB}"),
        ),
    )  # fmt: skip
add(
    "A-060", "In FP16, Llama 4 Scout (109B) is about 218 GB large.",
    "Llama 4 Scout（109B）的 FP16 约需 218 GB。",
    218, "GB",
    equals(
        formula(
            "parameters * item", unit="GB", parameters=fact("scout.parameters"),
            item=dtype_bytes("float16"),
        )
    ),
)  # fmt: skip
add(
    "C-009", "A 14B model in INT4 takes about 7 GB.",
    "14B INT4 模型约需 7 GB。",
    7, "GB",
    equals(
        formula("14e9 * 4 / 8", label=("weights alone", "仅权重")),
        formula(
            "14e9 * (4 + 16 / 32) / 8", label=("with a scale for each 32", "每 32 个加一个缩放因子")
        ),
        formula(
            "parameters * (4 + 16 / 32) / 8", parameters=parameters("qwen2.5-14b"),
            label=("Qwen2.5-14B so", "Qwen2.5-14B 如此量化"),
        ),
    ),
)  # fmt: skip
add(
    "E-079", "GPT-3 (175B) takes about 175 GB at 8 bits.",
    "GPT-3（175B）8 位量化约需 175 GB。",
    175, "GB", equals(formula("parameters * 8 / 8", parameters=fact("gpt3.parameters"))),
)  # fmt: skip
add(
    "E-080", "GPT-3 at 8 bits takes three cards of 80 GB or more.",
    "GPT-3 8 位量化需要 3 块以上 80 GB 的卡。",
    3, "GPUs",
    at_least(
        formula(
            "ceil(parameters / memory)", parameters=fact("gpt3.parameters"),
            memory=catalogue("a100-sxm-80gb", "memory_bytes"),
        ),
        truth=("{v0:GPUs} for the weights alone", "仅权重就要 {v0:GPUs}，不含 KV 缓存"),
    ),
)  # fmt: skip
add(
    "E-081", "One card of 192 GB could hold GPT-3 (8 bits).",
    "一块 192 GB 的卡放得下 GPT-3（8 位）。",
    1, "GPUs",
    holds(
        "memory > parameters", memory=catalogue("mi300x", "memory_bytes"),
        parameters=fact("gpt3.parameters"),
        tokens=formula(
            "(memory - parameters) / (2 * layers * width * 2)",
            memory=catalogue("mi300x", "memory_bytes"), parameters=fact("gpt3.parameters"),
            layers=fact("gpt3.layers"), width=fact("gpt3.width"),
        ),
        truth=(
            "Yes; the rest holds the FP16 KV cache of {tokens:,.0f} tokens",
            "放得下；余下空间可存 {tokens:,.0f} 个 token 的 FP16 KV 缓存",
        ),
    ),
)  # fmt: skip
add(
    "E-089", "A model as large as GPT-4 on one card makes software simple.",
    "GPT-4 级模型放进单卡可简化软件。",
    "simple", "",
    cannot_say(
        "Its size was never published, and simplicity is no figure.",
        "GPT-4 规模未公布，“简化”也无法量化。",
    ),
)  # fmt: skip

# -- KV cache and attention -------------------------------------------------------------------
add(
    "A-061", "A context of 128k tokens takes about 40 GB of KV cache (Llama 3 70B).",
    "128k token 上下文约需 40 GB KV 缓存（Llama 3 70B）。",
    40, "GiB",
    equals(_kv_bytes(131072), truth=("{v0:GiB}, that is {v0:GB}", "{v0:GiB}，即 {v0:GB}")),
)  # fmt: skip
add(
    "A-062", "The KV cache grows in proportion to the number of users.",
    "KV 缓存随用户数线性增长。",
    "linear", "",
    holds(
        "eight_users == 8 * one_user", one_user=_kv_bytes(4096), eight_users=_kv_bytes(4096, 8),
        truth=(
            "Yes, and to their tokens: {one_user:GiB} for 4,096 tokens of one, {eight_users:GiB} "
            "of eight",
            "是，且随 token 数线性增长：4096 个 token 时 1 个用户 {one_user:GiB}，"
            "8 个用户 {eight_users:GiB}",
        ),
    ),
)  # fmt: skip
add(
    "C-010", "Twice the sequence takes four times the KV cache (it grows with the square).",
    "KV 缓存随序列长度平方增长（长度翻倍，缓存变 4 倍）。",
    4, "x",
    equals(
        formula("long / short", long=_kv_bytes(8192), short=_kv_bytes(4096)),
        truth=("{v0:x}: it grows in proportion", "{v0:x}：线性增长"),
    ),
)  # fmt: skip
add(
    "A-038", "FlashAttention lowers both memory traffic and the amount of arithmetic.",
    "FlashAttention 同时降低访存和计算复杂度。",
    "both", "",
    holds(
        "flash_bytes < plain_bytes", "flash_flops < plain_flops",
        plain_bytes=formula("2 * 32 * (4 * n * d + 4 * n**2)", unit="MB", n=4096.0, d=128.0),
        flash_bytes=formula("2 * 32 * (4 * n * d)", unit="MB", n=4096.0, d=128.0),
        plain_flops=attention_flops(1, 32, 4096, 4096, 128),
        flash_flops=attention_flops(1, 32, 4096, 4096, 128), sources=(_FLASH,),
        truth=(
            "Traffic yes: {flash_bytes:MB} instead of {plain_bytes:MB} or so for 4,096 tokens and "
            "32 heads; arithmetic stays {flash_flops:GFLOP}",
            "访存降低：4096 token、32 头时约 {flash_bytes:MB}（原 {plain_bytes:MB}）；"
            "计算量仍为 {flash_flops:GFLOP}",
        ),
    ),
)  # fmt: skip
add(
    "C-037", "A query of 1 x 128 times keys of 128 x 128 gives 1 x 128.",
    "Q（1×128）乘 K（128×128）得 1×128。",
    "1 x 128", "",
    holds(
        "columns == 128", columns=product_columns((1, 128), (128, 128)),
        flops=formula("2 * 1 * 128 * 128", unit="FLOP"),
        truth=("Yes, with {flops:FLOP}", "是，共 {flops:FLOP}"),
    ),
)  # fmt: skip
add(
    "C-040", "A large model makes about a thousand matrix products in one pass.",
    "大模型一次前向约有一千次矩阵乘。",
    1000, "products",
    equals(_products("llama-2-7b"), _products("llama-3.1-70b"), _products("llama-3.1-405b")),
)  # fmt: skip
add(
    "C-061", "Hidden size 128, 512 tokens and batch 32 are typical of a 14B model's attention.",
    "HIDDEN=128、SEQ=512、BATCH=32 是 14B 模型注意力的典型尺寸。",
    "128", "",
    holds(
        "head == 128", "hidden == 128", head=config("qwen3-14b", "head_dim"),
        hidden=config("qwen3-14b", "hidden_size"), heads=config("qwen3-14b", "num_attention_heads"),
        truth=(
            "{head:.0f} is one head; Qwen3-14B has {heads:.0f} of them and is {hidden:,.0f} wide",
            "{head:.0f} 只是一个头；Qwen3-14B 有 {heads:.0f} 个头，隐藏维度 {hidden:,.0f}",
        ),
    ),
)  # fmt: skip
add(
    "A-042", "To run a model in parallel is to put its layers on different GPUs.",
    "模型并行就是不同层放在不同 GPU 上。",
    "layers", "",
    called("layers apart", by="model_parallelism.kinds"),
)  # fmt: skip
add(
    "A-074", "Short sequences suit CNNs, long dependencies suit Transformers.",
    "CNN 适合短序列，Transformer 适合长依赖。",
    "better", "",
    cannot_say("Depends on task and data; an opinion.", "取决于任务与数据，属于观点。"),
)  # fmt: skip
