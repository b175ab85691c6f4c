"""Programs of a sixth set that no constant was fitted to: voices, music, noises."""

import math

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Layers(nn.Module):
    """Filter, rectifier, batch norm over time."""

    def __init__(self, inside, outside, kernel=1, spread=1):
        super().__init__()
        pad = (kernel - 1) * spread // 2
        self.conv = nn.Conv1d(inside, outside, kernel, padding=pad, dilation=spread)
        self.norm = nn.BatchNorm1d(outside)

    def forward(self, x):
        return self.norm(F.relu(self.conv(x)))


class Stepped(nn.Module):
    """Eighths of the channels, each filtered with what the one before gave; channels weighed."""

    def __init__(self, width, spread, parts=8):
        super().__init__()
        self.enter, self.leave = Layers(width, width), Layers(width, width)
        w = width // parts
        self.body = nn.ModuleList(Layers(w, w, 3, spread) for _ in range(parts - 1))
        self.weigh = nn.Sequential(
            nn.Conv1d(width, 128, 1), nn.ReLU(), nn.Conv1d(128, width, 1), nn.Sigmoid()
        )
        self.parts = parts

    def forward(self, x):
        h, kept = self.enter(x).chunk(self.parts, 1), []
        for n, part in enumerate(h):
            if n == 0:
                kept.append(part)
            else:
                kept.append(self.body[n - 1](part + kept[-1] if n > 1 else part))
        h = self.leave(torch.cat(kept, 1))
        return x + h * self.weigh(h.mean(2, keepdim=True))


def who_speaks(batch=128, samples=48000, width=1024, bands=80, people=7205):
    """Speakers from stepped dilated filters and attentive means, angles with a margin; float32."""
    torch.manual_seed(0)
    enter = Layers(bands, width, 5)
    body = nn.ModuleList(Stepped(width, spread) for spread in (2, 3, 4))
    join = nn.Conv1d(3 * width, 1536, 1)
    look = nn.Sequential(
        nn.Conv1d(3 * 1536, 256, 1), nn.ReLU(), nn.BatchNorm1d(256), nn.Tanh(),
        nn.Conv1d(256, 1536, 1), nn.Softmax(2),
    )  # fmt: skip
    leave = nn.Sequential(nn.BatchNorm1d(3072), nn.Linear(3072, 192), nn.BatchNorm1d(192))
    centres = nn.ParameterList([nn.Parameter(torch.randn(people, 192) * 0.1)])
    model = nn.ModuleList([enter, body, join, look, leave, centres]).cuda()
    wave = torch.randn(batch, samples, device="cuda")
    who = torch.randint(0, people, (batch,), device="cuda")
    window = torch.hamming_window(400, device="cuda")
    mel = torch.rand(bands, 257, device="cuda") * (torch.rand(bands, 257, device="cuda") < 0.05)

    def heard():
        sharp = wave[:, 1:] - 0.97 * wave[:, :-1]
        spectrum = torch.stft(sharp, 512, 160, 400, window, return_complex=True).abs().square()
        x = (mel @ spectrum + 1e-6).log()
        x = x - x.mean(-1, keepdim=True)
        for axis, most in ((1, 10), (2, 20)):
            size = x.shape[axis]
            wide = torch.randint(0, most, (batch, 1), device="cuda")
            first = torch.randint(0, size - most // 2, (batch, 1), device="cuda")
            at = torch.arange(size, device="cuda")
            lost = (at >= first) & (at < first + wide)
            x = x.masked_fill(lost.unsqueeze(3 - axis), 0.0)
        return x

    def loss():
        with torch.no_grad():
            x = heard()
        h, kept = enter(x), []
        for block in body:
            h = block(h + sum(kept))
            kept.append(h)
        h = F.relu(join(torch.cat(kept, 1)))
        mean = h.mean(2, keepdim=True).expand_as(h)
        spread = h.var(2, keepdim=True).clamp(min=1e-4).sqrt().expand_as(h)
        weight = look(torch.cat([h, mean, spread], 1))
        mean = (h * weight).sum(2)
        spread = ((h.square() * weight).sum(2) - mean.square()).clamp(min=1e-4).sqrt()
        cosine = F.linear(F.normalize(leave(torch.cat([mean, spread], 1))), F.normalize(centres[0]))
        sine = (1 - cosine.square()).clamp(0, 1).sqrt()
        moved = cosine * math.cos(0.2) - sine * math.sin(0.2)
        moved = torch.where(cosine > math.cos(math.pi - 0.2), moved, cosine - 0.04)
        mine = F.one_hot(who, people).float()
        return F.cross_entropy(30 * (mine * moved + (1 - mine) * cosine), who)

    return fit(model, loss, None, torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=2e-5))


