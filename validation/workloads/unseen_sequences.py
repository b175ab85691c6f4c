"""Programs of kinds that no constant was fitted to: text, speech, long sequences."""

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class StateSpace(nn.Module):
    """A selective state-space block whose scan runs chunk by chunk in plain operators."""

    def __init__(self, width=512, states=16, chunk=64):
        super().__init__()
        self.chunk, self.states, inner = chunk, states, width * 2
        self.norm, self.inside = nn.LayerNorm(width), nn.Linear(width, inner * 2, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.select = nn.Linear(inner, 32 + 2 * states, bias=False)
        self.delta, self.outside = nn.Linear(32, inner), nn.Linear(inner, width, bias=False)
        rates = torch.arange(1, states + 1).float().log()
        self.rates = nn.Parameter(rates.expand(inner, states).clone())

    def forward(self, x):
        h, gate = self.inside(self.norm(x)).chunk(2, -1)
        h = F.silu(self.conv(h.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        d, b, c = self.select(h).split([32, self.states, self.states], -1)
        d = F.softplus(self.delta(d)).float()
        state, out = None, []
        for at in range(0, x.shape[1], self.chunk):
            s = slice(at, at + self.chunk)
            fade = torch.cumsum(-d[:, s, :, None] * self.rates.exp(), 1)
            new = (d[:, s] * h[:, s])[..., None] * b[:, s, None, :].float()
            scanned = torch.cumsum(new * torch.exp(-fade).clamp(max=1e6), 1)
            if state is not None:
                scanned = scanned + state[:, None]
            scanned = scanned * fade.exp()
            state = scanned[:, -1]
            out.append((scanned * c[:, s, None, :].float()).sum(-1))
        return x + self.outside((torch.cat(out, 1) * F.silu(gate)).to(x.dtype))


class Language(nn.Module):
    def __init__(self, blocks, width, words=16000):
        super().__init__()
        self.words, self.blocks = nn.Embedding(words, width), nn.Sequential(*blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.words(tokens))))


def _language(model, batch, seq, words=16000, amp=True, lr=3e-4):
    model = model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)
    tokens = torch.randint(0, words, (batch, seq + 1), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()

    return step


def state_space():
    """Four state-space blocks of width 512, 4 sequences of 512."""
    return _language(Language([StateSpace() for _ in range(4)], 512), 4, 512)


class LongConvolution(nn.Module):
    """A convolution as long as the sequence, by Fourier transforms."""

    def __init__(self, width, seq):
        super().__init__()
        self.norm, self.inside = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.filter = nn.Parameter(torch.randn(width, seq) / seq)
        self.short = nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width)
        self.outside, self.seq = nn.Linear(width, width), seq

    def forward(self, x):
        u = self.inside(self.norm(x)).transpose(1, 2)
        a, b, v = self.short(u)[..., : self.seq].chunk(3, 1)
        v, n = (v * a).float(), 2 * self.seq
        y = torch.fft.irfft(torch.fft.rfft(v, n=n) * torch.fft.rfft(self.filter, n=n), n=n)
        return x + self.outside((y[..., : self.seq] * b).transpose(1, 2).to(x.dtype))


def long_convolution():
    """Six long convolutions of width 384 over 4,096 places, float32."""
    blocks = [LongConvolution(384, 4096) for _ in range(6)]
    return _language(Language(blocks, 384), 4, 4096, amp=False)


