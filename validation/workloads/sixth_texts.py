"""Programs of a sixth set that no constant was fitted to: language, trained."""

import torch
from fourth_texts import RMS, Swiglu, rotated
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


def doubled(keep, x):
    """h(t) = keep(t) h(t - 1) + x(t) along dim 1, by steps of one, two, four, ..."""
    reach = 1
    while reach < x.shape[1]:
        x = torch.cat([x[:, :reach], x[:, reach:] + keep[:, reach:] * x[:, :-reach]], 1)
        keep = torch.cat([keep[:, :reach], keep[:, reach:] * keep[:, :-reach]], 1)
        reach *= 2
    return x


class Recurrent(nn.Module):
    """A gated linear recurrence behind a short convolution, beside a rounded rectifier."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.enter, self.out = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.near = nn.Conv1d(width, width, 4, groups=width, padding=3)
        deep = width // heads
        self.gates = nn.Parameter(torch.randn(2, heads, deep, deep) * deep**-0.5)
        self.offsets = nn.Parameter(torch.zeros(2, heads, 1, deep))
        self.stay = nn.Parameter(torch.linspace(4.3, 9.0, width))

    def forward(self, x):
        beside, h = self.enter(x).chunk(2, -1)
        h = self.near(h.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        parts = h.unflatten(-1, (self.heads, -1))
        a, b = (
            torch.einsum("nthd,hde->nthe", parts, w).add(o[:, 0]).flatten(2).float().sigmoid()
            for w, o in zip(self.gates, self.offsets, strict=True)
        )
        log = -8.0 * a * F.softplus(-self.stay)
        grown = (1 - torch.exp(2 * log)).clamp(min=1e-6).sqrt()
        h = doubled(torch.exp(log), grown * b * h.float())
        return self.out(h.to(beside.dtype) * F.gelu(beside, approximate="tanh"))


class NearBy(nn.Module):
    """Many queries, one key and value, a window of places."""

    def __init__(self, width, heads, window):
        super().__init__()
        self.heads, self.window, self.deep = heads, window, width // heads
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * self.deep)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, t, _ = x.shape
        q = rotated(self.q(x).view(n, t, self.heads, -1).transpose(1, 2))
        k, v = self.kv(x)[:, None].chunk(2, -1)
        at = torch.arange(t, device=x.device)
        away = at[:, None] - at
        seen = (away >= 0) & (away < self.window)
        k, v = rotated(k).expand_as(q), v.expand_as(q)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.out(y.transpose(1, 2).flatten(2))


def doubling_recurrence(
    batch=4, length=2048, width=1024, depth=6, heads=8, window=512, words=32000
):
    """A language model of linear recurrences by doubling, each third layer windowed; bfloat16."""
    torch.manual_seed(0)
    table, norms, mixers, feeds = nn.Embedding(words, width), [], [], []
    for n in range(depth):
        mixers.append(NearBy(width, heads, window) if n % 3 == 2 else Recurrent(width, heads))
        feeds.append(Swiglu(width, 3 * width))
        norms += [RMS(width), RMS(width)]
    model = nn.ModuleList([table, *norms, *mixers, *feeds, RMS(width)]).cuda()
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")

    def loss():
        x = table(tokens[:, :-1]) * width**0.5
        for n, (mix, feed) in enumerate(zip(mixers, feeds, strict=True)):
            x = x + mix(norms[2 * n](x))
            x = x + feed(norms[2 * n + 1](x))
        logits = F.linear(model[-1](x), table.weight).float()
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return fit(model, loss, clip=1.0)


class Difference(nn.Module):
    """Two maps of attention, one taken off the other by a learnt share."""

    def __init__(self, width, heads, place):
        super().__init__()
        self.heads, self.deep = heads, width // heads // 2
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.shares = nn.Parameter(0.1 * torch.randn(4, self.deep))
        self.first = 0.8 - 0.6 * 2.718 ** (-0.3 * place)
        self.norm = RMS(2 * self.deep)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = (rotated(z.view(n, t, 2 * self.heads, -1).transpose(1, 2)) for z in (q, k))
        v = v.view(n, t, self.heads, -1).transpose(1, 2)
        weight = (q * self.deep**-0.5) @ k.mT
        later = torch.full((t, t), -torch.inf, device=x.device, dtype=weight.dtype).triu(1)
        weight = (weight + later).softmax(-1, dtype=torch.float32).to(v.dtype)
        a, b, c, d = self.shares
        share = (a * b).sum().exp() - (c * d).sum().exp() + self.first
        one, two = weight.unflatten(1, (self.heads, 2)).unbind(2)
        h = self.norm((one - share * two).to(v.dtype) @ v) * (1 - self.first)
        return self.out(h.transpose(1, 2).flatten(2))


class Lamb(torch.optim.Optimizer):
    """Adam's direction, as long as the layer's own weights."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
        kept = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, kept)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["mean"], state["square"] = torch.zeros_like(p), torch.zeros_like(p)
                state["mean"].mul_(one).add_(p.grad, alpha=1 - one)
                state["square"].mul_(two).addcmul_(p.grad, p.grad, value=1 - two)
                way = state["mean"] / state["square"].sqrt().add(group["eps"])
                way.add_(p, alpha=group["weight_decay"])
                long, far = p.norm(), way.norm()
                trust = torch.where((long > 0) & (far > 0), long / far, 1.0)
                p.sub_(way * trust * group["lr"])