class Listening(nn.Module):
    """A decoder's block that reads a description."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.q = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def among(self, q, k, v, out, **kind):
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (q, k, v))
        return out(F.scaled_dot_product_attention(q, k, v, **kind).transpose(1, 2).flatten(2))

    def forward(self, x, told, hidden):
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, -1)
        x = x + self.among(q, k, v, self.outs[0], is_causal=True)
        k, v = self.kv(told).chunk(2, -1)
        x = x + self.among(self.q(self.norms[1](x)), k, v, self.outs[1], attn_mask=hidden)
        return x + self.mlp(self.norms[2](x))


def books_of_music(
    batch=8, frames=1500, told=64, width=1024, depth=12, heads=16, books=4, codes=2048
):
    """Music as four books of codes, each a step later, told by a text; bfloat16, AdamW fused."""
    torch.manual_seed(0)
    tables = nn.ModuleList(nn.Embedding(codes + 1, width) for _ in range(books))
    blocks = nn.ModuleList(Listening(width, heads) for _ in range(depth))
    read, norm = nn.Linear(768, width), nn.LayerNorm(width)
    heads_of = nn.ModuleList(nn.Linear(width, codes, bias=False) for _ in range(books))
    model = nn.ModuleList([tables, blocks, read, norm, heads_of]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
    sound = torch.randint(0, codes, (batch, books, frames), device="cuda")
    text = torch.randn(batch, told, 768, device="cuda")
    count = torch.randint(told // 4, told + 1, (batch,), device="cuda")
    real = torch.arange(told, device="cuda") < count[:, None]
    at = torch.arange(frames + books, device="cuda")[:, None]
    angle = at * 1e4 ** (-torch.arange(width // 2, device="cuda") / (width // 2))
    place = torch.cat([angle.cos(), angle.sin()], 1)

    def loss():
        late = torch.full((batch, books, frames + books), codes, device="cuda")
        for n in range(books):
            late[:, n, n + 1 : n + 1 + frames] = sound[:, n]
        x = sum(table(late[:, n]) for n, table in enumerate(tables)) + place
        keep = (torch.rand(batch, 1, 1, device="cuda") > 0.1).float()
        description = read(text * keep)
        for block in blocks:
            x = block(x, description, real[:, None, None])
        x = norm(x)
        total = 0.0
        for n, head in enumerate(heads_of):
            logits = head(x[:, n : n + frames])
            total = total + F.cross_entropy(logits.flatten(0, 1), sound[:, n].flatten())
        return total / books

    return fit(model, loss, optimizer=optimizer, clip=1.0)


def noises_in_time(batch=48, samples=320000, widths=(64, 128, 256, 512), classes=447, bands=64):
    """Which noises sound when: spectra, filters, a two-way GRU, soft votes; float16, scaled."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(bands)
    blocks, inside = nn.ModuleList(), 1
    for width in widths:
        blocks.append(
            nn.Sequential(
                nn.Conv2d(inside, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
                nn.ReLU(), nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width), nn.ReLU(), nn.AvgPool2d(2), nn.Dropout(0.2),
            )
        )  # fmt: skip
        inside = width
    read = nn.GRU(inside, 256, batch_first=True, bidirectional=True)
    score, weight = nn.Linear(512, classes), nn.Linear(512, classes)
    model = nn.ModuleList([norm, blocks, read, score, weight]).cuda()
    wave = torch.randn(batch, samples, device="cuda")
    truth = (torch.rand(batch, classes, device="cuda") < 0.01).float()
    window = torch.hann_window(1024, device="cuda")
    mel = torch.rand(513, bands, device="cuda") * (torch.rand(513, bands, device="cuda") < 0.05)

    def loss():
        with torch.no_grad(), torch.autocast("cuda", enabled=False):
            spectrum = torch.stft(wave, 1024, 320, window=window, return_complex=True)
            power = spectrum.abs().square().transpose(1, 2) @ mel
            x = 10 * power.clamp(min=1e-10).log10()[:, None]
            share = torch.rand(batch, device="cuda").clamp(0.1, 0.9)
        x = norm(x.transpose(1, 3)).transpose(1, 3)
        part = share[:, None, None, None]
        x = part * x + (1 - part) * x.flip(0)
        goal = share[:, None] * truth + (1 - share[:, None]) * truth.flip(0)
        for block in blocks:
            x = block(x)
        h = x.mean(3).transpose(1, 2)
        h = F.max_pool1d(h.mT, 3, 1, 1).mT + F.avg_pool1d(h.mT, 3, 1, 1).mT
        h = read(h)[0]
        vote = torch.softmax(torch.tanh(weight(h)).float(), 1)
        whole = (vote * score(h).float()).sum(1)
        return F.binary_cross_entropy_with_logits(whole, goal)

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True)
    return fit(model, loss, torch.float16, optimizer, scaled=True)
