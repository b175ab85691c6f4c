"""Programs of a second set that no constant was fitted to: text, speech, series."""

import torch
from fresh_images import _fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Block(nn.Module):
    """A block of a decoder around an attention of one's own."""

    def __init__(self, width, attention):
        super().__init__()
        self.attention = attention
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Language(nn.Module):
    def __init__(self, width, depth, attention, vocabulary=32000):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*[Block(width, attention()) for _ in range(depth)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        return self.out(self.norm(self.blocks(self.words(tokens))))


def _language(model, batch, length, vocabulary=32000):
    model = model.cuda().train()
    tokens = torch.randint(0, vocabulary, (batch, length + 1), device="cuda")

    def loss():
        logits = model(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return _fit(model, loss)


class Projected(nn.Module):
    """Queries, keys and values of several heads; what is done with them comes from a subclass."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(self.mixed(q, k, v).transpose(1, 2).flatten(2))


class Windowed(Projected):
    """Each chunk sees itself and the one before, written with products and a mask."""

    window = 256

    def mixed(self, q, k, v):
        w, n = self.window, q.shape[2] // self.window
        q, k, v = (t.unflatten(2, (n, w)) for t in (q, k, v))
        k = torch.cat([F.pad(k, (0, 0, 0, 0, 1, 0))[:, :, :-1], k], 3)
        v = torch.cat([F.pad(v, (0, 0, 0, 0, 1, 0))[:, :, :-1], v], 3)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        i, j = torch.arange(w, device=q.device)[:, None], torch.arange(2 * w, device=q.device)
        seen = (j > i) & (j <= i + w)
        scores = scores.masked_fill(~seen, float("-inf"))
        return (scores.float().softmax(-1).to(v.dtype) @ v).flatten(2, 3)


def windows_of_text():
    """Attention in overlapping chunks, 4 texts of 4,096, bfloat16."""
    return _language(Language(768, 6, lambda: Windowed(768, 12)), 4, 4096)


class RandomFeatures(Projected):
    def __init__(self, width, heads, features=128):
        super().__init__(width, heads)
        self.register_buffer("draws", torch.randn(width // heads, features))

    def positive(self, x):
        x = x.float() * x.shape[-1] ** -0.25
        h = x @ self.draws - x.pow(2).sum(-1, keepdim=True) / 2
        return torch.exp(h - h.amax((-1, -2), keepdim=True)) + 1e-4

    def mixed(self, q, k, v):
        q, k = self.positive(q), self.positive(k)
        whole = k.transpose(-1, -2) @ v.float()
        return ((q @ whole) / (q @ k.sum(2)[..., None])).to(v.dtype)


def random_features():
    """Attention by random features in both directions, 8 texts of 2,048, bfloat16."""
    return _language(Language(768, 6, lambda: RandomFeatures(768, 12)), 8, 2048)


class Relative(Projected):
    """Distances enter the scores by a shifted product, as recurrent transformers have it."""

    def __init__(self, width, heads, length):
        super().__init__(width, heads)
        self.place = nn.Linear(width, width, bias=False)
        self.u, self.v = (nn.Parameter(torch.zeros(heads, 1, width // heads)) for _ in range(2))
        self.register_buffer("waves", torch.randn(length, width))
        self.register_buffer("later", torch.ones(length, length).triu(1).bool())

    def mixed(self, q, k, v):
        r = self.place(self.waves).unflatten(-1, (self.heads, -1)).transpose(0, 1)
        scores = (q + self.u) @ k.transpose(-1, -2)
        far = (q + self.v) @ r.transpose(-1, -2)
        b, h, n, m = far.shape
        far = F.pad(far, (1, 0)).view(b, h, m + 1, n)[:, :, 1:].reshape(b, h, n, m)
        scores = (scores + far).float() / q.shape[-1] ** 0.5
        p = scores.masked_fill(self.later, float("-inf")).softmax(-1)
        return F.dropout(p, 0.1).to(v.dtype) @ v


def relative_distances():
    """A shifted product for distances, 16 texts of 512, bfloat16."""
    return _language(Language(512, 8, lambda: Relative(512, 8, 512)), 16, 512)


def latents_read_pixels():
    """512 latents read 25,088 inputs and think among themselves, bfloat16."""
    width, layer = (
        512,
        {"dim_feedforward": 2048, "dropout": 0.0, "batch_first": True, "norm_first": True},
    )
    latents = nn.Parameter(torch.randn(512, width, device="cuda"))
    lift = nn.Linear(64, width).cuda()
    read = nn.MultiheadAttention(width, 8, batch_first=True).cuda()
    think = nn.Sequential(*[nn.TransformerEncoderLayer(width, 8, **layer) for _ in range(6)]).cuda()
    head = nn.Linear(width, 1000).cuda()
    parameters = [
        latents,
        *lift.parameters(),
        *read.parameters(),
        *think.parameters(),
        *head.parameters(),
    ]
    x, y = torch.randn(8, 25088, 64, device="cuda"), torch.randint(0, 1000, (8,), device="cuda")

    def loss():
        seen = lift(x)
        h = latents.expand(8, -1, -1)
        h = h + read(h, seen, seen, need_weights=False)[0]
        return F.cross_entropy(head(think(h).mean(1)), y)

    return _fit(think, loss, torch.optim.AdamW(parameters, lr=1e-4))


class Compressed(nn.Module):
    """Keys and values from a narrow latent; part of each key turns with its place."""

    def __init__(self, width=1024, heads=16, latent=256, plain=64, turned=32):
        super().__init__()
        self.heads, self.plain, self.turned = heads, plain, turned
        self.q = nn.Linear(width, heads * (plain + turned), bias=False)
        self.low = nn.Linear(width, latent + turned, bias=False)
        self.norm = nn.RMSNorm(latent)
        self.high = nn.Linear(latent, heads * 2 * plain, bias=False)
        self.out = nn.Linear(heads * plain, width, bias=False)

    def turn(self, x):
        half = self.turned // 2
        rate = 10000 ** (-torch.arange(half, device=x.device) / half)
        angle = torch.arange(x.shape[2], device=x.device)[:, None] * rate
        a, b = x.float().chunk(2, -1)
        return torch.cat(
            [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1
        ).to(x.dtype)

    def forward(self, x):
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        low = self.low(x)
        latent, key = low[..., : -self.turned], low[..., None, :, -self.turned :]
        k, v = (
            self.high(self.norm(latent))
            .unflatten(-1, (self.heads, -1))
            .transpose(1, 2)
            .chunk(2, -1)
        )
        q = torch.cat([q[..., : self.plain], self.turn(q[..., self.plain :])], -1)
        k = torch.cat([k, self.turn(key).expand(-1, self.heads, -1, -1)], -1)
        h = F.scaled_dot_product_attention(q, k.to(q.dtype), v.to(q.dtype), is_causal=True)
        return self.out(h.transpose(1, 2).flatten(2))


def compressed_keys():
    """Keys and values from a latent, heads of 96 and 64, 4 texts of 2,048, bfloat16."""
    return _language(Language(1024, 8, Compressed), 4, 2048)


class Sloped(Projected):
    """A bias that falls with the distance, given to the library as a mask."""

    def __init__(self, width, heads, length):
        super().__init__(width, heads)
        i = torch.arange(length)
        slopes = 2.0 ** -torch.arange(1, heads + 1).mul(8 / heads)
        bias = slopes[:, None, None] * (i[None] - i[:, None]).float()
        self.register_buffer("bias", bias.masked_fill(i[None] > i[:, None], float("-inf")))

    def mixed(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias.to(q.dtype))


def sloped_distances():
    """Attention with a bias of distances, 8 texts of 1,024, bfloat16."""
    return _language(Language(1024, 6, lambda: Sloped(1024, 16, 1024)), 8, 1024)


class Causal(Projected):
    def mixed(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def orthogonal_updates():
    """Momenta made orthogonal by five products each before they are taken off; bfloat16."""
    model = Language(1024, 8, lambda: Causal(1024, 16)).cuda()
    wide = [p for p in model.blocks.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if not any(p is w for w in wide)]
    momenta = [torch.zeros_like(p) for p in wide]
    optimizer = torch.optim.AdamW(rest, lr=3e-4)
    tokens = torch.randint(0, 32000, (8, 1025), device="cuda")

    @torch.no_grad()
    def update():
        for p, m in zip(wide, momenta, strict=True):
            m.lerp_(p.grad, 0.05)
            x = torch.lerp(p.grad, m, 0.95).bfloat16()
            tall = x.shape[0] > x.shape[1]
            x = x.T if tall else x
            x = x / (x.norm() + 1e-7)
            for _ in range(5):
                a = x @ x.T
                x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
            p.add_(x.T if tall else x, alpha=-0.02)

    def step():
        model.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        update()
        optimizer.step()

    return step


class Ternary(nn.Linear):
    """Weights of three values and activations of 8 bits, imitated in floats."""

    def forward(self, x):
        x = F.rms_norm(x, x.shape[-1:])
        top = 127 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
        x = x + ((x * top).round().clamp(-128, 127) / top - x).detach()
        w, scale = self.weight, 1 / self.weight.abs().mean().clamp(min=1e-5)
        w = w + ((w * scale).round().clamp(-1, 1) / scale - w).detach()
        return F.linear(x, w, self.bias)


def ternary_weights():
    """A language model with weights rounded as it goes, 8 texts of 1,024, bfloat16."""
    model = Language(768, 6, lambda: Causal(768, 12))
    for block in model.blocks:
        block.up, block.down = Ternary(768, 3072), Ternary(3072, 768)
        block.attention.qkv, block.attention.out = Ternary(768, 2304), Ternary(768, 768)
    return _language(model, 8, 1024)


class Skipped(nn.Module):
    """A block that only the best eighth of the tokens passes through."""

    def __init__(self, width, heads):
        super().__init__()
        self.score, self.body = nn.Linear(width, 1), Block(width, Causal(width, heads))

    def forward(self, x):
        score = self.score(x)[..., 0]
        best, at = score.topk(x.shape[1] // 8, dim=1)
        at, order = at.sort(1)
        at = at[..., None].expand(-1, -1, x.shape[-1])
        chosen = x.gather(1, at)
        gain = best.gather(1, order)[..., None].sigmoid()
        return x.scatter_add(1, at, (gain * self.body(chosen)).to(x.dtype))


def skipping_tokens():
    """Every other block takes an eighth of the tokens, 8 texts of 2,048, bfloat16."""
    model = Language(1024, 4, lambda: Causal(1024, 16))
    parts = [p for block in model.blocks for p in (block, Skipped(1024, 16))]
    model.blocks = nn.Sequential(*parts)
    return _language(model, 8, 2048)


def several_tokens_ahead():
    """Four heads say the next four words each, one head's loss at a time; bfloat16."""
    trunk = Language(1024, 6, lambda: Causal(1024, 16)).cuda()
    heads = nn.ModuleList(Block(1024, Causal(1024, 16)) for _ in range(4)).cuda()
    tokens = torch.randint(0, 32000, (4, 1028), device="cuda")
    optimizer = torch.optim.AdamW([*trunk.parameters(), *heads.parameters()], lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            h = trunk.blocks(trunk.words(tokens[:, :1024]))
            kept = h.detach().requires_grad_(True)
            for n, head in enumerate(heads):
                logits = trunk.out(trunk.norm(head(kept)))
                loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, n + 1 : n + 1025].flatten())
                loss.backward()
        h.backward(kept.grad)
        optimizer.step()

    return step


def _encoder(width, heads, depth):
    layer = {
        "dim_feedforward": 4 * width,
        "dropout": 0.0,
        "activation": "gelu",
        "batch_first": True,
    }
    return nn.Sequential(*[nn.TransformerEncoderLayer(width, heads, **layer) for _ in range(depth)])


def late_interaction():
    """Each word of a question finds its nearest in a passage, 64 pairs, bfloat16."""
    words, encoder, low = nn.Embedding(30000, 768), _encoder(768, 12, 6), nn.Linear(768, 128)
    model = nn.ModuleList([words, encoder, low]).cuda().train()
    asked = torch.randint(0, 30000, (64, 32), device="cuda")
    passage = torch.randint(0, 30000, (64, 192), device="cuda")

    def loss():
        q, d = (F.normalize(low(encoder(words(t))), dim=-1) for t in (asked, passage))
        score = torch.einsum("qid,pjd->qpij", q, d).amax(-1).sum(-1)
        return F.cross_entropy(score.float(), torch.arange(64, device="cuda"))

    return _fit(model, loss)


def reranking():
    """256 pairs of question and passage scored, 160 tokens each, float16, no gradient."""
    words = nn.Embedding(30000, 768).cuda().half()
    encoder = _encoder(768, 12, 12).cuda().half().train()  # train: the layer's own fast path is off
    head = nn.Linear(768, 1).cuda().half()
    tokens = torch.randint(0, 30000, (256, 160), device="cuda")

    @torch.no_grad()
    def step():
        score = head(encoder(words(tokens))[:, 0])
        return score.flatten().sort(descending=True)

    return step


def patched_series():
    """Series cut to patches, each channel by itself, 32 x 21 channels, float32."""
    cut, encoder, head = nn.Linear(16, 128), _encoder(128, 16, 3), nn.Linear(63 * 128, 96)
    model = nn.ModuleList([cut, encoder, head]).cuda().train()
    x, y = torch.randn(32, 21, 512, device="cuda"), torch.randn(32, 21, 96, device="cuda")

    def loss():
        mean, spread = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        h = ((x - mean) / spread).unfold(-1, 16, 8).flatten(0, 1)
        h = head(encoder(cut(h)).flatten(1)).view(32, 21, 96)
        return F.mse_loss(h * spread + mean, y)

    return _fit(model, loss, dtype=None)


class Voice(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.first = nn.Conv1d(80, width, 7, padding=3)
        self.grow, self.mix = nn.ModuleList(), nn.ModuleList()
        for rate in (8, 8, 4):
            self.grow.append(nn.ConvTranspose1d(width, width // 2, 2 * rate, rate, rate // 2))
            width //= 2
            self.mix.append(
                nn.ModuleList(
                    nn.Conv1d(width, width, 7, dilation=d, padding=3 * d) for d in (1, 3, 5)
                )
            )
        self.last = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, x):
        x = self.first(x)
        for grow, mix in zip(self.grow, self.mix, strict=True):
            x = grow(F.leaky_relu(x, 0.1))
            for conv in mix:
                x = x + conv(F.leaky_relu(x, 0.1))
        return torch.tanh(self.last(x))


def vocoder():
    """Waves from spectra against judges of several periods, 16 of 8,192 samples, float32."""
    voice, periods = Voice().cuda(), (2, 3, 5)

    def judge():
        layers, inside = [], 1
        for width in (32, 128, 256):
            layers += [nn.Conv2d(inside, width, (5, 1), (3, 1), (2, 0)), nn.LeakyReLU(0.1)]
            inside = width
        return nn.Sequential(*layers, nn.Conv2d(inside, 1, (3, 1), padding=(1, 0)))

    judges = nn.ModuleList(judge() for _ in periods).cuda()
    opt, opt_judge = (
        torch.optim.AdamW(m.parameters(), lr=2e-4, betas=(0.8, 0.99)) for m in (voice, judges)
    )
    spectra, wave = torch.randn(16, 80, 32, device="cuda"), torch.randn(16, 1, 8192, device="cuda")

    def scores(x):
        for period, part in zip(periods, judges, strict=True):
            padded = F.pad(x, (0, -x.shape[-1] % period), "reflect")
            yield part(padded.view(16, 1, -1, period))

    def step():
        made = voice(spectra)
        opt_judge.zero_grad()
        loss = sum(
            ((1 - a) ** 2).mean() + (b**2).mean()
            for a, b in zip(scores(wave), scores(made.detach()), strict=True)
        )
        loss.backward()
        opt_judge.step()
        opt.zero_grad()
        (sum(((1 - a) ** 2).mean() for a in scores(made)) + 45 * F.l1_loss(made, wave)).backward()
        opt.step()

    return step


def sound_codes():
    """Sound squeezed by strided convolutions and eight books of codes, 16 of 24,000, float32."""
    rates, width, down, up = (2, 4, 5, 8), 32, [nn.Conv1d(1, 32, 7, padding=3)], []
    for rate in rates:
        down += [nn.ELU(), nn.Conv1d(width, 2 * width, 2 * rate, rate, (rate + 1) // 2)]
        width *= 2
    for rate in reversed(rates):
        up += [
            nn.ELU(),
            nn.ConvTranspose1d(width, width // 2, 2 * rate, rate, (rate + 1) // 2, rate % 2),
        ]
        width //= 2
    low, high = nn.Conv1d(512, 128, 3, padding=1), nn.Conv1d(128, 512, 3, padding=1)
    encoder, decoder = (
        nn.Sequential(*down, low),
        nn.Sequential(high, *up, nn.Conv1d(32, 1, 7, padding=3)),
    )
    books = nn.ModuleList(nn.Embedding(1024, 128) for _ in range(8))
    model = nn.ModuleList([encoder, decoder, books]).cuda()
    x = torch.randn(16, 1, 24000, device="cuda")

    def loss():
        z = encoder(x)
        left, total, commit = z.transpose(1, 2), 0.0, 0.0
        for book in books:
            code = book(torch.cdist(left.flatten(0, 1), book.weight).argmin(1)).view_as(left)
            commit = commit + F.mse_loss(left, code.detach()) + F.mse_loss(code, left.detach())
            total, left = total + code, left - code.detach()
        made = decoder(z + (total.transpose(1, 2) - z).detach())
        a, b = (
            torch.stft(t.squeeze(1), 512, 128, window=window, return_complex=True).abs()
            for t in (made[..., :24000], x)
        )
        return F.l1_loss(a, b) + commit

    window = torch.hann_window(512, device="cuda")
    return _fit(model, loss, torch.optim.Adam(model.parameters(), lr=3e-4), None)


def sound_as_patches():
    """Spectra of ten seconds as patches for a transformer, 16 sounds, bfloat16."""
    cut, encoder, head = nn.Conv2d(1, 768, 16, 10), _encoder(768, 12, 8), nn.Linear(768, 527)
    model = nn.ModuleList([cut, encoder, head]).cuda().train()
    wave, y = torch.randn(16, 160000, device="cuda"), torch.rand(16, 527, device="cuda")
    bank, window = torch.rand(128, 257, device="cuda"), torch.hann_window(400, device="cuda")

    def loss():
        with torch.no_grad(), torch.autocast("cuda", enabled=False):
            s = torch.stft(wave, 512, 160, 400, window, return_complex=True).abs().pow(2)
            x = (bank @ s).clamp(min=1e-5).log()[:, None]
        h = encoder(cut(x).flatten(2).transpose(1, 2))
        return F.binary_cross_entropy_with_logits(head(h.mean(1)), y)

    return _fit(model, loss)


def beams():
    """A step of decoding 8 questions with 4 beams: scores, choice, the caches in another order."""
    width, heads, length, vocabulary = 1024, 16, 512, 32000
    model = Language(width, 6, lambda: Causal(width, heads)).cuda().bfloat16()
    keys = [
        torch.randn(2, 32, heads, length, 64, device="cuda", dtype=torch.bfloat16)
        for _ in model.blocks
    ]
    tokens = torch.randint(0, vocabulary, (32,), device="cuda")
    total = torch.zeros(8, 4, device="cuda")

    @torch.no_grad()
    def step():
        h = model.words(tokens)[:, None]
        for block, cache in zip(model.blocks, keys, strict=True):
            a = block.attention
            q, k, v = a.qkv(block.norm1(h)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
            k, v = torch.cat([cache[0, :, :, 1:], k], 2), torch.cat([cache[1, :, :, 1:], v], 2)
            cache.copy_(torch.stack([k, v]))
            h = h + a.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            h = h + block.down(F.gelu(block.up(block.norm2(h))))
        scores = model.out(model.norm(h))[:, 0].float().log_softmax(-1).view(8, 4, vocabulary)
        best, at = (scores + total[..., None]).flatten(1).topk(4)
        rows = (at // vocabulary + 4 * torch.arange(8, device="cuda")[:, None]).flatten()
        for cache in keys:
            cache.copy_(cache.index_select(1, rows))
        tokens.copy_((at % vocabulary).flatten())
        total.copy_(best - best.amax(1, keepdim=True))

    return step
