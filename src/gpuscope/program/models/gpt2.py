"""GPT-2, four sizes.

Sizes: config.json of openai-community/gpt2, gpt2-medium, gpt2-large and gpt2-xl on the Hugging
Face hub; the vocabulary is 50,257 and the context 1,024 tokens in all of them.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.registry import register
from gpuscope.program.models.transformers_spec import TransformersSpec, causal_model, language_tasks

# name, width, layers, heads, parameters, training batch, aliases
_SIZES = (
    ("gpt2", 768, 12, 12, 124_439_808, 8, ("gpt2-small", "gpt2-124m")),
    ("gpt2-medium", 1024, 24, 16, 354_823_168, 8, ("gpt2-355m",)),
    ("gpt2-large", 1280, 36, 20, 774_030_080, 4, ("gpt2-774m",)),
    ("gpt2-xl", 1600, 48, 25, 1_557_611_200, 4, ("gpt2-1.5b",)),
)

for _name, _width, _layers, _heads, _parameters, _batch, _aliases in _SIZES:
    register(
        causal_model(
            TransformersSpec(
                package="gpt2",
                config="GPT2Config",
                model="GPT2LMHeadModel",
                values={"n_embd": _width, "n_layer": _layers, "n_head": _heads},
                layer_keys=("n_layer",),
            ),
            name=_name,
            family="GPT-2",
            description=Text(
                "decoder, {layers} layers of {width}, learned positions",
                layers=_layers,
                width=_width,
            ),
            parameters=_parameters,
            tasks=language_tasks(train_batch=_batch, seq=1024, context=512, train_amp=True),
            aliases=_aliases,
            fp8=False,  # its projections are transformers' Conv1D, not linear layers
        )
    )
