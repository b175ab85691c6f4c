"""Steps of encoder-decoder models from `transformers`: text to text, speech to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from gpuscope.program.models.building.caches import SteadyCache, filled_cache, heads_shapes
from gpuscope.program.models.building.precision import torch_dtype
from gpuscope.program.models.building.steps import inference_step, train_step
from gpuscope.program.models.building.transformers_models import make_model
from gpuscope.program.models.settings import Settings
from gpuscope.program.models.transformers_spec import TransformersSpec, target_length

Step = Callable[[], torch.Tensor]


def build_seq2seq(spec: TransformersSpec, settings: Settings) -> Step:
    """Text to text: `settings.seq` input tokens; decoding has `settings.context` outputs before."""
    model = make_model(spec, settings)
    shape = (settings.batch, settings.seq)
    tokens = torch.randint(0, model.config.vocab_size, shape, device=settings.device)
    inputs = {"input_ids": tokens}
    if settings.task == "decode":
        return _decode(model, settings, settings.seq)
    target = target_length(settings.seq) if settings.task == "train" else 1
    return _whole(model, inputs, target, settings)


def build_speech(spec: TransformersSpec, settings: Settings) -> Step:
    """Speech to text: 30 seconds of sound; `settings.seq` is the number of text tokens."""
    model = make_model(spec, settings)
    frames = model.config.max_source_positions
    if settings.task == "decode":
        return _decode(model, settings, frames)
    features = torch.randn(
        settings.batch,
        model.config.num_mel_bins,
        2 * frames,
        device=settings.device,
        dtype=torch_dtype(settings.weight_dtype),
    )
    return _whole(model, {"input_features": features}, settings.seq, settings)


def _whole(model: Any, inputs: dict[str, torch.Tensor], target: int, settings: Settings) -> Step:
    """Encoder and decoder in one pass: training, or the first output token."""
    shape = (settings.batch, target)
    tokens = torch.randint(0, model.config.vocab_size, shape, device=settings.device)
    if settings.task == "train":
        return train_step(
            model,
            lambda net: net(**inputs, labels=tokens, use_cache=False).loss,
            settings,
            [*inputs.values(), tokens],
        )

    def prefill(net: Any) -> torch.Tensor:
        logits: torch.Tensor = net(**inputs, decoder_input_ids=tokens, use_cache=True).logits
        return logits[:, -1].argmax(-1)

    return inference_step(model, prefill, settings, [*inputs.values(), tokens])


def _decode(model: Any, settings: Settings, encoder_tokens: int) -> Step:
    """One more output token: own cache of `settings.context`, cross cache of the encoder's."""
    from transformers.cache_utils import EncoderDecoderCache
    from transformers.modeling_outputs import BaseModelOutput

    dtype, device = torch_dtype(settings.compute_dtype), settings.device
    shapes = heads_shapes(model.config, settings.batch)
    own = filled_cache(model.config, shapes, settings.context, dtype, device)
    cross = filled_cache(model.config, shapes, encoder_tokens, dtype, device)
    cache = EncoderDecoderCache(own, cross)
    cache.is_updated = dict.fromkeys(range(len(shapes)), True)
    steady = SteadyCache(own)
    hidden = torch.randn(
        settings.batch, encoder_tokens, model.config.d_model, device=device, dtype=dtype
    )
    encoded = BaseModelOutput(last_hidden_state=hidden)
    token = torch.randint(0, model.config.vocab_size, (settings.batch, 1), device=device)

    def next_token(net: Any) -> torch.Tensor:
        logits: torch.Tensor = net(
            encoder_outputs=encoded, decoder_input_ids=token, past_key_values=cache, use_cache=True
        ).logits
        chosen = logits[:, -1].argmax(-1)
        steady.rewind()
        return chosen

    return inference_step(model, next_token, settings, [token])


BUILDERS: Mapping[str, Callable[[TransformersSpec, Settings], Step]] = {
    "seq2seq": build_seq2seq,
    "speech": build_speech,
}
