"""Steps of language models from `transformers`: training, prefill, decode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from gpuscope.program.models.building.caches import (
    SteadyCache,
    filled_cache,
    heads_shapes,
    probed_shapes,
)
from gpuscope.program.models.building.precision import torch_dtype
from gpuscope.program.models.building.steps import fed, inference_step, train_step
from gpuscope.program.models.building.transformers_models import make_model
from gpuscope.program.models.settings import Settings
from gpuscope.program.models.transformers_spec import TransformersSpec

Step = Callable[[], torch.Tensor]


def random_tokens(vocabulary: int, shape: tuple[int, ...], settings: Settings) -> torch.Tensor:
    """Random token ids of that shape, int64, on the device."""
    return torch.randint(0, vocabulary, shape, device=settings.device)


def build_causal(spec: TransformersSpec, settings: Settings) -> Step:
    """A decoder-only model: next-token loss, prompt pass, or one token after `context` tokens."""
    model = make_model(spec, settings)
    vocabulary = model.config.vocab_size
    if settings.task == "decode":
        return _decode(spec, model, settings)
    if settings.task == "train":
        from gpuscope.program.models.building.packing import batch_loss

        loss, batch = batch_loss(model, settings)
        if settings.tuning is None:
            return train_step(model, loss, settings, batch)
        from gpuscope.program.models.building.tuning import tuning_step

        return fed(tuning_step(model, loss, settings), batch, settings)
    tokens = random_tokens(vocabulary, (settings.batch, settings.seq), settings)

    def prefill(net: Any) -> torch.Tensor:
        logits: torch.Tensor = net(input_ids=tokens, use_cache=True, logits_to_keep=1).logits
        return logits[:, -1].argmax(-1)

    return inference_step(model, prefill, settings, [tokens])


def _decode(spec: TransformersSpec, model: Any, settings: Settings) -> Step:
    token = random_tokens(model.config.vocab_size, (settings.batch, 1), settings)
    if spec.probe_cache:
        shapes = probed_shapes(model, token)
    else:
        shapes = heads_shapes(model.config, settings.batch)
    dtype = torch_dtype(settings.compute_dtype)
    cache = filled_cache(model.config, shapes, settings.context, dtype, settings.device)
    steady = SteadyCache(cache)

    def next_token(net: Any) -> torch.Tensor:
        logits: torch.Tensor = net(input_ids=token, past_key_values=cache, use_cache=True).logits
        chosen = logits[:, -1].argmax(-1)
        steady.rewind()
        return chosen

    return inference_step(model, next_token, settings, [token])


def build_encoder(spec: TransformersSpec, settings: Settings) -> Step:
    """An encoder with a language-model head (BERT): masked-token loss, or a forward pass."""
    model = make_model(spec, settings)
    shape = (settings.batch, settings.seq)
    tokens = random_tokens(model.config.vocab_size, shape, settings)
    if settings.task == "train":
        return train_step(
            model, lambda net: net(input_ids=tokens, labels=tokens).loss, settings, [tokens]
        )

    def forward(net: Any) -> torch.Tensor:
        logits: torch.Tensor = net(input_ids=tokens).logits
        return logits

    return inference_step(model, forward, settings, [tokens])


def build_image_classifier(spec: TransformersSpec, settings: Settings) -> Step:
    """An image classifier on random images of `settings.image` pixels a side."""
    model = make_model(spec, settings)
    images = torch.randn(
        settings.batch,
        getattr(model.config, "num_channels", 3),
        settings.image,
        settings.image,
        device=settings.device,
        dtype=torch_dtype(settings.weight_dtype),
    )
    if settings.task == "train":
        labels = random_tokens(model.config.num_labels, (settings.batch,), settings)
        return train_step(
            model,
            lambda net: net(pixel_values=images, labels=labels).loss,
            settings,
            [images, labels],
        )

    def forward(net: Any) -> torch.Tensor:
        logits: torch.Tensor = net(pixel_values=images).logits
        return logits

    return inference_step(model, forward, settings, [images])


BUILDERS: Mapping[str, Callable[[TransformersSpec, Settings], Step]] = {
    "causal": build_causal,
    "encoder": build_encoder,
    "vision": build_image_classifier,
}
