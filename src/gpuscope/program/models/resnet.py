"""ResNet, five depths.

Architecture and parameter counts: torchvision.models.resnet (He et al. 2015, arXiv:1512.03385).
"""

from gpuscope.document.text import Text
from gpuscope.program.models.network_spec import NetworkSpec, image_tasks
from gpuscope.program.models.registry import Model, register

# name, blocks of each stage, bottleneck, parameters, training batch
_SIZES = (
    ("resnet18", (2, 2, 2, 2), False, 11_689_512, 256),
    ("resnet34", (3, 4, 6, 3), False, 21_797_672, 256),
    ("resnet50", (3, 4, 6, 3), True, 25_557_032, 128),
    ("resnet101", (3, 4, 23, 3), True, 44_549_160, 128),
    ("resnet152", (3, 8, 36, 3), True, 60_192_808, 64),
)

for _name, _depths, _bottleneck, _parameters, _batch in _SIZES:
    _spec = NetworkSpec(
        module="resnet", network="ResNet", arguments={"depths": _depths, "bottleneck": _bottleneck}
    )
    register(
        Model(
            name=_name,
            family="ResNet",
            description=Text("image classifier, {blocks} residual blocks", blocks=sum(_depths)),
            parameters=_parameters,
            tasks=image_tasks(train_batch=_batch, optimizer="sgd"),
            load=_spec.load,
            build=_spec.build_classifier,
            attentions=(),
            layers=False,
            notes=(Text("convolutions in float32 use TensorFloat-32, PyTorch's default"),),
        )
    )
