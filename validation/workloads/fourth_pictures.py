"""Programs of a fourth set that no constant was fitted to: pictures and video."""

import copy
import math

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


def heads_of(x, parts, heads):
    """(..., tokens, parts x width) as `parts` tensors of (..., heads, tokens, width / heads)."""
    return x.unflatten(-1, (parts, heads, -1)).movedim(-3, 0).transpose(-3, -2)


class VideoBlock(nn.Module):
    """Attention within frames, along time and to a text, each shifted and scaled by the moment."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(4))
        self.space, self.time = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width)
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 9 * width))

    def forward(self, x, moment, text):
        shift = self.modulation(moment)[:, None, None].chunk(9, -1)
        h = self.norms[0](x) * (1 + shift[0]) + shift[1]
        y = F.scaled_dot_product_attention(*heads_of(self.space(h), 3, self.heads))
        x = x + shift[2] * self.outs[0](y.transpose(-3, -2).flatten(-2))
        h = (self.norms[1](x) * (1 + shift[3]) + shift[4]).transpose(1, 2)
        y = F.scaled_dot_product_attention(*heads_of(self.time(h), 3, self.heads))
        x = x + shift[5] * self.outs[1](y.transpose(-3, -2).flatten(-2)).transpose(1, 2)
        (q,) = heads_of(self.q(self.norms[2](x).flatten(1, 2)), 1, self.heads)
        y = F.scaled_dot_product_attention(q, *heads_of(self.kv(text), 2, self.heads))
        x = x + self.outs[2](y.transpose(1, 2).flatten(2)).unflatten(1, x.shape[1:3])
        h = self.norms[3](x) * (1 + shift[6]) + shift[7]
        return x + shift[8] * self.mlp(h)


def video_diffusion(batch=4, frames=16, side=32, width=1024, depth=8, heads=16):
    """Latent video denoised by velocity, attention in space and time apart; bfloat16."""
    torch.manual_seed(0)
    cut = nn.Conv3d(8, width, (1, 2, 2), (1, 2, 2))
    moment = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
    blocks = nn.ModuleList(VideoBlock(width, heads) for _ in range(depth))
    out, read = nn.Linear(width, 8 * 4), nn.Linear(768, width)
    model = nn.ModuleList([cut, moment, blocks, out, read]).cuda()
    latents = torch.randn(batch, 8, frames, side, side, device="cuda")
    text = torch.randn(batch, 120, 768, device="cuda")
    rates = torch.exp(-math.log(1e4) * torch.arange(128, device="cuda") / 128)

    def loss():
        noise = torch.randn_like(latents)
        t = torch.randn(batch, device="cuda").sigmoid()
        at = t[:, None, None, None, None]
        angle = 1000 * t[:, None] * rates
        c = moment(torch.cat([angle.cos(), angle.sin()], -1))
        x = cut(at * noise + (1 - at) * latents).flatten(3).permute(0, 2, 3, 1)
        words = read(text)
        for block in blocks:
            x = block(x, c, words)
        half = side // 2
        made = out(x).unflatten(2, (half, half)).unflatten(-1, (8, 2, 2))
        made = made.permute(0, 4, 1, 2, 5, 3, 6).reshape(latents.shape)
        return F.mse_loss(made.float(), noise - latents)

    return fit(model, loss)


class CausalConv3d(nn.Conv3d):
    """Sees no later frame: the first one is repeated before the others."""

    def forward(self, x):
        ahead = self.kernel_size[0] - 1
        if ahead:
            x = torch.cat([x[:, :, :1].expand(-1, -1, ahead, -1, -1), x], 2)
        return super().forward(x)


def causal(inside, outside, kernel=3, stride=1):
    side = kernel // 2
    return CausalConv3d(inside, outside, kernel, stride, (0, side, side))


class VolumeBlock(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, inside), nn.GroupNorm(32, outside)
        self.conv1, self.conv2 = causal(inside, outside), causal(outside, outside)
        self.skip = causal(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class FrameAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv = nn.GroupNorm(32, width), nn.Conv3d(width, 3 * width, 1)
        self.out = nn.Conv3d(width, width, 1)

    def forward(self, x):
        n, c, t, h, w = x.shape
        qkv = self.qkv(self.norm(x)).permute(0, 2, 3, 4, 1).reshape(n * t, 1, h * w, 3 * c)
        y = F.scaled_dot_product_attention(*qkv.chunk(3, -1))
        return x + self.out(y.reshape(n, t, h, w, c).permute(0, 4, 1, 2, 3))


def video_autoencoder(batch=1, frames=9, side=256, widths=(96, 192, 384)):
    """Frames to latents and back by convolutions that see no later frame; inference, float16."""
    torch.manual_seed(0)
    down, up, inside = [causal(3, widths[0])], [], widths[0]
    for n, width in enumerate(widths):
        down += [VolumeBlock(inside, width), VolumeBlock(width, width)]
        if n < 2:
            down.append(causal(width, width, 3, (1 + n, 2, 2)))
        inside = width
    down += [FrameAttention(inside), nn.GroupNorm(32, inside), nn.SiLU(), causal(inside, 32)]
    up += [causal(16, inside), FrameAttention(inside)]
    for n, width in reversed(list(enumerate(widths))):
        up += [VolumeBlock(inside, width), VolumeBlock(width, width)]
        if n:
            up += [nn.Upsample(scale_factor=(n, 2, 2), mode="nearest"), causal(width, width)]
        inside = width
    up += [nn.GroupNorm(32, inside), nn.SiLU(), causal(inside, 3)]
    encoder, decoder = nn.Sequential(*down), nn.Sequential(*up)
    model = nn.ModuleList([encoder, decoder]).cuda().half().eval()
    video = torch.rand(batch, 3, frames, side, side, device="cuda", dtype=torch.half)

    @torch.no_grad()
    def step():
        mean, spread = model[0](video).chunk(2, 1)
        latent = mean + torch.randn_like(mean) * (0.5 * spread.clamp(-30, 20)).exp()
        return model[1](latent).clamp(0, 1)

    return step


class LowRank(nn.Module):
    """A frozen layer with a trained product of two narrow ones beside it."""

    def __init__(self, inside, outside, rank=16):
        super().__init__()
        self.base = nn.Linear(inside, outside).requires_grad_(False)
        self.a, self.b = nn.Linear(inside, rank, bias=False), nn.Linear(rank, outside, bias=False)

    def forward(self, x):
        return self.base(x) + 2.0 * self.b(self.a(x))


class VitBlock(nn.Module):
    """A vision transformer's block; `linear` makes its layers."""

    def __init__(self, width, heads, linear=nn.Linear):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = linear(width, 3 * width), linear(width, width)
        self.up, self.down = linear(width, 4 * width), linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((2, width), 0.1))

    def forward(self, x):
        y = F.scaled_dot_product_attention(*heads_of(self.qkv(self.norm1(x)), 3, self.heads))
        x = x + self.scale[0] * self.out(y.transpose(1, 2).flatten(2))
        return x + self.scale[1] * self.down(F.gelu(self.up(self.norm2(x))))


