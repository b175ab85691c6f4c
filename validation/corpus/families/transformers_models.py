"""Every architecture of transformers: a forward pass, a training step, a generation where it can.

The architectures are read from the library's own tables; the configuration is made by `shrink`.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

from validation.corpus.case import Case, Step
from validation.corpus.shrink import shrunk

LEVELS = Path(__file__).resolve().parent.parent / "levels.json"
BATCH, LENGTH, NEW_TOKENS = 2, 16, 4
LENGTH_OF_ANSWER = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS}

TABLES = {
    "causal": "CAUSAL_LM",
    "masked": "MASKED_LM",
    "seq2seq": "SEQ_TO_SEQ_CAUSAL_LM",
    "picture-text": "IMAGE_TEXT_TO_TEXT",
    "picture": "IMAGE_CLASSIFICATION",
    "segmentation": "SEMANTIC_SEGMENTATION",
    "panoptic": "UNIVERSAL_SEGMENTATION",
    "detection": "OBJECT_DETECTION",
    "depth": "DEPTH_ESTIMATION",
    "masked-picture": "MASKED_IMAGE_MODELING",
    "video": "VIDEO_CLASSIFICATION",
    "ctc": "CTC",
    "audio": "AUDIO_CLASSIFICATION",
    "speech": "SPEECH_SEQ_2_SEQ",
    "zero-shot": "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "sequence": "SEQUENCE_CLASSIFICATION",
    "answer": "QUESTION_ANSWERING",
    "tagging": "TOKEN_CLASSIFICATION",
    "choice": "MULTIPLE_CHOICE",
    "backbone": "BACKBONE",
    "series": "TIME_SERIES_PREDICTION",
}
"""Our word for a task, and the library's table of it."""

TRAINS = frozenset(
    "causal masked seq2seq picture-text picture segmentation ctc audio speech sequence answer"
    " tagging choice video depth".split()
)
GENERATES = frozenset(("causal", "seq2seq", "picture-text", "speech"))
NEEDS = ("transformers",)

OWN: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "reformer": {"axial_pos_shape": (4, 4), "axial_pos_embds_dim": (32, 32), "is_decoder": True},
    "xmod": {"default_language": "en_XX"},
    "esm": {"vocab_size": 64, "mask_token_id": 32, "pad_token_id": 1},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "ministral": {"head_dim": 16},
    "nemotron": {"head_dim": 16},
    **{
        kind: {"decoder_start_token_id": 0}
        for kind in ("t5", "longt5", "switch_transformers", "mt5", "umt5")
    },
}
"""What a class wants to be told, having no default of its own that works."""


def table(task: str) -> dict[str, Any]:
    """Architecture and its classes' names, for a task."""
    from transformers.models.auto import modeling_auto

    return dict(getattr(modeling_auto, f"MODEL_FOR_{TABLES[task]}_MAPPING_NAMES"))


def model_class(task: str, kind: str) -> type:
    import transformers

    names = table(task)[kind]
    return getattr(transformers, names if isinstance(names, str) else names[0])


def make(task: str, kind: str, level: str, device: str) -> Any:
    """The model of a task in small, on the device."""
    import torch
    from transformers import CONFIG_MAPPING

    logging.getLogger("transformers").setLevel(logging.CRITICAL)
    torch.manual_seed(0)
    made = model_class(task, kind)
    config = getattr(made, "config_class", None) or CONFIG_MAPPING[kind]
    small = shrunk(config, level, **OWN.get(kind, {}))
    if getattr(small, "decoder_start_token_id", 0) is None:
        small.decoder_start_token_id = 0
    return made(small).to(device)


