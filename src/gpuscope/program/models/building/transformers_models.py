"""Make a `transformers` model from a configuration: on the device, in the dtype, initialised."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.program.capture.patches import alone, patches
from gpuscope.program.models.building.precision import (
    holds_no_values,
    is_without_values,
    new_weights,
    set_matmul_precision,
)
from gpuscope.program.models.settings import Settings
from gpuscope.program.models.transformers_spec import TransformersSpec, target_length


def make_config(spec: TransformersSpec, settings: Settings) -> Any:
    """The configuration object, with the depth and attention that the settings ask for."""
    package = importlib.import_module(
        f"transformers.models.{spec.package}.configuration_{spec.package}"
    )
    values = dict(spec.values)
    if settings.layers is not None:
        values = with_depth(values, spec.layer_keys, settings.layers)
    config = getattr(package, spec.config).from_dict(values)
    if settings.attention:
        config._attn_implementation = "eager" if settings.attention == "eager" else "sdpa"
    return config


def with_depth(
    values: dict[str, object], layer_keys: tuple[str, ...], layers: int
) -> dict[str, object]:
    """The same configuration with another number of blocks; per-block lists are cut to it."""
    depths = {values.get(key) for key in layer_keys}
    changed = dict(values)
    for key, value in values.items():
        if isinstance(value, list) and len(value) in depths:
            changed[key] = (value * layers)[:layers] if len(value) < layers else value[:layers]
    for key in layer_keys:
        changed[key] = layers
    return changed


def make_model(spec: TransformersSpec, settings: Settings) -> Any:
    """The model on `settings.device`, in training or evaluation mode as the task asks."""
    package = importlib.import_module(f"transformers.models.{spec.package}.modeling_{spec.package}")
    config = make_config(spec, settings)
    set_matmul_precision(settings)
    with new_weights(settings), _initialised_if_real(settings.device):
        model = getattr(package, spec.model)(config)
    model.tie_weights()
    _refuse_beyond_positions(model, spec, settings)
    if getattr(model, "loss_type", "") is None:
        # GPT-2's class name is not in transformers' table of losses, which then warns and takes
        # this one.
        model.loss_type = "ForCausalLM"
    if settings.checkpointing:
        _recompute(model)
    if settings.dtype == "fp8":
        from gpuscope.program.models.building.float8 import use_float8

        use_float8(model, training=settings.task == "train")
    return model.train(settings.task == "train")


def rotary_context(spec: TransformersSpec, settings: Settings) -> int | None:
    """Tokens that a model with rotary positions is made for; None for any other."""
    config = make_config(spec, settings)
    rotary = getattr(config, "rope_parameters", None) or hasattr(config, "rope_theta")
    return getattr(config, "max_position_embeddings", None) if rotary else None


def _refuse_beyond_positions(model: Any, spec: TransformersSpec, settings: Settings) -> None:
    """Learned positions are a table: a device reads beyond its end, or stops.

    Raises:
        InvalidValueError: the sequence is longer than the table.
    """
    if spec.kind == "vision":
        return
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if not isinstance(module, torch.nn.Embedding) or not ("pos" in last or last == "wpe"):
            continue
        before = getattr(module, "offset", 0) or (module.padding_idx or -1) + 1
        positions = module.num_embeddings - before
        tokens = _tokens_at(name, spec, settings)
        if tokens <= positions:
            continue
        decoding = settings.task == "decode"
        raise InvalidValueError(
            Text(
                "A sequence of {tokens} tokens is longer than the model's {context} positions.",
                tokens=tokens,
                context=positions,
            ),
            Text("Its positions are a table that was learned."),
            Text("Type: --context {context}", context=positions - 1)
            if decoding
            else Text("Type: --seq {context}", context=positions),
        )


def _tokens_at(name: str, spec: TransformersSpec, settings: Settings) -> int:
    """Tokens that a table of positions of that name is asked for."""
    if spec.kind in ("seq2seq", "speech"):
        if "decoder" not in name:
            return settings.seq if spec.kind == "seq2seq" else 0
        if settings.task != "decode" and spec.kind == "seq2seq":
            return target_length(settings.seq)
    return settings.context + 1 if settings.task == "decode" else settings.seq


def _recompute(model: Any) -> None:
    """Recompute each block in the backward pass; the method has a new name in recent versions."""
    reentrant = {"use_reentrant": False}
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=reentrant)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=reentrant)


@contextmanager
def _initialised_if_real(device: str) -> Iterator[None]:
    """Skip transformers' own initialisation where tensors hold no values."""
    if not holds_no_values(device):
        yield
        return
    from transformers.modeling_utils import PreTrainedModel

    original = PreTrainedModel.init_weights

    def initialise(self: Any) -> None:
        """Leave a model without values as it is; another thread's has some."""
        if not any(is_without_values(parameter) for parameter in self.parameters()):
            original(self)

    with alone(), patches() as patch:
        patch.everywhere(PreTrainedModel, "init_weights", initialise)
        yield
