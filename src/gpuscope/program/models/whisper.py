"""Whisper, tiny to large-v3, on 30 seconds of sound.

Sizes: config.json of openai/whisper-* on the Hugging Face hub.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.registry import Model, register
from gpuscope.program.models.settings import Defaults, Settings
from gpuscope.program.models.transformers_spec import TransformersSpec

# name, width, encoder layers, decoder layers, heads, mel bands, vocabulary, parameters, batch
_SIZES = (
    ("tiny", 384, 4, 4, 6, 80, 51865, 37_760_640, 16),
    ("base", 512, 6, 6, 8, 80, 51865, 72_593_920, 16),
    ("small", 768, 12, 12, 12, 80, 51865, 241_734_912, 16),
    ("medium", 1024, 24, 24, 16, 80, 51865, 763_857_920, 8),
    ("large-v2", 1280, 32, 32, 20, 80, 51865, 1_543_304_960, 8),
    ("large-v3", 1280, 32, 32, 20, 128, 51866, 1_543_490_560, 8),
    ("large-v3-turbo", 1280, 32, 4, 20, 128, 51866, 808_878_080, 8),
)


def _tokens(settings: Settings) -> int:
    """Text tokens of one step; sound frames are not counted."""
    return settings.batch * (1 if settings.task == "decode" else settings.seq)


for _size, _width, _encoder, _decoder, _heads, _mel, _vocabulary, _parameters, _batch in _SIZES:
    _spec = TransformersSpec(
        package="whisper",
        config="WhisperConfig",
        model="WhisperForConditionalGeneration",
        values={
            "vocab_size": _vocabulary,
            "num_mel_bins": _mel,
            "d_model": _width,
            "encoder_layers": _encoder,
            "encoder_attention_heads": _heads,
            "decoder_layers": _decoder,
            "decoder_attention_heads": _heads,
            "encoder_ffn_dim": 4 * _width,
            "decoder_ffn_dim": 4 * _width,
            "max_source_positions": 1500,
            "max_target_positions": 448,
        },
        kind="speech",
        layer_keys=("encoder_layers", "decoder_layers"),
    )
    register(
        Model(
            name=f"whisper-{_size}",
            family="Whisper",
            description=Text(
                "speech to text, {encoder} + {decoder} layers of {width}",
                encoder=_encoder,
                decoder=_decoder,
                width=_width,
            ),
            parameters=_parameters,
            tasks={
                "train": Defaults(batch=_batch, seq=128, amp=True, optimizer="adamw"),
                "prefill": Defaults(batch=1, seq=4),
                "decode": Defaults(batch=1, context=128),
            },
            load=_spec.load,
            build=_spec.build,
            aliases=("whisper-large",) if _size == "large-v2" else (),
            attentions=("sdpa", "eager"),
            tokens=_tokens,
            notes=(Text("every sample is 30 seconds of sound, 3,000 frames"),),
        )
    )
