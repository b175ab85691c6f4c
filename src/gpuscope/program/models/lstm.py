"""LSTM language model, the large one of Zaremba et al. 2014 (arXiv:1409.2329).

Two layers of 1,500 over the 10,000 words of Penn Treebank, dropout 0.65: 66 million parameters.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.network_spec import NetworkSpec
from gpuscope.program.models.registry import Model, Step, register
from gpuscope.program.models.settings import Defaults, Settings

_SPEC = NetworkSpec(
    module="lstm",
    network="LSTMLanguageModel",
    arguments={"vocabulary": 10000, "width": 1500, "layers": 2, "dropout": 0.65},
    layers_argument="layers",
)


def _build(settings: Settings) -> Step:
    from gpuscope.program.models.building import recurrent

    return recurrent.build_language_model(_SPEC.make(settings), settings)


register(
    Model(
        name="lstm",
        family="LSTM",
        description=Text("language model, 2 LSTM layers of 1500, 10,000 words"),
        parameters=66_034_000,
        tasks={
            "train": Defaults(batch=64, seq=128, dtype="float32", optimizer="sgd-plain"),
            "inference": Defaults(batch=64, seq=128, dtype="float32"),
        },
        load=lambda: _SPEC.load("recurrent"),
        build=_build,
        aliases=("lstm-lm", "lstm-large"),
        attentions=(),
        checkpointing=False,
        tokens=lambda settings: settings.batch * settings.seq,
    )
)