class Retention(nn.Module):
    """Linear attention by chunks: a state handed on, a masked product inside."""

    def __init__(self, width=768, heads=12, chunk=128):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        n, s, w = x.shape
        qkv = self.qkv(self.norm1(x)).view(n, s, 3, self.heads, w // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        mask = torch.ones(self.chunk, self.chunk, device=x.device).tril()
        state, out = 0, []
        for at in range(0, s, self.chunk):
            a, b, c = (t[:, :, at : at + self.chunk] for t in (q, k, v))
            inner = (a @ b.transpose(-1, -2) * mask) @ c
            out.append(inner + a @ state if at else inner)
            state = state + b.transpose(-1, -2) @ c
        x = x + self.out(torch.cat(out, 2).transpose(1, 2).reshape(n, s, w))
        return x + self.down(F.relu(self.up(self.norm2(x))) ** 2)


def retention():
    """Six blocks of linear attention of width 768, 8 sequences of 1,024."""
    return _language(Language([Retention() for _ in range(6)], 768), 8, 1024)


class Conformer(nn.Module):
    def __init__(self, width=256, heads=4, kernel=31):
        super().__init__()

        def half():
            return nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Dropout(0.1),
                nn.Linear(4 * width, width), nn.Dropout(0.1),
            )  # fmt: skip

        self.one, self.two = half(), half()
        self.norm, self.heads = nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(heads, 1023))
        self.before, self.wide = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
        self.deep = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch, self.narrow = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)
        self.last = nn.LayerNorm(width)

    def forward(self, x):
        x = x + 0.5 * self.one(x)
        n, s, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        place = torch.arange(s, device=x.device)
        scores = q @ k.transpose(-1, -2) / math.sqrt(w // self.heads)
        scores = scores + self.bias[:, place[:, None] - place[None] + 511]
        h = scores.softmax(-1).to(v.dtype) @ v
        x = x + self.out(h.transpose(1, 2).reshape(n, s, w))
        h = F.glu(self.wide(self.before(x).transpose(1, 2)), 1)
        x = x + self.narrow(F.silu(self.batch(self.deep(h)))).transpose(1, 2)
        return self.last(x + 0.5 * self.two(x))


def conformer():
    """Eight blocks on 16 utterances of 1,600 frames, CTC loss, bfloat16 autocast."""
    front = nn.Sequential(nn.Conv2d(1, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1))
    join, blocks = nn.Linear(64 * 20, 256), nn.Sequential(*[Conformer() for _ in range(8)])
    head = nn.Linear(256, 129)
    model = nn.ModuleList([front, join, blocks, head]).cuda().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    x = torch.randn(16, 1, 1600, 80, device="cuda")
    y = torch.randint(1, 129, (16, 60), device="cuda")
    frames, letters = torch.full((16,), 400), torch.full((16,), 60)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            h = front(x).transpose(1, 2).flatten(2)
            said = head(blocks(join(h))).float().log_softmax(-1)
        F.ctc_loss(said.transpose(0, 1), y, frames, letters).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    return step


def transducer():
    """An LSTM over speech, one over text, and all pairs of both through a joint layer."""
    speech, text = nn.LSTM(80, 640, 3, batch_first=True), nn.LSTM(256, 640, 1, batch_first=True)
    words, joint, head = nn.Embedding(256, 256), nn.Linear(640, 512), nn.Linear(512, 256)
    model = nn.ModuleList([speech, text, words, joint, head]).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(8, 200, 80, device="cuda")
    y = torch.randint(0, 256, (8, 40), device="cuda")

    def step():
        optimizer.zero_grad()
        a, b = joint(speech(x)[0]), joint(text(words(y))[0])
        said = head(torch.tanh(a[:, :, None] + b[:, None])).log_softmax(-1)
        # The likelihood of the best path stands for the sum over all.
        emit = said[:, :, :-1].gather(-1, y[:, None, 1:, None].expand(8, 200, 39, 1))
        loss = -(emit.logsumexp(1).sum() + said[..., 0].amax(2).sum()) / 8
        loss.backward()
        optimizer.step()

    return step


class Experts(nn.Module):
    """Two of eight experts a token, gathered and added back expert by expert."""

    def __init__(self, width, inner, count=8):
        super().__init__()
        self.norm, self.route = nn.LayerNorm(width), nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))
            for _ in range(count)
        )

    def forward(self, x):
        h = self.norm(x).flatten(0, 1)
        weight, which = self.route(h).float().softmax(-1).topk(2, -1)
        # Equal loads: each expert has the same number of tokens, as with a capacity.
        order = which.flatten().argsort().view(len(self.experts), -1)
        out = torch.zeros_like(h)
        for expert, places in zip(self.experts, order, strict=True):
            token = places // 2
            made = expert(h[token]) * weight.flatten()[places, None].to(h.dtype)
            out.index_add_(0, token, made.to(out.dtype))
        return x + out.view_as(x)


def sparse_experts():
    """Four layers of eight experts with a capacity, 8 sequences of 512, bfloat16 weights."""
    model = Language([Experts(768, 2048) for _ in range(4)], 768).bfloat16()
    return _language(model, 8, 512, amp=False)


class Adapted(nn.Module):
    """A frozen linear layer with a trained product of rank 16 beside it."""

    def __init__(self, inside, outside, rank=16):
        super().__init__()
        self.base = nn.Linear(inside, outside, bias=False).requires_grad_(False)
        self.a, self.b = nn.Linear(inside, rank, bias=False), nn.Linear(rank, outside, bias=False)
        self.drop = nn.Dropout(0.05)

    def forward(self, x):
        return self.base(x) + self.b(self.a(self.drop(x))) * 2.0


