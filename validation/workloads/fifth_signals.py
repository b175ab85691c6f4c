"""Programs of a fifth set that no constant was fitted to: voices, privacy."""

import torch
from fourth_training import fit
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F  # noqa: N812


class Dilated(nn.Module):
    """A gate of dilated filters, moved by the moment and by the spectrum."""

    def __init__(self, width, bands, spread):
        super().__init__()
        self.moment, self.of_bands = nn.Linear(512, width), nn.Conv1d(bands, 2 * width, 1)
        self.wide = nn.Conv1d(width, 2 * width, 3, padding=spread, dilation=spread)
        self.out = nn.Conv1d(width, 2 * width, 1)

    def forward(self, x, moment, spectrum):
        h = self.wide(x + self.moment(moment)[..., None]) + self.of_bands(spectrum)
        gate, kept = h.chunk(2, 1)
        on, skip = self.out(gate.sigmoid() * kept.tanh()).chunk(2, 1)
        return (x + on) * 0.5**0.5, skip


def noise_to_voice(batch=16, frames=62, width=64, depth=30, bands=80):
    """A voice found in noise by thirty gates of dilated filters; float32, TF32 filters."""
    torch.manual_seed(0)
    enter, moment = (
        nn.Conv1d(1, width, 1),
        nn.ModuleList([nn.Linear(128, 512), nn.Linear(512, 512)]),
    )
    grow = nn.ModuleList(nn.ConvTranspose2d(1, 1, (3, 32), (1, 16), (1, 8)) for _ in range(2))
    layers = nn.ModuleList(Dilated(width, bands, 2 ** (n % 10)) for n in range(depth))
    leave = nn.Sequential(nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 1, 1))
    model = nn.ModuleList([enter, moment, grow, layers, leave]).cuda()
    voice = torch.rand(batch, frames * 256, device="cuda") * 2 - 1
    spectrum = torch.rand(batch, bands, frames, device="cuda")
    left = torch.cumprod(1 - torch.linspace(1e-4, 0.05, 50, device="cuda"), 0)
    rate = 10 ** (torch.arange(64, device="cuda") * 4 / 63)

    def loss():
        t = torch.randint(0, 50, (batch,), device="cuda")
        noise, share = torch.randn_like(voice), left[t, None]
        x = F.relu(enter((share.sqrt() * voice + (1 - share).sqrt() * noise)[:, None]))
        angle = t[:, None] * rate
        m = torch.cat([angle.sin(), angle.cos()], 1)
        for f in moment:
            m = F.silu(f(m))
        s = spectrum[:, None]
        for f in grow:
            s = F.leaky_relu(f(s), 0.4)
        total = 0.0
        for layer in layers:
            x, skip = layer(x, m, s[:, 0])
            total = total + skip
        return F.l1_loss(leave(total * len(layers) ** -0.5)[:, 0], noise)

    return fit(model, loss, None, torch.optim.Adam(model.parameters(), lr=2e-4))


def private_gradients(batch=256, side=32, widths=(32, 64, 128, 256), classes=10, noise=1.0):
    """Each picture's own slope, cut to length one, summed and blurred; vectorised, float32."""
    torch.manual_seed(0)
    layers, inside = [], 3
    for w in widths:
        layers += [
            nn.Conv2d(inside, w, 3, padding=1),
            nn.GroupNorm(8, w),
            nn.ReLU(),
            nn.Conv2d(w, w, 3, padding=1),
            nn.GroupNorm(8, w),
            nn.ReLU(),
            nn.AvgPool2d(2),
        ]
        inside = w
    model = nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes)
    ).cuda()
    learnt = dict(model.named_parameters())
    optimizer = torch.optim.SGD(learnt.values(), lr=0.1, momentum=0.9)
    x = torch.randn(batch, 3, side, side, device="cuda")
    y = torch.randint(0, classes, (batch,), device="cuda")

    def loss_of(parameters, picture, kind):
        logits = functional_call(model, parameters, (picture[None],))
        return F.cross_entropy(logits, kind[None])

    each = vmap(grad(loss_of), in_dims=(None, 0, 0))

    def step():
        slopes = each({name: p.detach() for name, p in learnt.items()}, x, y)
        norms = torch.stack([s.flatten(1).norm(dim=1) for s in slopes.values()]).norm(dim=0)
        share = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        for name, p in learnt.items():
            whole = torch.einsum("n,n...->...", share, slopes[name])
            p.grad = (whole + noise * torch.randn_like(whole)) / batch
        optimizer.step()
        return norms.mean()

    return step
