"""Programs of a fourth set that no constant was fitted to: sound, tables, series, shops, robots."""

import copy

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class SpeechFeatures(nn.Module):
    """Seven strided convolutions of a wave, the first normed a channel at a time."""

    def __init__(self, width):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(1 if n == 0 else width, width, k, s, bias=False)
            for n, (k, s) in enumerate([(10, 5)] + [(3, 2)] * 4 + [(2, 2)] * 2)
        )
        self.norm = nn.GroupNorm(width, width)

    def forward(self, x):
        for n, conv in enumerate(self.convs):
            x = conv(x)
            x = F.gelu(self.norm(x) if n == 0 else x)
        return x.transpose(1, 2)


def speech_pretraining(batch=12, samples=160000, width=768, depth=12, filters=512, negatives=100):
    """Hidden moments of speech told from others by codes of two books; float16, scaled."""
    torch.manual_seed(0)
    features, norm, enter = (
        SpeechFeatures(filters),
        nn.LayerNorm(filters),
        nn.Linear(filters, width),
    )
    place = nn.utils.parametrizations.weight_norm(
        nn.Conv1d(width, width, 128, padding=64, groups=16), dim=2
    )
    layer = {"dim_feedforward": 4 * width, "activation": "gelu", "batch_first": True}
    body = nn.ModuleList(
        nn.TransformerEncoderLayer(width, width // 64, dropout=0.1, **layer) for _ in range(depth)
    )
    codes, book = nn.Linear(filters, 640), nn.Parameter(torch.randn(2, 320, 128))
    leave, target = nn.Linear(width, 256), nn.Linear(256, 256)
    hidden = nn.Parameter(torch.rand(width))
    model = nn.ModuleList([features, norm, enter, place, body, codes, leave, target]).cuda()
    model.append(nn.ParameterList([book, hidden]).cuda())
    wave = torch.randn(batch, 1, samples, device="cuda")

    def loss():
        h = norm(features(wave))
        n, t, _ = h.shape
        start = torch.rand(n, t, device="cuda") < 0.065
        hide = F.max_pool1d(start.float()[:, None], 9, 1, 4)[:, 0] > 0
        scores = codes(h).unflatten(-1, (2, 320)).float()
        drawn = F.gumbel_softmax(scores, tau=2.0, hard=True)
        q = torch.einsum("ntgc,gcd->ntgd", drawn, model[8][0]).flatten(2)
        q = F.normalize(target(q).float(), dim=-1)
        x = torch.where(hide[..., None], model[8][1], enter(h))
        x = x + F.gelu(place(x.transpose(1, 2))[..., :t]).transpose(1, 2)
        for block in body:
            x = block(x)
        x = F.normalize(leave(x).float(), dim=-1)
        other = torch.randint(0, t - 1, (n, t, negatives), device="cuda")
        other = other + (other >= torch.arange(t, device="cuda")[:, None])
        pairs = (x @ q.mT).gather(2, other)
        logits = torch.cat([(x * q).sum(-1, keepdim=True), pairs], 2) / 0.1
        each = F.cross_entropy(logits.flatten(0, 1), torch.zeros_like(other[..., 0]).flatten(),
                               reduction="none")  # fmt: skip
        mean = scores.softmax(-1).mean((0, 1))
        various = (mean * (mean + 1e-7).log()).sum(-1).exp().mean()
        return (each * hide.flatten()).sum() / hide.sum() + 0.1 * various

    return fit(model, loss, torch.float16, scaled=True)


class Separator(nn.Module):
    """Strided convolutions of the wave down and up again, a recurrent middle."""

    def __init__(self, width, depth, sources):
        super().__init__()
        self.down, self.up, inside, w = nn.ModuleList(), nn.ModuleList(), 2, width
        for n in range(depth):
            self.down.append(nn.Sequential(
                nn.Conv1d(inside, w, 8, 4, 2), nn.ReLU(), nn.Conv1d(w, 2 * w, 1), nn.GLU(1)
            ))  # fmt: skip
            out = 2 * sources if n == 0 else inside
            last = [] if n == 0 else [nn.ReLU()]
            self.up.insert(0, nn.Sequential(
                nn.Conv1d(w, 2 * w, 3, padding=1), nn.GLU(1),
                nn.ConvTranspose1d(w, out, 8, 4, 2), *last,
            ))  # fmt: skip
            inside, w = w, 2 * w
        self.lstm = nn.LSTM(inside, inside, 2, bidirectional=True)
        self.join = nn.Linear(2 * inside, inside)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
        x = self.join(self.lstm(x.permute(2, 0, 1))[0]).permute(1, 2, 0)
        for block, skip in zip(self.up, reversed(kept), strict=True):
            x = block(x + skip)
        return x


def music_separation(batch=8, samples=4**5 * 64, width=48, depth=5, sources=4):
    """Four instruments told apart in stereo waves, spectra of three sizes compared; float32."""
    torch.manual_seed(0)
    model = Separator(width, depth, sources).cuda()
    parts = torch.randn(batch, sources, 2, samples, device="cuda")
    windows = [torch.hann_window(n, device="cuda") for n in (512, 1024, 2048)]

    def spectrum(x, window):
        n = len(window)
        s = torch.stft(x.flatten(0, 2), n, n // 4, window=window, return_complex=True)
        return s.abs().clamp(min=1e-5)

    def loss():
        found = model(parts.sum(1)).unflatten(1, (sources, 2))
        total = F.l1_loss(found, parts)
        for window in windows:
            a, b = spectrum(found, window), spectrum(parts, window)
            total = total + (a - b).norm() / b.norm() + F.l1_loss(a.log(), b.log())
        return total

    return fit(model, loss, None)


class BothWays(nn.Module):
    """A table's cells attend along their row, then each column's to the known rows."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.outs = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def attend(self, n, x, known):
        q, k, v = self.qkv[n](x).unflatten(-1, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        y = F.scaled_dot_product_attention(q, k[..., :known, :], v[..., :known, :])
        return self.outs[n](y.transpose(2, 3).flatten(3))

    def forward(self, x, known):
        x = self.norms[0](x + self.attend(0, x, x.shape[2]))
        x = x.transpose(1, 2)
        x = self.norms[1](x + self.attend(1, x, known))
        x = x.transpose(1, 2)
        return self.norms[2](x + self.mlp(x))


def tables_in_context_compiled(
    batch=4, rows=768, columns=32, width=192, depth=8, heads=6, classes=10
):
    """Labels of a table's last rows read from its first ones; compiled, bfloat16."""
    torch.manual_seed(0)
    known = rows * 3 // 4

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.label = nn.Linear(2, width), nn.Embedding(classes + 1, width)
            self.column = nn.Parameter(torch.randn(columns, width) * 0.02)
            self.blocks = nn.ModuleList(BothWays(width, heads) for _ in range(depth))
            self.out = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, classes)
            )

        def forward(self, x, y):
            lost = x.isnan()
            seen = x[:, :known].nan_to_num(0.0)
            mean, spread = seen.mean(1, keepdim=True), seen.std(1, keepdim=True) + 1e-6
            x = ((x - mean) / spread).clamp(-100, 100).nan_to_num(0.0)
            h = self.cell(torch.stack([x, lost.float()], -1)) + self.column
            y = torch.cat([y[:, :known], torch.full_like(y[:, known:], classes)], 1)
            h = torch.cat([h, self.label(y)[:, :, None]], 2)
            for block in self.blocks:
                h = block(h, known)
            return self.out(h[:, known:, -1])

    model = Model().cuda()
    run = torch.compile(model)
    x = torch.randn(batch, rows, columns, device="cuda")
    x[:, ::17, ::5] = float("nan")
    y = torch.randint(0, classes, (batch, rows), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss():
        return F.cross_entropy(run(x, y).flatten(0, 1).float(), y[:, known:].flatten())

    return fit(model, loss, optimizer=optimizer, clip=1.0)


class Gate(nn.Module):
    """A small network beside its input, let through by a gate, normed."""

    def __init__(self, inside, width, outside, context=0):
        super().__init__()
        self.enter, self.hidden = nn.Linear(inside, width), nn.Linear(width, width)
        self.context = nn.Linear(context, width, bias=False) if context else None
        self.gate, self.norm = nn.Linear(width, 2 * outside), nn.LayerNorm(outside)
        self.skip = nn.Linear(inside, outside) if inside != outside else nn.Identity()

    def forward(self, x, context=None):
        h = self.enter(x)
        if context is not None:
            h = h + self.context(context)
        h = F.dropout(self.hidden(F.elu(h)), 0.1, self.training)
        return self.norm(self.skip(x) + F.glu(self.gate(h), -1))


class Choice(nn.Module):
    """Each variable by a network of its own, weighed by a softmax over all."""

    def __init__(self, count, width, context=0):
        super().__init__()
        self.each = nn.ModuleList(Gate(width, width, width) for _ in range(count))
        self.weigh = Gate(count * width, width, count, context)

    def forward(self, x, context=None):
        share = self.weigh(x.flatten(-2), context).softmax(-1)
        made = torch.stack([f(x[..., n, :]) for n, f in enumerate(self.each)], -1)
        return (made * share[..., None, :]).sum(-1)


def temporal_fusion(batch=512, past=168, ahead=24, width=128, seen=12, planned=6, still=4):
    """Demand of a day ahead in quantiles: variables chosen, LSTMs, one attention; float32."""
    torch.manual_seed(0)
    scale = nn.ParameterList([torch.randn(2, n, width) * 0.1 for n in (seen, planned, still)])
    of_still = Choice(still, width)
    states = nn.ModuleList(Gate(width, width, width) for _ in range(4))
    of_past, of_plan = Choice(seen + planned, width, width), Choice(planned, width, width)
    before, after = (nn.LSTM(width, width, batch_first=True) for _ in range(2))
    gates = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(2))
    norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
    enrich, last = Gate(width, width, width, width), Gate(width, width, width)
    q, k, v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width // 4)
    back, out = nn.Linear(width // 4, width), nn.Linear(width, 3)
    model = nn.ModuleList(
        [scale, of_still, states, of_past, of_plan, before, after, gates, norms, enrich, last,
         q, k, v, back, out]
    ).cuda().train()  # fmt: skip
    whole = past + ahead
    history = torch.randn(batch, past, seen, device="cuda")
    plan, fixed = (
        torch.randn(batch, whole, planned, device="cuda"),
        torch.randn(batch, still, device="cuda"),
    )
    truth = torch.randn(batch, ahead, 1, device="cuda")
    mask = torch.ones(whole, whole, dtype=torch.bool, device="cuda").triu(1)
    levels = torch.tensor([0.1, 0.5, 0.9], device="cuda")

    def loss():
        history_, plan_, fixed_ = (
            x[..., None] * s[0] + s[1] for x, s in zip((history, plan, fixed), scale, strict=True)
        )
        static = of_still(fixed_)
        choose, h0, c0, context = (f(static) for f in states)
        x = of_past(torch.cat([history_, plan_[:, :past]], 2), choose[:, None])
        z = of_plan(plan_[:, past:], choose[:, None])
        a, state = before(x, (h0[None], c0[None]))
        b, _ = after(z, state)
        h = norms[0](torch.cat([x, z], 1) + F.glu(gates[0](torch.cat([a, b], 1)), -1))
        h = enrich(h, context[:, None])
        ask, key = (f(h).unflatten(-1, (4, -1)).transpose(1, 2) for f in (q, k))
        scores = (ask @ key.mT) * ask.shape[-1] ** -0.5
        weights = scores.masked_fill(mask, -1e9).softmax(-1).mean(1)
        y = last(norms[1](h + F.glu(gates[1](back(weights @ v(h))), -1)))
        apart = truth - out(y[:, past:])
        return torch.maximum(levels * apart, (levels - 1) * apart).sum(-1).mean()

    return fit(model, loss, None)


def multi_task_ranking(
    batch=16384, tables=20, things=400_000, width=64, history=50, experts=8, tasks=3
):
    """Clicks, carts and orders by shared experts; tables with sparse gradients; TF32."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    with torch.device("cuda"):
        words = nn.ModuleList(nn.Embedding(things, width, sparse=True) for _ in range(tables))
        bought = nn.EmbeddingBag(things, width, mode="sum", sparse=True)
    inside = (tables + 1) * width + 16

    def many(i, o):
        return nn.Parameter(torch.randn(experts, i, o) * i**-0.5)

    weights = nn.ParameterList([many(inside, 512), many(512, 256)])
    gates = nn.ModuleList(nn.Linear(inside, experts) for _ in range(tasks))
    towers = nn.ModuleList(
        nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1)) for _ in range(tasks)
    )
    dense = nn.ModuleList([weights, gates, towers]).cuda()
    x = torch.randint(0, things, (tables, batch), device="cuda")
    past = torch.randint(0, things, (batch, history), device="cuda")
    numbers, y = (
        torch.randn(batch, 16, device="cuda"),
        torch.rand(batch, tasks, device="cuda").round(),
    )
    rare = torch.optim.SparseAdam([*words.parameters(), *bought.parameters()], lr=1e-3)
    often = torch.optim.Adam(dense.parameters(), lr=1e-3)

    def step():
        h = torch.cat([t(i) for t, i in zip(words, x, strict=True)] + [bought(past), numbers], 1)
        e = h.expand(experts, -1, -1)
        for w in weights:
            e = F.relu(torch.bmm(e, w))
        logits = []
        for gate, tower in zip(gates, towers, strict=True):
            share = gate(h).softmax(-1)
            logits.append(tower(torch.einsum("ebd,be->bd", e, share)))
        bought_too = torch.cat(logits, 1)
        loss = F.binary_cross_entropy_with_logits(bought_too, y)
        rare.zero_grad(set_to_none=True)
        often.zero_grad(set_to_none=True)
        loss.backward()
        rare.step()
        often.step()
        return loss.detach()

    return step


class Moved(nn.Module):
    """Two convolutions along the moves, shifted and scaled by what is seen."""

    def __init__(self, inside, outside, seen):
        super().__init__()
        self.one, self.two = (
            nn.Sequential(nn.Conv1d(i, outside, 5, padding=2), nn.GroupNorm(8, outside), nn.Mish())
            for i in (inside, outside)
        )
        self.film = nn.Sequential(nn.Mish(), nn.Linear(seen, 2 * outside))
        self.skip = nn.Conv1d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x, seen):
        scale, shift = self.film(seen)[..., None].chunk(2, 1)
        return self.two(self.one(x) * scale + shift) + self.skip(x)


def _eyes(width=64):
    """A residual network with group norms that ends in a vector."""

    class Basic(nn.Module):
        def __init__(self, i, o, s):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(i, o, 3, s, 1, bias=False), nn.GroupNorm(o // 16, o), nn.ReLU(),
                nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.GroupNorm(o // 16, o),
            )  # fmt: skip
            self.skip = nn.Conv2d(i, o, 1, s, bias=False) if s > 1 else nn.Identity()

        def forward(self, x):
            return F.relu(self.body(x) + self.skip(x))

    layers = [
        nn.Conv2d(3, width, 7, 2, 3),
        nn.GroupNorm(4, width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    for n in range(4):
        i, o = width * 2 ** max(0, n - 1), width * 2**n
        layers += [Basic(i, o, 1 if n == 0 else 2), Basic(o, o, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def robot_diffusion(batch=128, cameras=2, looks=2, side=128, widths=(256, 512, 1024), moves=16):
    """A robot's next moves denoised along time by what two cameras see; bfloat16."""
    torch.manual_seed(0)
    eyes = nn.ModuleList(_eyes() for _ in range(cameras))
    moment = nn.Sequential(nn.Linear(128, 512), nn.Mish(), nn.Linear(512, 128))
    seen = looks * (cameras * 512 + 9) + 128
    down, up, inside = nn.ModuleList(), nn.ModuleList(), 10
    for n, w in enumerate(widths):
        shrink = nn.Conv1d(w, w, 3, 2, 1) if n < len(widths) - 1 else nn.Identity()
        down.append(nn.ModuleList([Moved(inside, w, seen), Moved(w, w, seen), shrink]))
        inside = w
    for w in reversed(widths[:-1]):
        up.append(nn.ModuleList([nn.ConvTranspose1d(inside, w, 4, 2, 1), Moved(2 * w, w, seen),
                                 Moved(w, w, seen)]))  # fmt: skip
        inside = w
    leave = nn.Conv1d(inside, 10, 1)
    model = nn.ModuleList([eyes, moment, down, up, leave]).cuda()
    slow = copy.deepcopy(model).requires_grad_(False)
    pictures = torch.rand(cameras, batch * looks, 3, side, side, device="cuda")
    body, moved = (
        torch.randn(batch, looks, 9, device="cuda"),
        torch.randn(batch, 10, moves, device="cuda"),
    )
    rates = 1e4 ** (-torch.arange(64, device="cuda") / 63)
    kept = torch.cos(torch.linspace(0, 1.55, 100, device="cuda")).square()

    def loss():
        views = [f(p).unflatten(0, (batch, looks)) for f, p in zip(eyes, pictures, strict=True)]
        t = torch.randint(0, 100, (batch,), device="cuda")
        angle = t[:, None] * rates
        c = torch.cat([torch.cat([*views, body], -1).flatten(1),
                       moment(torch.cat([angle.sin(), angle.cos()], -1))], -1)  # fmt: skip
        noise, share = torch.randn_like(moved), kept[t][:, None, None]
        x, left = share.sqrt() * moved + (1 - share).sqrt() * noise, []
        for one, two, shrink in down:
            x = two(one(x, c), c)
            left.append(x)
            x = shrink(x)
        left.pop()
        for grow, one, two in up:
            x = grow(x)
            x = two(one(torch.cat([x, left.pop()], 1), c), c)
        return F.mse_loss(leave(x).float(), noise)

    def follow():
        torch._foreach_lerp_(list(slow.parameters()), list(model.parameters()), 0.01)

    return fit(model, loss, after=follow)