class Block(nn.Module):
    """A decoder's block with rotary places; `linear` makes its layers."""

    def __init__(self, width, heads, linear):
        super().__init__()
        self.heads, inner = heads, width * 8 // 3 // 64 * 64
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (linear(width, width) for _ in range(4))
        self.gate, self.up, self.down = (
            linear(width, inner),
            linear(width, inner),
            linear(inner, width),
        )

    def turn(self, x, sin, cos):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, x, sin, cos, cache=None):
        n, s, w = x.shape
        h = self.norm1(x)
        q, k, v = (
            f(h).view(n, s, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        q, k = self.turn(q, sin, cos), self.turn(k, sin, cos)
        if cache is not None:
            place, keys, values = cache
            keys[:, :, place : place + 1], values[:, :, place : place + 1] = k, v
            k, v = keys[:, :, : place + 1], values[:, :, : place + 1]
        h = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.o(h.transpose(1, 2).reshape(n, s, w))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def _angles(seq, width):
    rate = 10000 ** (-torch.arange(0, width, 2, device="cuda").float() / width)
    angle = torch.arange(seq, device="cuda").float()[:, None] * rate
    angle = torch.cat([angle, angle], -1)
    return angle.sin().bfloat16(), angle.cos().bfloat16()


def adapters():
    """Eight frozen blocks of width 2,048 with adapters of rank 16, bfloat16, 4 x 1,024."""
    blocks = nn.ModuleList(Block(2048, 16, Adapted) for _ in range(8))
    model = nn.ModuleList([nn.Embedding(32000, 2048), blocks, nn.Linear(2048, 32000, bias=False)])
    for part in (model[0], model[2]):
        part.requires_grad_(False)
    model = model.cuda().bfloat16().train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    tokens = torch.randint(0, 32000, (4, 1025), device="cuda")
    sin, cos = _angles(1024, 128)

    def step():
        x = model[0](tokens[:, :-1])
        for block in blocks:
            x = block(x, sin, cos)
        loss = F.cross_entropy(model[2](x).float().flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def decode_eager():
    """One token of one sequence through sixteen plain blocks with a cache in place, bfloat16."""

    def linear(a, b):
        return nn.Linear(a, b, bias=False)

    blocks = nn.ModuleList(Block(1024, 16, linear) for _ in range(16))
    model = nn.ModuleList([nn.Embedding(32000, 1024), blocks, linear(1024, 32000)])
    model = model.cuda().bfloat16().eval()
    keys, values = (torch.zeros(16, 1, 16, 1024, 64, device="cuda").bfloat16() for _ in range(2))
    token = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    sin, cos = _angles(1024, 64)

    @torch.no_grad()
    def step():
        x = model[0](token)
        for n, block in enumerate(blocks):
            x = block(x, sin[700], cos[700], (700, keys[n], values[n]))
        token.copy_(model[2](x[:, -1]).argmax(-1, keepdim=True))

    return step


def character_cells():
    """Characters one after the other through LSTM cells: 64 steps of a Python loop."""
    words, cell, head = nn.Embedding(96, 128), nn.LSTMCell(128, 256), nn.Linear(256, 96)
    model = nn.ModuleList([words, cell, head]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    tokens = torch.randint(0, 96, (32, 65), device="cuda")

    def step():
        h = torch.zeros(32, 256, device="cuda")
        c, loss = torch.zeros_like(h), 0
        for t in range(64):
            h, c = cell(words(tokens[:, t]), (h, c))
            loss = loss + F.cross_entropy(head(h), tokens[:, t + 1])
        optimizer.zero_grad()
        (loss / 64).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def translation():
    """torch.nn.Transformer, four layers each way, float32 with dropout, 32 x 96."""
    words, places = nn.Embedding(12000, 512), nn.Embedding(128, 512)
    body = nn.Transformer(512, 8, 4, 4, 2048, 0.1, batch_first=True)
    model = nn.ModuleList([words, places, body, nn.Linear(512, 12000)]).cuda().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    source, target = (torch.randint(0, 12000, (32, 97), device="cuda") for _ in range(2))
    mask = nn.Transformer.generate_square_subsequent_mask(96, device="cuda")

    def step():
        at = places(torch.arange(96, device="cuda"))
        h = body(words(source[:, 1:]) + at, words(target[:, :-1]) + at, tgt_mask=mask)
        logits = model[3](h)
        loss = F.cross_entropy(logits.reshape(-1, 12000), target[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step
