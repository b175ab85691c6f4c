"""ConvNeXt, four sizes.

Architecture and parameter counts: torchvision.models.convnext (arXiv:2201.03545).
"""

from gpuscope.document.text import Text
from gpuscope.program.models.network_spec import NetworkSpec, image_tasks
from gpuscope.program.models.registry import Model, register

# name, blocks of each stage, first width, stochastic depth, parameters, training batch
_SIZES = (
    ("convnext-tiny", (3, 3, 9, 3), 96, 0.1, 28_589_128, 64),
    ("convnext-small", (3, 3, 27, 3), 96, 0.4, 50_223_688, 64),
    ("convnext-base", (3, 3, 27, 3), 128, 0.5, 88_591_464, 32),
    ("convnext-large", (3, 3, 27, 3), 192, 0.5, 197_767_336, 32),
)

for _name, _depths, _width, _drop, _parameters, _batch in _SIZES:
    _spec = NetworkSpec(
        module="convnext",
        network="ConvNeXt",
        arguments={
            "depths": _depths,
            "widths": tuple(_width * 2**stage for stage in range(4)),
            "drop": _drop,
        },
    )
    register(
        Model(
            name=_name,
            family="ConvNeXt",
            description=Text(
                "image classifier, {blocks} blocks with 7x7 depthwise convolutions",
                blocks=sum(_depths),
            ),
            parameters=_parameters,
            tasks=image_tasks(train_batch=_batch),
            load=_spec.load,
            build=_spec.build_classifier,
            aliases=(_name.replace("-tiny", "-t").replace("-base", "-b"),)
            if _name.endswith(("tiny", "base"))
            else (),
            attentions=(),
            layers=False,
        )
    )
