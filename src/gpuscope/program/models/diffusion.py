"""Diffusion: the UNet of Stable Diffusion 1.5 and the diffusion transformer DiT-XL/2.

Architecture: unet/config.json of stable-diffusion-v1-5 on the Hugging Face hub (arXiv:2112.10752);
DiT-XL/2 of Peebles and Xie (arXiv:2212.09748), with the learned variance.
"""

from gpuscope.document.text import Text
from gpuscope.program.models.network_spec import NetworkSpec
from gpuscope.program.models.registry import Model, Step, register
from gpuscope.program.models.settings import Defaults, Settings

_UNET = NetworkSpec(module="unet", network="UNet", takes_attention=True)
_DIT = NetworkSpec(
    module="dit",
    network="DiffusionTransformer",
    arguments={"width": 1152, "layers": 28, "heads": 16, "patch": 2},
    takes_attention=True,
    takes_image=True,
    layers_argument="layers",
)

_GUIDED = Text("sampling uses classifier-free guidance: the network runs on twice the batch")


def _build_unet(settings: Settings) -> Step:
    from gpuscope.program.models.building import diffusion

    text = diffusion.text_features(77, 768, settings)
    return diffusion.build_denoiser(_UNET.make(settings), text, settings)


def _build_dit(settings: Settings) -> Step:
    from gpuscope.program.models.building import diffusion

    labels = diffusion.class_labels(1000, settings)
    return diffusion.build_denoiser(_DIT.make(settings), labels, settings)


register(
    Model(
        name="sd15-unet",
        family="Diffusion",
        description=Text("denoising UNet of Stable Diffusion 1.5, text features given"),
        parameters=859_520_964,
        tasks={
            "train": Defaults(batch=4, image=512, amp=True, optimizer="adamw"),
            "inference": Defaults(batch=1, image=512, dtype="float16"),
        },
        load=lambda: _UNET.load("diffusion"),
        build=_build_unet,
        aliases=("sd1.5-unet", "sd1.5", "stable-diffusion-1.5", "stable-diffusion-v1-5"),
        layers=False,
        image_multiple=64,
        notes=(_GUIDED, Text("text encoder and image decoder are not part of the step")),
    )
)
register(
    Model(
        name="dit-xl-2",
        family="Diffusion",
        description=Text("diffusion transformer, 28 layers of 1152, patches of 2"),
        parameters=675_129_632,
        tasks={
            "train": Defaults(batch=32, image=256, amp=True, optimizer="adamw"),
            "inference": Defaults(batch=8, image=256),
        },
        load=lambda: _DIT.load("diffusion"),
        build=_build_dit,
        aliases=("dit",),
        image_multiple=16,
        notes=(
            _GUIDED,
            Text("the learned variance is computed, but training is on the noise alone"),
        ),
    )
)
