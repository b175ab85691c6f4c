"""Image models in both memory layouts, with cuDNN trying its algorithms out."""

import torch
from torch.nn import functional as F  # noqa: N812

from gpuscope.program.models.networks.resnet import ResNet
from gpuscope.program.models.networks.unet import UNet


def _resnet(layout):
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    model = ResNet((3, 4, 6, 3), bottleneck=True).cuda().to(memory_format=layout).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(96, 3, 224, 224, device="cuda").to(memory_format=layout)
    labels = torch.randint(0, 1000, (96,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def resnet_first():
    return _resnet(torch.contiguous_format)


def resnet_last():
    return _resnet(torch.channels_last)


def unet_last():
    """One evaluation of Stable Diffusion's network in float16, batch 8."""
    torch.manual_seed(0)
    model = UNet().cuda().half().to(memory_format=torch.channels_last).eval()
    latents = torch.randn(8, 4, 64, 64, device="cuda", dtype=torch.float16)
    latents = latents.to(memory_format=torch.channels_last)
    levels = torch.full((8,), 500, device="cuda")
    text = torch.randn(8, 77, 768, device="cuda", dtype=torch.float16)

    @torch.no_grad()
    def step():
        return model(latents, levels, text)

    return step
