"""diffusers, peft and torch_geometric: their own classes in small, as their users call them."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from validation.corpus.case import Case, Family, Step, training

diffusers = Family("diffusers", ("diffusers",))
peft = Family("peft", ("transformers", "peft"))
graphs = Family("torch-geometric", ("torch_geometric",))


def cases() -> list[Case]:
    return diffusers.cases + peft.cases + graphs.cases


# -- diffusers ----------------------------------------------------------------------------------

UNET = {
    "sample_size": 16, "block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8,
}  # fmt: skip

MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "unet-2d": (
        "UNet2DModel",
        {**UNET, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
         "up_block_types": ("AttnUpBlock2D", "UpBlock2D")},
        {"sample": (2, 3, 16, 16), "timestep": 5},
    ),
    "unet-conditioned": (
        "UNet2DConditionModel",
        {**UNET, "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
         "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"), "cross_attention_dim": 32,
         "attention_head_dim": 8},
        {"sample": (2, 4, 16, 16), "timestep": 5, "encoder_hidden_states": (2, 7, 32)},
    ),
    "unet-3d": (
        "UNet3DConditionModel",
        {**UNET, "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
         "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"), "cross_attention_dim": 32,
         "attention_head_dim": 8},
        {"sample": (1, 4, 4, 16, 16), "timestep": 5, "encoder_hidden_states": (1, 7, 32)},
    ),
    "control-net": (
        "ControlNetModel",
        {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8,
         "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "cross_attention_dim": 32,
         "attention_head_dim": 8, "conditioning_embedding_out_channels": (16, 32)},
        {"sample": (2, 4, 16, 16), "timestep": 5, "encoder_hidden_states": (2, 7, 32),
         "controlnet_cond": (2, 3, 32, 32)},
    ),
    "dit": (
        "DiTTransformer2DModel",
        {"num_attention_heads": 4, "attention_head_dim": 8, "in_channels": 4, "num_layers": 2,
         "sample_size": 8, "patch_size": 2, "norm_num_groups": 8},
        {"hidden_states": (2, 4, 8, 8), "timestep": [5, 5], "class_labels": [1, 2]},
    ),
    "pixart": (
        "PixArtTransformer2DModel",
        {"num_attention_heads": 4, "attention_head_dim": 8, "num_layers": 2, "sample_size": 8,
         "cross_attention_dim": 32, "caption_channels": 16, "use_additional_conditions": False},
        {"hidden_states": (2, 4, 8, 8), "timestep": [5, 5], "encoder_hidden_states": (2, 7, 16)},
    ),
    "stable-diffusion-3": (
        "SD3Transformer2DModel",
        {"sample_size": 8, "num_layers": 2, "attention_head_dim": 8, "num_attention_heads": 4,
         "in_channels": 4, "out_channels": 4, "joint_attention_dim": 32,
         "caption_projection_dim": 32, "pooled_projection_dim": 64, "pos_embed_max_size": 16},
        {"hidden_states": (2, 4, 8, 8), "timestep": [5, 5], "encoder_hidden_states": (2, 7, 32),
         "pooled_projections": (2, 64)},
    ),
    "flux": (
        "FluxTransformer2DModel",
        {"in_channels": 4, "num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16,
         "num_attention_heads": 2, "joint_attention_dim": 32, "pooled_projection_dim": 32,
         "axes_dims_rope": (4, 4, 8)},
        {"hidden_states": (2, 16, 4), "encoder_hidden_states": (2, 7, 32),
         "pooled_projections": (2, 32), "timestep": (2,), "img_ids": (16, 3), "txt_ids": (7, 3)},
    ),
    "prior": (
        "PriorTransformer",
        {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2, "embedding_dim": 16,
         "num_embeddings": 7, "additional_embeddings": 4},
        {"hidden_states": (2, 16), "timestep": 5, "proj_embedding": (2, 16),
         "encoder_hidden_states": (2, 7, 16)},
    ),
    "video-transformer": (
        "WanTransformer3DModel",
        {"patch_size": (1, 2, 2), "num_attention_heads": 2, "attention_head_dim": 12,
         "in_channels": 4, "out_channels": 4, "text_dim": 16, "freq_dim": 32, "ffn_dim": 32,
         "num_layers": 2, "cross_attn_norm": True, "qk_norm": "rms_norm_across_heads",
         "rope_max_seq_len": 32},
        {"hidden_states": (1, 4, 2, 8, 8), "timestep": [5], "encoder_hidden_states": (1, 7, 16)},
    ),
    "vae": (
        "AutoencoderKL",
        {"block_out_channels": (32, 64), "down_block_types": ("DownEncoderBlock2D",) * 2,
         "up_block_types": ("UpDecoderBlock2D",) * 2, "norm_num_groups": 8, "sample_size": 16},
        {"sample": (2, 3, 16, 16)},
    ),
    "vae-tiny": ("AutoencoderTiny", {
        "encoder_block_out_channels": (16, 16), "decoder_block_out_channels": (16, 16),
        "num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)}, {"sample": (2, 3, 16, 16)}),
    "vae-asymmetric": (
        "AsymmetricAutoencoderKL",
        {"down_block_out_channels": (32, 64), "up_block_out_channels": (32, 64),
         "down_block_types": ("DownEncoderBlock2D",) * 2,
         "up_block_types": ("UpDecoderBlock2D",) * 2, "norm_num_groups": 8},
        {"sample": (2, 3, 16, 16)},
    ),
    "vq": (
        "VQModel",
        {"block_out_channels": (32, 64), "down_block_types": ("DownEncoderBlock2D",) * 2,
         "up_block_types": ("UpDecoderBlock2D",) * 2, "norm_num_groups": 8,
         "num_vq_embeddings": 32},
        {"sample": (2, 3, 16, 16)},
    ),
    "consistency-decoder-unet-1d": (
        "UNet1DModel",
        {"sample_size": 32, "block_out_channels": (16, 32), "in_channels": 2, "out_channels": 2,
         "extra_in_channels": 16, "down_block_types": ("DownBlock1DNoSkip", "DownBlock1D"),
         "up_block_types": ("UpBlock1D", "UpBlock1DNoSkip"), "mid_block_type": "UNetMidBlock1D"},
        {"sample": (2, 2, 32), "timestep": 5},
    ),
}  # fmt: skip
"""Class, configuration, and what its forward takes: a shape, whole numbers, or a value."""


def _made(name: str, device: str) -> tuple[Any, dict[str, Any]]:
    import torch

    kind, config, wants = MODELS[name]
    model = getattr(importlib.import_module("diffusers"), kind)(**config).to(device)
    given: dict[str, Any] = {}
    for key, value in wants.items():
        if isinstance(value, tuple):
            given[key] = torch.randn(value, device=device)
        else:
            given[key] = torch.tensor(value, device=device) if isinstance(value, list) else value
    return model, given


def _train(name: str, device: str) -> Step:
    model, given = _made(name, device)
    model.train()

    def loss() -> Any:
        out = model(**given, return_dict=False)[0]
        return (out[0] if isinstance(out, (tuple, list)) else out).pow(2).mean()

    return training(model.parameters(), loss)


def _infer(name: str, device: str) -> Step:
    import torch

    model, given = _made(name, device)
    model.eval()

    def step() -> object:
        with torch.no_grad():
            return model(**given, return_dict=False)[0]

    return step


for _name in MODELS:
    diffusers.add(f"{_name}/train", partial(_train, _name))
    diffusers.add(f"{_name}/forward", partial(_infer, _name))

SCHEDULERS = (
    "DDPMScheduler DDIMScheduler PNDMScheduler LMSDiscreteScheduler EulerDiscreteScheduler"
    " EulerAncestralDiscreteScheduler HeunDiscreteScheduler DPMSolverMultistepScheduler"
    " DPMSolverSinglestepScheduler UniPCMultistepScheduler DEISMultistepScheduler LCMScheduler"
    " KDPM2DiscreteScheduler TCDScheduler FlowMatchEulerDiscreteScheduler"
).split()


def _loop(name: str, device: str) -> Step:
    import torch

    model, given = _made("unet-2d", device)
    plan = getattr(importlib.import_module("diffusers"), name)()
    model.eval()

    @torch.no_grad()
    def step() -> object:
        plan.set_timesteps(4, device=device)
        x = torch.randn(given["sample"].shape, device=device)
        for t in plan.timesteps:
            ready = plan.scale_model_input(x, t) if hasattr(plan, "scale_model_input") else x
            x = plan.step(model(ready, t).sample, t, x).prev_sample
        return x.cpu()

    return step


for _name in SCHEDULERS:
    diffusers.add(f"loop/{_name}", partial(_loop, _name))

# -- peft ---------------------------------------------------------------------------------------

ADAPTERS: dict[str, dict[str, Any]] = {
    "LoraConfig": {"r": 4, "target_modules": ["q_proj", "v_proj"]},
    "LoraConfig-all": {"r": 4, "target_modules": "all-linear", "lora_dropout": 0.1},
    "LoraConfig-dora": {"r": 4, "target_modules": ["q_proj", "v_proj"], "use_dora": True},
    "LoraConfig-rslora": {"r": 4, "target_modules": ["q_proj"], "use_rslora": True},
    "AdaLoraConfig": {"target_modules": ["q_proj", "v_proj"], "total_step": 100},
    "LoHaConfig": {"r": 4, "target_modules": ["q_proj", "v_proj"]},
    "LoKrConfig": {"r": 4, "target_modules": ["q_proj", "v_proj"]},
    "IA3Config": {"target_modules": ["k_proj", "v_proj", "down_proj"],
                  "feedforward_modules": ["down_proj"]},
    "OFTConfig": {"oft_block_size": 8, "target_modules": ["q_proj", "v_proj"]},
    "BOFTConfig": {"boft_block_size": 8, "target_modules": ["q_proj"]},
    "VeraConfig": {"r": 4, "target_modules": ["q_proj", "v_proj"]},
    "FourierFTConfig": {"n_frequency": 50, "target_modules": ["q_proj", "v_proj"]},
    "HRAConfig": {"r": 4, "target_modules": ["q_proj"]},
    "PromptTuningConfig": {"num_virtual_tokens": 4},
    "PrefixTuningConfig": {"num_virtual_tokens": 4},
    "PromptEncoderConfig": {"num_virtual_tokens": 4},
    "LNTuningConfig": {"target_modules": ["input_layernorm"]},
}  # fmt: skip


def _adapted(name: str, device: str) -> Step:
    import peft as library
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        vocab_size=256,
    )  # fmt: skip
    told = getattr(library, name.partition("-")[0])(**ADAPTERS[name], task_type="CAUSAL_LM")
    model = library.get_peft_model(LlamaForCausalLM(config), told).to(device)
    text = torch.randint(0, 256, (2, 16), device=device)
    wanted = [p for p in model.parameters() if p.requires_grad]
    return training(wanted, lambda: model(input_ids=text, labels=text).loss)


for _name in ADAPTERS:
    peft.add(_name, partial(_adapted, _name))


@peft
def lora_merged_and_used(device: str) -> Step:
    import peft as library
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        vocab_size=256,
    )  # fmt: skip
    told = library.LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM")
    model = library.get_peft_model(LlamaForCausalLM(config), told).to(device).merge_and_unload()
    text = torch.randint(0, 256, (2, 16), device=device)

    def step() -> object:
        with torch.no_grad():
            return model(input_ids=text).logits

    return step


# -- torch_geometric ----------------------------------------------------------------------------

CONVOLUTIONS: dict[str, dict[str, Any]] = {
    name: {}
    for name in "GCNConv SAGEConv GATConv GATv2Conv GraphConv TransformerConv TAGConv SGConv"
    " LEConv ClusterGCNConv ResGatedGraphConv FeaStConv GENConv SuperGATConv MFConv EGConv"
    " GeneralConv FiLMConv".split()
} | {
    "ChebConv": {"K": 3},
    "ARMAConv": {"num_stacks": 2},
    "FAConv": {"channels": 16},
    "AGNNConv": {},
    "APPNP": {"K": 3, "alpha": 0.1},
    "GatedGraphConv": {"out_channels": 16, "num_layers": 2},
    "GPSConv": {"channels": 16, "conv": None},
}


def _graph(device: str) -> tuple[Any, Any]:
    import torch

    torch.manual_seed(0)
    links = torch.randint(0, 40, (2, 160))
    return torch.randn(40, 16, device=device), links.to(device)


def _convolution(name: str, device: str) -> Step:
    nn = importlib.import_module("torch_geometric.nn")
    x, links = _graph(device)
    more, kind = CONVOLUTIONS[name], getattr(nn, name)
    sized = name not in ("FAConv", "AGNNConv", "APPNP", "GatedGraphConv", "GPSConv")
    layer = (kind(16, 16, **more) if sized else kind(**more)).to(device)
    call = partial(layer, x, x, links) if name == "FAConv" else partial(layer, x, links)
    import torch

    head = torch.nn.Linear(16, 4).to(device)
    parts = [*layer.parameters(), *head.parameters()]
    return training(parts, lambda: head(call()).pow(2).mean())


for _name in CONVOLUTIONS:
    graphs.add(_name, partial(_convolution, _name))


def _whole(name: str, device: str) -> Step:
    models = importlib.import_module("torch_geometric.nn")
    x, links = _graph(device)
    net = getattr(models, name)(16, 32, num_layers=2, out_channels=4).to(device)
    import torch

    y, known = torch.randint(0, 4, (40,), device=device), torch.arange(20, device=device)

    def loss() -> Any:
        return torch.nn.functional.cross_entropy(net(x, links)[known], y[known])

    return training(net.parameters(), loss, "Adam", weight_decay=5e-4)


for _name in ("GCN", "GraphSAGE", "GIN", "GAT"):
    graphs.add(f"model-{_name}", partial(_whole, _name))


def _pooled(name: str, device: str) -> Step:
    import torch

    nn = importlib.import_module("torch_geometric.nn")
    x, links = _graph(device)
    of = torch.arange(40, device=device) // 10
    layer, head = nn.GCNConv(16, 16).to(device), torch.nn.Linear(16, 2).to(device)
    pool = getattr(nn, name)
    parts = [*layer.parameters(), *head.parameters()]
    return training(parts, lambda: head(pool(layer(x, links).relu(), of)).pow(2).mean())


for _name in ("global_mean_pool", "global_add_pool", "global_max_pool"):
    graphs.add(_name.replace("_", "-"), partial(_pooled, _name))
