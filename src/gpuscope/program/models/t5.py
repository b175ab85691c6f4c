"""T5, three sizes.

Sizes: config.json of google-t5/t5-small, t5-base and t5-large on the Hugging Face hub.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.registry import Model, register
from gpuscope.program.models.settings import Defaults
from gpuscope.program.models.transformers_spec import TransformersSpec, seq2seq_tokens

# name, width, feed-forward, layers, heads, parameters, training batch
_SIZES = (
    ("t5-small", 512, 2048, 6, 8, 60_506_624, 32),
    ("t5-base", 768, 3072, 12, 12, 222_903_552, 16),
    ("t5-large", 1024, 4096, 24, 16, 737_668_096, 8),
)

for _name, _width, _ffn, _layers, _heads, _parameters, _batch in _SIZES:
    _spec = TransformersSpec(
        package="t5",
        config="T5Config",
        model="T5ForConditionalGeneration",
        values={
            "vocab_size": 32128,
            "d_model": _width,
            "d_ff": _ffn,
            "d_kv": 64,
            "num_layers": _layers,
            "num_decoder_layers": _layers,
            "num_heads": _heads,
            "decoder_start_token_id": 0,
        },
        kind="seq2seq",
        layer_keys=("num_layers", "num_decoder_layers"),
    )
    register(
        Model(
            name=_name,
            family="T5",
            description=Text(
                "encoder and decoder, {layers} layers each of {width}", layers=_layers, width=_width
            ),
            parameters=_parameters,
            tasks={
                "train": Defaults(batch=_batch, seq=512, amp=True, optimizer="adamw"),
                "prefill": Defaults(batch=8, seq=512),
                "decode": Defaults(batch=8, seq=512, context=64),
            },
            load=_spec.load,
            build=_spec.build,
            attentions=("sdpa", "eager"),
            tokens=seq2seq_tokens,
            notes=(Text("training targets are a quarter as long as the inputs"),),
        )
    )
