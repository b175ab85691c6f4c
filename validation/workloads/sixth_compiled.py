"""Programs of a sixth set that no constant was fitted to: compiled ones."""

import math

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Tower(nn.Module):
    """Plain blocks of PyTorch's attention, norms before."""

    def __init__(self, width, depth, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width),
                    nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width),
                ]
            )
            for _ in range(depth)
        )  # fmt: skip

    def forward(self, x):
        for one, qkv, out, two, up, down in self.blocks:
            q, k, v = qkv(one(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            h = F.scaled_dot_product_attention(q, k, v)
            x = x + out(h.transpose(1, 2).flatten(2))
            x = x + down(F.gelu(up(two(x)), approximate="tanh"))
        return self.norm(x)


def pictures_and_captions_compiled(
    batch=256, side=224, cut=16, width=768, depth=6, heads=12, told=64, words=32000
):
    """Pictures and captions paired by a sigmoid for every two of them; compiled, bfloat16."""
    torch.manual_seed(0)
    count = (side // cut) ** 2

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.cut = nn.Conv2d(3, width, cut, cut)
            self.places = nn.Parameter(0.02 * torch.randn(count, width))
            self.ask = nn.Parameter(0.02 * torch.randn(1, 1, width))
            self.pool = nn.MultiheadAttention(width, heads, batch_first=True)
            self.see, self.read = Tower(width, depth, heads), Tower(width, depth, heads)
            self.table = nn.Embedding(words, width)
            self.order = nn.Parameter(0.02 * torch.randn(told, width))
            self.head = nn.Linear(width, width)
            self.scale = nn.Parameter(torch.tensor(math.log(10.0)))
            self.shift = nn.Parameter(torch.tensor(-10.0))

        def forward(self, image, text):
            h = self.see(self.cut(image).flatten(2).transpose(1, 2) + self.places)
            ask = self.ask.expand(len(h), -1, -1)
            seen = self.pool(ask, h, h, need_weights=False)[0][:, 0]
            heard = self.head(self.read(self.table(text) + self.order)[:, -1])
            u, v = F.normalize(seen.float(), dim=-1), F.normalize(heard.float(), dim=-1)
            return u @ v.T * self.scale.exp() + self.shift

    model = Both().cuda()
    run = torch.compile(model)
    image = torch.randn(batch, 3, side, side, device="cuda")
    text = torch.randint(0, words, (batch, told), device="cuda")
    pair = 2 * torch.eye(batch, device="cuda") - 1

    def loss():
        return -F.logsigmoid(pair * run(image, text).float()).sum() / batch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    return fit(model, loss, optimizer=optimizer, clip=1.0)


class Clear(nn.Module):
    """Gates of halves in place of activations, channels weighed by their means."""

    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(width, width, 1)
        self.near = nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width)
        self.weigh = nn.Conv2d(width, width, 1)
        self.up, self.down = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(width, width, 1)
        self.norms = nn.ParameterList(torch.ones(width, 1, 1) for _ in range(2))
        self.offsets = nn.ParameterList(torch.zeros(width, 1, 1) for _ in range(2))
        self.shares = nn.ParameterList(torch.zeros(width, 1, 1) + 0.1 for _ in range(2))

    def normed(self, x, n):
        mean = x.mean(1, keepdim=True)
        off = x - mean
        off = off * (off.square().mean(1, keepdim=True) + 1e-6).rsqrt()
        return off * self.norms[n] + self.offsets[n]

    def forward(self, x):
        a, b = self.near(self.one(self.normed(x, 0))).chunk(2, 1)
        h = a * b
        h = self.two(h * self.weigh(h.mean((2, 3), keepdim=True)))
        x = x + h * self.shares[0]
        a, b = self.up(self.normed(x, 1)).chunk(2, 1)
        return x + self.down(a * b) * self.shares[1]


def clearer_pictures_compiled(batch=16, side=256, width=32, down=(1, 1, 2, 4), middle=4):
    """Noise and blur taken off pictures without activations; compiled, bfloat16."""
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.leave = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, 3, 3, 1, 1)
            self.stages, self.shrink, w = nn.ModuleList(), nn.ModuleList(), width
            for depth in down:
                self.stages.append(nn.Sequential(*[Clear(w) for _ in range(depth)]))
                self.shrink.append(nn.Conv2d(w, 2 * w, 2, 2))
                w *= 2
            self.middle = nn.Sequential(*[Clear(w) for _ in range(middle)])
            self.grow, self.back = nn.ModuleList(), nn.ModuleList()
            for _ in down:
                self.grow.append(
                    nn.Sequential(nn.Conv2d(w, 2 * w, 1, bias=False), nn.PixelShuffle(2))
                )
                w //= 2
                self.back.append(nn.Sequential(Clear(w), Clear(w)))

        def forward(self, image):
            x, kept = self.enter(image), []
            for stage, shrink in zip(self.stages, self.shrink, strict=True):
                x = stage(x)
                kept.append(x)
                x = shrink(x)
            x = self.middle(x)
            for grow, stage in zip(self.grow, self.back, strict=True):
                x = stage(grow(x) + kept.pop())
            return image + self.leave(x)

    model = Model().cuda()
    run = torch.compile(model)
    clear = torch.rand(batch, 3, side, side, device="cuda")
    noisy = clear + 0.1 * torch.randn_like(clear)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.9))

    def loss():
        off = (run(noisy).float() - clear).square().mean((1, 2, 3))
        return 10 / math.log(10) * (off + 1e-8).log().mean()

    return fit(model, loss, optimizer=optimizer, clip=0.01)
