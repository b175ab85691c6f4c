"""Models of timm, torchvision and diffusers for the harvest: one of each family, drawn by a hash.

A family is the file that a package keeps an architecture in; one that two packages have is one
family. Packages that are not installed give nothing. Of diffusers the networks are made as their
defaults say, with few layers.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

PACKAGES = ("timm", "torchvision", "diffusers")
PRECISIONS = ("fp32", "tf32", "autocast", "bf16", "fp16")
BATCHES = (2, 8, 16, 32, 64)
LARGE = re.compile(
    "giant|huge|large|gigantic|xxl|xl|base|so400|so150|152|200|269|pro|[4-9][0-9][0-9]"
)
"""Names of models that are left where a family has others: a capture of them takes a minute."""

FEW_LAYERS = {"num_layers": 2, "num_single_layers": 2, "sample_size": 32, "layers_per_block": 1}

Step = Callable[[], object]


def _latents(**shapes: tuple[int, ...]) -> Callable[[int], dict[str, Any]]:
    """Inputs drawn at sizes without their batch; names that start with "t_" are moments."""

    def make(batch: int) -> dict[str, Any]:
        import torch

        return {
            name.removeprefix("t_"): torch.randint(0, 1000, (batch,), device="cuda")
            if name.startswith("t_")
            else torch.randn(batch, *shape, device="cuda", dtype=torch.get_default_dtype())
            for name, shape in shapes.items()
        }

    return make


DIFFUSERS: dict[str, tuple[dict[str, Any], Callable[[int], dict[str, Any]]]] = {
    "UNet2DModel": ({}, _latents(sample=(3, 64, 64), t_timestep=())),
    "UNet2DConditionModel": (
        {"cross_attention_dim": 768},
        _latents(sample=(4, 64, 64), t_timestep=(), encoder_hidden_states=(77, 768)),
    ),
    "UNet3DConditionModel": (
        {"cross_attention_dim": 768},
        _latents(sample=(4, 8, 32, 32), t_timestep=(), encoder_hidden_states=(77, 768)),
    ),
    "AutoencoderKL": (
        {
            "block_out_channels": (128, 256, 512, 512),
            "down_block_types": ("DownEncoderBlock2D",) * 4,
            "up_block_types": ("UpDecoderBlock2D",) * 4,
        },
        _latents(sample=(3, 128, 128)),
    ),
    "VQModel": ({"block_out_channels": (128,), "latent_channels": 4}, _latents(sample=(3, 64, 64))),
    "PixArtTransformer2DModel": (
        {"caption_channels": 1024},
        _latents(hidden_states=(4, 32, 32), t_timestep=(), encoder_hidden_states=(120, 1024)),
    ),
    "SD3Transformer2DModel": (
        {},
        _latents(
            hidden_states=(16, 64, 64),
            t_timestep=(),
            encoder_hidden_states=(154, 4096),
            pooled_projections=(2048,),
        ),
    ),
    "SanaTransformer2DModel": (
        {},
        _latents(hidden_states=(32, 32, 32), t_timestep=(), encoder_hidden_states=(120, 2304)),
    ),
    "CogVideoXTransformer3DModel": (
        {},
        _latents(hidden_states=(5, 16, 60, 90), t_timestep=(), encoder_hidden_states=(226, 4096)),
    ),
    "WanTransformer3DModel": (
        {},
        _latents(hidden_states=(16, 5, 32, 32), t_timestep=(), encoder_hidden_states=(128, 4096)),
    ),
    "MochiTransformer3DModel": (
        {},
        _latents(hidden_states=(12, 4, 32, 32), t_timestep=(), encoder_hidden_states=(64, 4096)),
    ),
    "AllegroTransformer3DModel": (
        {},
        _latents(hidden_states=(4, 4, 32, 32), t_timestep=(), encoder_hidden_states=(64, 4096)),
    ),
    "ControlNetModel": (
        {"cross_attention_dim": 768},
        _latents(
            sample=(4, 64, 64),
            t_timestep=(),
            encoder_hidden_states=(77, 768),
            controlnet_cond=(3, 512, 512),
        ),
    ),
}


def cases() -> list[tuple[str, str, str]]:
    """(package, model, "train"): each family once, in an order drawn by a hash."""
    found: dict[str, tuple[str, str, str]] = {}
    for package in PACKAGES:
        for family, names in sorted(_families(package).items()):
            few = [n for n in sorted(names) if not LARGE.search(n)] or sorted(names)
            drawn = random.Random(f"{package} {family}").choice(few)
            found.setdefault(family, (package, drawn, "train"))
    return sorted(found.values(), key=lambda c: random.Random(f"order {c}").random())


def family_of(package: str, model: str) -> str:
    """The family that a model of a package belongs to."""
    return next(f for f, names in _families(package).items() if model in names)


def _families(package: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    try:
        if package == "timm":
            import timm
            from timm.models import _registry

            for name in timm.list_models():
                found[_registry._model_to_module[name]].append(name)
        elif package == "torchvision":
            import torchvision

            for name in torchvision.models.list_models():
                file = torchvision.models.get_model_builder(name).__module__
                kind = file.removeprefix("torchvision.models.")
                if not kind.startswith(("quantization", "detection")):
                    found[kind.rpartition(".")[2] if "." not in kind else kind].append(name)
        else:
            import diffusers

            for name in DIFFUSERS:
                if hasattr(diffusers, name):
                    found[name].append(name)
    except ImportError:
        pass
    return found


def step_of(package: str, model: str, way: str) -> tuple[dict[str, Any], Callable[[], Step]]:
    """How a model is run, and the function that builds its step."""
    rng = random.Random(f"{package} {model}")
    precision, batch = rng.choice(PRECISIONS), rng.choice(BATCHES)
    if package == "diffusers":
        batch = min(batch, 8)
    last = package != "diffusers" and rng.random() < 0.35
    way = rng.choice(("train", "train", "forward")) if way == "train" else way
    facts = {
        "family": family_of(package, model),
        "task": package,
        "model": model,
        "way": way,
        "precision": precision,
        "batch": batch,
        "layout": "channels_last" if last else "contiguous",
    }

    def build() -> Step:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision != "fp32"
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
        torch.set_default_dtype(dtype)
        network, inputs = _made(package, model, batch, last)
        return _step(network, inputs, way, precision == "autocast")

    return facts, build


def _made(package: str, model: str, batch: int, last: bool) -> tuple[Any, dict[str, Any]]:
    """The network on "cuda" and its inputs."""
    import torch

    if package == "diffusers":
        import diffusers

        kind = getattr(diffusers, model)
        settings, inputs = DIFFUSERS[model]
        known = set(kind.__init__.__wrapped__.__code__.co_varnames)
        few = {k: v for k, v in FEW_LAYERS.items() if k in known}
        return kind(**{**few, **settings}).cuda(), inputs(batch)
    if package == "timm":
        import timm

        network = timm.create_model(model).cuda()
        size = network.default_cfg["input_size"]
    else:
        import torchvision

        network = torchvision.models.get_model(model, weights=None).cuda()
        size = (3, 16, 112, 112) if "video" in type(network).__module__ else (3, 224, 224)
    x = torch.randn(batch, *size, device="cuda", dtype=torch.get_default_dtype())
    if last and x.dim() == 4:
        network = network.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    return network, {"": x}


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _step(network: Any, inputs: dict[str, Any], way: str, autocast: bool) -> Step:
    """One step of training by AdamW, or of inference."""
    import torch

    plain, named = [v for k, v in inputs.items() if not k], {k: v for k, v in inputs.items() if k}
    if way == "forward":
        network.eval()
    optimizer = torch.optim.AdamW(network.parameters())

    def forward() -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            return network(*plain, **named)

    def infer() -> object:
        with torch.no_grad():
            return forward()

    def train() -> None:
        loss = sum(t.float().square().mean() for t in _tensors(forward()) if t.requires_grad)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return infer if way == "forward" else train