def differences_of_attention(batch=8, length=1024, width=1024, depth=6, heads=8, words=50304):
    """A language model whose attention is a difference of two, steps by LAMB; bfloat16."""
    torch.manual_seed(0)
    table, out = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
    mixers = nn.ModuleList(Difference(width, heads, n) for n in range(depth))
    feeds = nn.ModuleList(Swiglu(width, 8 * width // 3) for _ in range(depth))
    norms = nn.ModuleList(RMS(width) for _ in range(2 * depth + 1))
    model = nn.ModuleList([table, out, mixers, feeds, norms]).cuda()
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")

    def loss():
        x = table(tokens[:, :-1])
        for n, (mix, feed) in enumerate(zip(mixers, feeds, strict=True)):
            x = x + mix(norms[2 * n](x))
            x = x + feed(norms[2 * n + 1](x))
        return F.cross_entropy(out(norms[-1](x)).flatten(0, 1), tokens[:, 1:].flatten())

    return fit(model, loss, optimizer=Lamb(model.parameters()))


class Packed(nn.Module):
    """Normed queries and keys, each document by itself, a squared rectifier."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.deep = heads, width // heads
        self.qkv, self.out = (nn.Linear(width, w * width, bias=False) for w in (3, 1))
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x, seen):
        n, t, width = x.shape

        def unit(h):
            return F.rms_norm(h, (h.shape[-1],))

        q, k, v = self.qkv(unit(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotated(unit(q)), rotated(unit(k))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.relu(self.up(unit(x))).square())


def packed_documents_compiled(
    batch=8, length=2048, width=768, depth=8, heads=6, words=50304, ends=0.002
):
    """Documents packed into rows, none seeing another, logits kept small; compiled, bfloat16."""
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(words, width)
            self.blocks = nn.ModuleList(Packed(width, heads) for _ in range(depth))
            self.out = nn.Linear(width, words, bias=False)

        def forward(self, tokens, document):
            at = torch.arange(tokens.shape[1], device=tokens.device)
            seen = (document[:, :, None] == document[:, None]) & (at[:, None] >= at)
            x = first = F.rms_norm(self.table(tokens), (width,))
            for n, block in enumerate(self.blocks):
                x = block(x + 0.1 * first if n else x, seen[:, None])
            return self.out(F.rms_norm(x, (width,)))

    model = Model().cuda()
    run = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")
    document = (torch.rand(batch, length, device="cuda") < ends).cumsum(1)

    def loss():
        logits = run(tokens[:, :-1], document).float()
        total = torch.logsumexp(logits, -1)
        said = logits.gather(-1, tokens[:, 1:, None])[..., 0]
        return (total - said).mean() + 1e-4 * total.square().mean()

    return fit(model, loss, optimizer=optimizer, clip=1.0)


def sparse_dictionary(batch=16384, width=2048, latents=32768, chosen=64, helpers=256):
    """A model's inner states as 64 of 32,768 directions each, unused ones revived; bfloat16."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        encode = nn.Parameter(torch.randn(latents, width) * width**-0.5)
        decode = nn.Parameter(F.normalize(torch.randn(latents, width), dim=1))
        inner, outer = nn.Parameter(torch.zeros(latents)), nn.Parameter(torch.zeros(width))
        x = torch.randn(batch, width, dtype=torch.bfloat16)
        unused = torch.zeros(latents, dtype=torch.long)
    learnt = [encode, decode, inner, outer]
    optimizer = torch.optim.Adam(learnt, lr=1e-4, betas=(0.9, 0.999), fused=True)

    def painted(strength, index):
        whole = strength.new_zeros(batch, latents).scatter(1, index, strength)
        return whole @ decode

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            before = F.linear(x - outer, encode, inner)
            strength, index = before.relu().topk(chosen, sorted=False)
            found = painted(strength, index).float() + outer
            off = x.float() - found
            loss = off.square().mean() / x.float().var()
            with torch.no_grad():
                unused.add_(1)
                unused[index.flatten()] = 0
                dead = unused > 1000
            more, where = before.masked_fill(~dead, -1e4).topk(helpers, sorted=False)
            helped = painted(more.clamp(min=0), where).float()
            loss = loss + ((helped - off.detach()).square().mean() / off.detach().var()) / 32
        loss.backward()
        with torch.no_grad():
            along = (decode.grad * decode).sum(1, keepdim=True)
            decode.grad.sub_(along * decode)
        nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            decode.div_(decode.norm(dim=1, keepdim=True))
        return loss.detach()

    return step


def tags_of_words(batch=32, length=48, letters=16, width=300, hidden=256, tags=17, words=20000):
    """Names in sentences: letters convolved, two-way LSTM, a chain of tags (CRF); float32."""
    torch.manual_seed(0)
    table, small = nn.Embedding(words, width), nn.Embedding(100, 30)
    near = nn.Conv1d(30, 50, 3, padding=1)
    read = nn.LSTM(width + 50, hidden, 2, batch_first=True, bidirectional=True, dropout=0.3)
    leave = nn.Linear(2 * hidden, tags)
    step_to = nn.Parameter(0.1 * torch.randn(tags, tags))
    begin, end = (nn.Parameter(0.1 * torch.randn(tags)) for _ in range(2))
    net = nn.ModuleList([table, small, near, read, leave]).cuda()
    chain = nn.ParameterList([step_to, begin, end]).cuda()
    learnt = [*net.parameters(), *chain.parameters()]
    optimizer = torch.optim.SGD(learnt, lr=0.015, momentum=0.9)
    tokens = torch.randint(0, words, (batch, length), device="cuda")
    spelt = torch.randint(0, 100, (batch, length, letters), device="cuda")
    truth = torch.randint(0, tags, (batch, length), device="cuda")
    count = torch.randint(length // 2, length + 1, (batch,), device="cuda")
    real = torch.arange(length, device="cuda") < count[:, None]

    def step():
        step_to, begin, end = chain
        letter = near(small(spelt).flatten(0, 1).transpose(1, 2)).amax(-1)
        x = torch.cat([table(tokens), letter.view(batch, length, -1)], -1)
        score = leave(read(F.dropout(x, 0.5))[0])
        row = torch.arange(batch, device=score.device)
        good = begin[truth[:, 0]] + score[:, 0].gather(1, truth[:, :1])[:, 0]
        all_ = begin + score[:, 0]
        for t in range(1, length):
            on = real[:, t]
            moved = step_to[truth[:, t - 1], truth[:, t]] + score[row, t, truth[:, t]]
            good = good + moved * on
            new = torch.logsumexp(all_[:, :, None] + step_to + score[:, t, None], 1)
            all_ = torch.where(on[:, None], new, all_)
        good = good + end[truth[row, count - 1]]
        loss = (torch.logsumexp(all_ + end, 1) - good).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learnt, 5.0)
        optimizer.step()
        return loss.detach()

    return step


def rare_words_last(batch=80, length=70, width=400, hidden=1152, words=267735):
    """A word model of three LSTMs, rare words in smaller and smaller tails; float32, TF32."""
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    table = nn.Embedding(words, width)
    sizes = [(width, hidden), (hidden, hidden), (hidden, width)]
    layers = nn.ModuleList(nn.LSTM(i, o, batch_first=True) for i, o in sizes)
    out = nn.AdaptiveLogSoftmaxWithLoss(
        width, words, [min(20000, words // 4), min(60000, words // 2)], div_value=4.0
    )
    model = nn.ModuleList([table, layers, out]).cuda()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    tokens = torch.randint(0, words, (batch, length + 1), device="cuda")

    def loss():
        x = table(tokens[:, :-1])
        for layer in layers:
            kept = torch.empty(batch, 1, x.shape[2], device=x.device).bernoulli_(0.7) / 0.7
            x = layer(x * kept)[0]
        slow = (x[:, 1:] - x[:, :-1]).square().mean()
        return out(x.flatten(0, 1), tokens[:, 1:].flatten()).loss + slow + 2 * x.square().mean()

    return fit(model, loss, None, optimizer, clip=0.25)
