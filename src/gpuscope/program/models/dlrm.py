"""DLRM on the Criteo Kaggle data set.

Sizes: facebookresearch/dlrm, bench/dlrm_s_criteo_kaggle.sh (arXiv:1906.00091), and the number of
distinct values of each of the data set's 26 categorical features.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.network_spec import NetworkSpec
from gpuscope.program.models.registry import Model, Step, register
from gpuscope.program.models.settings import Defaults, Settings

_ROWS = (
    1460,
    583,
    10131227,
    2202608,
    305,
    24,
    12517,
    633,
    3,
    93145,
    5683,
    8351593,
    3194,
    27,
    14992,
    5461306,
    10,
    5652,
    2173,
    4,
    7046547,
    18,
    15,
    286181,
    105,
    142572,
)

_SPEC = NetworkSpec(
    module="dlrm",
    network="DLRM",
    arguments={"rows": _ROWS, "width": 16, "bottom": (13, 512, 256, 64, 16), "top": (512, 256)},
)


def _build(settings: Settings) -> Step:
    from gpuscope.program.models.building import recommender

    return recommender.build_recommender(_SPEC.make(settings), 13, settings)


register(
    Model(
        name="dlrm",
        family="DLRM",
        description=Text("click prediction, 26 embedding tables of 16, 33.8 million rows"),
        parameters=540_677_217,
        tasks={
            "train": Defaults(batch=2048, dtype="float32", optimizer="sgd-plain"),
            "inference": Defaults(batch=2048, dtype="float32"),
        },
        load=lambda: _SPEC.load("recommender"),
        build=_build,
        aliases=("dlrm-kaggle", "dlrm-criteo-kaggle"),
        attentions=(),
        checkpointing=False,
        layers=False,
        notes=(Text("tables have dense gradients, torch's default: a step touches every row"),),
    )
)
