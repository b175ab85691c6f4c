"""BERT, two sizes, with the masked-language-model head.

Sizes: config.json of google-bert/bert-base-uncased and bert-large-uncased on the Hugging Face hub.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.registry import Model, register
from gpuscope.program.models.settings import Defaults
from gpuscope.program.models.transformers_spec import TransformersSpec, text_tokens

# name, hidden, layers, heads, feed-forward, parameters with the head, aliases
_SIZES = (
    ("bert-base", 768, 12, 12, 3072, 109_514_298, ("bert", "bert-base-uncased")),
    ("bert-large", 1024, 24, 16, 4096, 335_174_458, ("bert-large-uncased",)),
)

for _name, _hidden, _layers, _heads, _ffn, _parameters, _aliases in _SIZES:
    _spec = TransformersSpec(
        package="bert",
        config="BertConfig",
        model="BertForMaskedLM",
        values={
            "vocab_size": 30522,
            "hidden_size": _hidden,
            "num_hidden_layers": _layers,
            "num_attention_heads": _heads,
            "intermediate_size": _ffn,
        },
        kind="encoder",
    )
    register(
        Model(
            name=_name,
            family="BERT",
            description=Text(
                "encoder, {layers} layers of {hidden}, masked-token head",
                layers=_layers,
                hidden=_hidden,
            ),
            parameters=_parameters,
            tasks={
                "train": Defaults(batch=16, seq=512, amp=True, optimizer="adamw"),
                "inference": Defaults(batch=8, seq=128),
            },
            load=_spec.load,
            build=_spec.build,
            aliases=_aliases,
            tokens=text_tokens,
        )
    )
