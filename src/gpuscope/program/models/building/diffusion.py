"""Steps of diffusion models: training on one noise level, one denoising step of sampling."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own usage
from torch import nn

from gpuscope.program.models.building.precision import torch_dtype
from gpuscope.program.models.building.steps import inference_step, train_step
from gpuscope.program.models.building.vision import make_network
from gpuscope.program.models.settings import Settings

Condition = Callable[[int], torch.Tensor]
"""Makes the conditioning (text features, class labels) of that many samples."""

_LATENT_CHANNELS = 4
_NOISE_LEVELS = 1000
_GUIDANCE = 4.0


def text_features(tokens: int, width: int, settings: Settings) -> Condition:
    """Random text features (N, tokens, width), as a text encoder would give them."""
    dtype = torch_dtype(settings.weight_dtype)
    return lambda n: torch.randn(n, tokens, width, device=settings.device, dtype=dtype)


def class_labels(classes: int, settings: Settings) -> Condition:
    """Random class labels (N,)."""
    return lambda n: torch.randint(0, classes, (n,), device=settings.device)


def build_denoiser(
    make: Callable[[], nn.Module], condition: Condition, settings: Settings
) -> Callable[[], torch.Tensor]:
    """A step of a network that predicts noise from (latents, time steps, condition).

    Training adds noise of a random level to the latents and takes the squared error of the
    predicted noise. Inference is one sampling step with classifier-free guidance: the network
    runs on twice the batch, with and without condition, and the latents move one step.

    Args:
        make: makes the network on the current default device.
        condition: makes what the network is conditioned on.
        settings: `image` is in pixels; latents have an eighth of them a side.
    """
    network = make_network(make, settings)
    side = settings.image // 8
    shape = (settings.batch, _LATENT_CHANNELS, side, side)
    dtype = torch_dtype(settings.weight_dtype)
    latents = torch.randn(shape, device=settings.device, dtype=dtype)
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, _NOISE_LEVELS, device=settings.device) ** 2
    signal = torch.cumprod(1.0 - betas, dim=0)
    if settings.task == "train":
        given = condition(settings.batch)

        def loss_of(net: nn.Module) -> torch.Tensor:
            noise = torch.randn_like(latents)
            levels = torch.randint(0, _NOISE_LEVELS, (settings.batch,), device=latents.device)
            kept = signal[levels].to(dtype)[:, None, None, None]
            noisy = kept.sqrt() * latents + (1.0 - kept).sqrt() * noise
            predicted = net(noisy, levels, given)[:, :_LATENT_CHANNELS]
            return F.mse_loss(predicted.float(), noise.float())

        return train_step(network, loss_of, settings, [latents, given])
    given = condition(2 * settings.batch)
    levels = torch.full((2 * settings.batch,), 500, device=settings.device)

    def denoise(net: nn.Module) -> torch.Tensor:
        predicted = net(torch.cat([latents, latents]), levels, given)[:, :_LATENT_CHANNELS]
        without, conditioned = predicted.chunk(2)
        noise = without + _GUIDANCE * (conditioned - without)
        now, after = signal[500].to(dtype), signal[480].to(dtype)
        clean = (latents - (1.0 - now).sqrt() * noise) / now.sqrt()
        moved: torch.Tensor = after.sqrt() * clean + (1.0 - after).sqrt() * noise
        return moved

    return inference_step(network, denoise, settings, [latents, given])
