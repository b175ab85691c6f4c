"""Swin Transformer, tiny, small and base.

Architecture and parameter counts: torchvision.models.swin_transformer (arXiv:2103.14030).
"""

from gpuscope.document.text import Text
from gpuscope.program.models.network_spec import NetworkSpec, image_tasks
from gpuscope.program.models.registry import Model, register

# name, width, blocks of each stage, heads of each stage, stochastic depth, parameters, batch, alias
_SIZES = (
    ("swin-t", 96, (2, 2, 6, 2), (3, 6, 12, 24), 0.2, 28_288_354, 64, "swin-tiny"),
    ("swin-s", 96, (2, 2, 18, 2), (3, 6, 12, 24), 0.3, 49_606_258, 64, "swin-small"),
    ("swin-b", 128, (2, 2, 18, 2), (4, 8, 16, 32), 0.5, 87_768_224, 32, "swin-base"),
)

for _name, _width, _depths, _heads, _drop, _parameters, _batch, _alias in _SIZES:
    _spec = NetworkSpec(
        module="swin",
        network="SwinTransformer",
        arguments={"width": _width, "depths": _depths, "heads": _heads, "drop": _drop},
    )
    register(
        Model(
            name=_name,
            family="Swin",
            description=Text(
                "image classifier, {blocks} blocks with 7x7 attention windows", blocks=sum(_depths)
            ),
            parameters=_parameters,
            tasks=image_tasks(train_batch=_batch),
            load=_spec.load,
            build=_spec.build_classifier,
            aliases=(_alias,),
            attentions=(),
            layers=False,
            notes=(Text("attention in windows is eager, as torchvision writes it"),),
        )
    )