def vision_low_rank_compiled(batch=64, side=224, width=1024, depth=12, heads=16):
    """A frozen vision transformer tuned by low-rank layers, mixed pairs; compiled, bfloat16."""
    torch.manual_seed(0)
    tokens = (side // 14) ** 2

    class Tuned(nn.Module):
        def __init__(self):
            super().__init__()
            self.cut = nn.Conv2d(3, width, 14, 14).requires_grad_(False)
            self.place = nn.Parameter(torch.zeros(1, tokens, width), requires_grad=False)
            self.blocks = nn.ModuleList(VitBlock(width, heads, LowRank) for _ in range(depth))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 397)

        def forward(self, x):
            h = self.cut(x).flatten(2).transpose(1, 2) + self.place
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h).mean(1))

    model = Tuned().cuda()
    run = torch.compile(model)
    x = torch.randn(batch, 3, side, side, device="cuda")
    y = torch.rand(batch, 397, device="cuda").softmax(-1)

    def loss():
        mixed, target = 0.7 * x + 0.3 * x.flip(0), 0.7 * y + 0.3 * y.flip(0)
        return F.cross_entropy(run(mixed), target)

    return fit(model, loss)


class Prototypes(nn.Module):
    """A vision transformer, a narrow head of unit length, its products with many directions."""

    def __init__(self, width, depth, heads, count, largest):
        super().__init__()
        self.cut = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, width, largest, largest) * 0.02)
        self.blocks = nn.ModuleList(VitBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(
            nn.Linear(width, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(),
            nn.Linear(2048, 256),
        )  # fmt: skip
        self.directions = nn.utils.parametrizations.weight_norm(nn.Linear(256, count, bias=False))

    def forward(self, x):
        h = self.cut(x)
        place = F.interpolate(self.place, h.shape[-2:], mode="bicubic")
        h = (h + place).flatten(2).transpose(1, 2)
        h = torch.cat([self.first.expand(len(h), -1, -1), h], 1)
        for block in self.blocks:
            h = block(h)
        token = self.norm(h[:, 0])
        return token, self.directions(F.normalize(self.head(token), dim=-1))


def self_distillation(batch=32, width=768, depth=12, heads=12, count=32768, sides=(224, 96)):
    """Small cuttings are to say what an averaged copy says of large ones; float16 with a scaler."""
    torch.manual_seed(0)
    student = Prototypes(width, depth, heads, count, sides[0] // 16).cuda()
    teacher = copy.deepcopy(student).requires_grad_(False)
    large = torch.randn(2 * batch, 3, sides[0], sides[0], device="cuda")
    small = torch.randn(6 * batch, 3, sides[1], sides[1], device="cuda")
    pairs = list(teacher.parameters()), list(student.parameters())

    def loss():
        with torch.no_grad():
            q = (teacher(large)[1].float() / 0.05).exp().T
            for _ in range(3):  # every direction is to be used as often
                q = q / q.sum(1, keepdim=True) / count
                q = q / q.sum(0, keepdim=True) / (2 * batch)
            wanted = (q * 2 * batch).T.chunk(2)
        token, of_large = student(large)
        _, of_small = student(small)
        said = [(s.float() / 0.1).log_softmax(-1) for s in (*of_large.chunk(2), *of_small.chunk(6))]
        total, terms = 0, 0
        for i, w in enumerate(wanted):
            for j, s in enumerate(said):
                if i != j:
                    total, terms = total - (w * s).sum(-1).mean(), terms + 1
        apart = torch.cdist(*[F.normalize(token.float(), dim=-1)] * 2)
        apart = apart + 2 * torch.eye(2 * batch, device="cuda")
        return total / terms - 0.1 * (apart.min(1).values + 1e-8).log().mean()

    def follow():
        torch._foreach_lerp_(*pairs, 0.004)

    return fit(student, loss, torch.float16, scaled=True, clip=3.0, after=follow)