def inputs(task: str, model: Any, device: str) -> dict[str, Any]:
    """What the model's forward wants, by its task."""
    import torch

    config = model.config
    text = config.get_text_config() if hasattr(config, "get_text_config") else config

    def ids(*shape: int) -> Any:
        return torch.randint(5, 100, shape, device=device)

    def picture(*front: int) -> Any:
        vision = getattr(config, "vision_config", None) or config
        size = getattr(vision, "image_size", None) or 64
        high, wide = size if isinstance(size, (list, tuple)) else (size, size)
        channels = getattr(vision, "num_channels", 3)
        return torch.randn(*front, channels, high, wide, device=device)

    if task in ("causal", "masked", "sequence", "tagging", "answer", "picture-text"):
        return {"input_ids": ids(BATCH, LENGTH)}
    if task == "choice":
        return {"input_ids": ids(BATCH, 3, LENGTH)}
    if task == "seq2seq":
        return {"input_ids": ids(BATCH, LENGTH), "decoder_input_ids": ids(BATCH, 8)}
    if task == "video":
        return {"pixel_values": picture(BATCH, getattr(config, "num_frames", 8))}
    if task == "zero-shot":
        return {"input_ids": ids(BATCH, LENGTH), "pixel_values": picture(BATCH)}
    if task in ("ctc", "audio"):
        return _sound(model, device)
    if task == "speech":
        return _sound(model, device) | {"decoder_input_ids": ids(BATCH, 4)}
    if task == "series":
        return _series(text, device)
    return {"pixel_values": picture(BATCH)}


def _sound(model: Any, device: str) -> dict[str, Any]:
    import torch

    config, wanted = model.config, model.main_input_name
    mels = getattr(config, "num_mel_bins", None) or getattr(config, "input_feat_per_channel", 80)
    if wanted == "input_values" and not hasattr(config, "num_mel_bins"):
        return {wanted: torch.randn(BATCH, 8000, device=device)}
    if wanted == "input_values":
        return {wanted: torch.randn(BATCH, getattr(config, "max_length", 128), mels, device=device)}
    frames = 2 * getattr(config, "max_source_positions", 32)
    if model.config.model_type == "whisper":
        return {wanted: torch.randn(BATCH, mels, frames, device=device)}
    return {wanted: torch.randn(BATCH, 64, mels, device=device)}


def _series(config: Any, device: str) -> dict[str, Any]:
    import torch

    length = getattr(config, "context_length", None) or 64
    return {"past_values": torch.randn(BATCH, length, device=device)}


def labels(task: str, given: dict[str, Any], model: Any, device: str) -> dict[str, Any]:
    """The labels of a training step, as the task's own loss wants them."""
    import torch

    def whole(high: int, *shape: int) -> Any:
        return torch.randint(0, high, shape, device=device)

    if task in ("causal", "masked", "picture-text"):
        return {"labels": given["input_ids"].clone()}
    if task in ("seq2seq", "speech"):
        return {"labels": given["decoder_input_ids"].clone()}
    if task == "ctc":
        return {"labels": whole(20, BATCH, 4) + 1}
    if task == "tagging":
        return {"labels": whole(2, BATCH, LENGTH)}
    if task == "answer":
        return {"start_positions": whole(8, BATCH), "end_positions": whole(8, BATCH)}
    if task in ("segmentation", "depth"):
        high, wide = given["pixel_values"].shape[-2:]
        return {"labels": whole(2, BATCH, high, wide)}
    return {"labels": whole(2, BATCH)}


def forward(task: str, kind: str, level: str, device: str) -> Step:
    import torch

    model = make(task, kind, level, device).eval()
    given = inputs(task, model, device)

    def step() -> object:
        with torch.no_grad():
            return model(**given)

    return step


def train(task: str, kind: str, level: str, device: str) -> Step:
    import torch

    model = make(task, kind, level, device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    given = inputs(task, model, device)
    given |= labels(task, given, model, device)
    if task in ("seq2seq", "speech"):
        del given["decoder_input_ids"]

    def step() -> None:
        optimizer.zero_grad()
        model(**given).loss.backward()
        optimizer.step()

    return step


def generate(task: str, kind: str, level: str, device: str) -> Step:
    import torch

    model = make(task, kind, level, device).eval()
    given = inputs(task, model, device)
    given.pop("decoder_input_ids", None)

    def step() -> object:
        with torch.no_grad():
            return model.generate(**given, **LENGTH_OF_ANSWER, do_sample=False)

    return step


WAYS = {"forward": forward, "train": train, "generate": generate}


def ways(task: str) -> list[str]:
    """What is done with a model of this task."""
    found = ["train"] if task in TRAINS else ["forward"]
    return [*found, "generate"] if task in GENERATES else found


def cases() -> list[Case]:
    """Every architecture whose small configuration runs for real, task by task."""
    levels = json.loads(LEVELS.read_text("utf-8"))
    return [
        Case(f"transformers/{kind}/{task}/{way}", partial(WAYS[way], task, kind, level), NEEDS)
        for task, kinds in levels.items()
        for kind, done in kinds.items()
        for way, level in done.items()
    ]
