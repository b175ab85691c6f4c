"""Vision Transformer, base and large.

Architecture and parameter counts: torchvision.models.vision_transformer (arXiv:2010.11929).
"""

from gpuscope.document.text import Text
from gpuscope.program.models.network_spec import NetworkSpec, image_tasks
from gpuscope.program.models.registry import Model, register

# name, patch, width, layers, heads, parameters, training batch, aliases
_SIZES = (
    ("vit-b-16", 16, 768, 12, 12, 86_567_656, 64, ("vit-base", "vit-base-patch16-224", "vit-b")),
    ("vit-b-32", 32, 768, 12, 12, 88_224_232, 256, ("vit-base-patch32-224",)),
    (
        "vit-l-16",
        16,
        1024,
        24,
        16,
        304_326_632,
        32,
        ("vit-large", "vit-large-patch16-224", "vit-l"),
    ),
)

for _name, _patch, _width, _layers, _heads, _parameters, _batch, _aliases in _SIZES:
    _spec = NetworkSpec(
        module="vit",
        network="VisionTransformer",
        arguments={"patch": _patch, "width": _width, "layers": _layers, "heads": _heads},
        takes_attention=True,
        takes_image=True,
        layers_argument="layers",
    )
    register(
        Model(
            name=_name,
            family="ViT",
            description=Text(
                "image classifier, {layers} layers of {width}, patches of {patch}",
                layers=_layers,
                width=_width,
                patch=_patch,
            ),
            parameters=_parameters,
            tasks=image_tasks(train_batch=_batch),
            load=_spec.load,
            build=_spec.build_classifier,
            aliases=_aliases,
            image_multiple=_patch,
        )
    )
