"""Programs of kinds that no constant was fitted to: graphs, fields, policies, tables, solvers."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


def mlp(*widths, act=nn.ReLU):
    """Linear layers with an activation between them."""
    layers = []
    for a, b in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def _loop(model, loss_of, optimizer=None, clip=None):
    model = model.cuda().train()
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    return step


class GraphConvolution(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.linear = nn.Linear(inside, outside, bias=False)

    def forward(self, x, source, target, weight):
        h = self.linear(x)
        return torch.zeros_like(h).index_add_(0, target, h[source] * weight[:, None])


def graph():
    """Three graph convolutions, 60,000 nodes, 600,000 edges, float32."""
    layers = nn.ModuleList(GraphConvolution(a, b) for a, b in ((256, 256), (256, 256), (256, 40)))
    x = torch.randn(60_000, 256, device="cuda")
    source, target = (torch.randint(0, 60_000, (600_000,), device="cuda") for _ in range(2))
    weight, y = torch.rand(600_000, device="cuda"), torch.randint(0, 40, (60_000,), device="cuda")

    def loss(model):
        h = x
        for n, layer in enumerate(model):
            h = layer(h, source, target, weight)
            h = F.dropout(F.relu(h), 0.5) if n < 2 else h
        return F.cross_entropy(h, y)

    return _loop(layers, loss)


def small_graph():
    """Attention over the edges of a citation graph of 2,700 nodes: the host's pace."""
    one, two = nn.Linear(1433, 64), nn.Linear(64, 7)
    left, right = nn.Linear(64, 8), nn.Linear(64, 8)
    x = torch.rand(2708, 1433, device="cuda")
    source, target = (torch.randint(0, 2708, (10_556,), device="cuda") for _ in range(2))
    y = torch.randint(0, 7, (2708,), device="cuda")

    def loss(model):
        h = model[0](F.dropout(x, 0.6))
        score = F.leaky_relu(model[2](h)[source] + model[3](h)[target], 0.2).exp()
        total = torch.zeros(2708, 8, device="cuda").index_add(0, target, score)
        share = F.dropout(score / (total[target] + 1e-9), 0.6)
        message = h[source].view(-1, 8, 8) * share[:, :, None]
        h = torch.zeros(2708, 64, device="cuda").index_add(0, target, message.flatten(1))
        return F.cross_entropy(model[1](F.elu(h)), y)

    return _loop(nn.ModuleList([one, two, left, right]), loss)


def radiance_field():
    """Colour and density along 2,048 rays of 96 samples, a deep narrow network, float32."""
    body, colour = mlp(63, 256, 256, 256, 256, 257), mlp(256 + 27, 128, 3)
    rays = torch.randn(2048, 3, device="cuda")
    origin, true = torch.randn(2048, 3, device="cuda"), torch.rand(2048, 3, device="cuda")

    def waves(x, count):
        rate = 2.0 ** torch.arange(count, device="cuda")
        y = (x[..., None, :] * rate[:, None]).flatten(-2)
        return torch.cat([x, y.sin(), y.cos()], -1)

    def loss(model):
        depth = torch.linspace(2, 6, 96, device="cuda") + torch.rand(2048, 96, device="cuda") / 24
        at = origin[:, None] + rays[:, None] * depth[..., None]
        h = model[0](waves(at, 10))
        way = waves(F.normalize(rays, dim=-1), 4)[:, None].expand(-1, 96, -1)
        rgb = torch.sigmoid(model[1](torch.cat([h[..., 1:], way], -1)))
        gap = torch.cat([depth[:, 1:] - depth[:, :-1], torch.full_like(depth[:, :1], 1e3)], 1)
        opaque = 1 - torch.exp(-F.relu(h[..., 0]) * gap)
        clear = torch.cumprod(torch.cat([torch.ones_like(opaque[:, :1]), 1 - opaque + 1e-9], 1), 1)
        weight = opaque * clear[:, :-1]
        return F.mse_loss((weight[..., None] * rgb).sum(1), true)

    return _loop(nn.ModuleList([body, colour]), loss)


def point_cloud():
    """Sets of 2,048 points, shared layers and a maximum, float32, batch 32."""

    def shared(*widths):
        layers = []
        for a, b in zip(widths, widths[1:], strict=False):
            layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        return nn.Sequential(*layers)

    local, deep = shared(3, 64, 64), shared(64, 128, 1024)
    head = nn.Sequential(shared(1088, 512, 256, 128), nn.Conv1d(128, 50, 1))
    points = torch.randn(32, 3, 2048, device="cuda")
    y = torch.randint(0, 50, (32, 2048), device="cuda")

    def loss(model):
        near = model[0](points)
        whole = model[1](near).amax(2, keepdim=True).expand(-1, -1, 2048)
        return F.cross_entropy(model[2](torch.cat([near, whole], 1)), y)

    return _loop(nn.ModuleList([local, deep, head]), loss)


def policy():
    """An epoch of proximal policy optimisation: eight mini-batches of 64, two small networks."""
    actor, critic = mlp(24, 64, 64, 4, act=nn.Tanh), mlp(24, 64, 64, 1, act=nn.Tanh)
    model = nn.ModuleList([actor, critic]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, eps=1e-5)
    seen, action = torch.randn(512, 24, device="cuda"), torch.randint(0, 4, (512,), device="cuda")
    before, gain, worth = (torch.randn(512, device="cuda") for _ in range(3))

    def step():
        order = torch.randperm(512, device="cuda")
        for at in range(0, 512, 64):
            pick = order[at : at + 64]
            chance = torch.distributions.Categorical(logits=actor(seen[pick]))
            ratio = (chance.log_prob(action[pick]) - before[pick]).exp()
            a = gain[pick]
            a = (a - a.mean()) / (a.std() + 1e-8)
            kept = torch.max(-a * ratio, -a * ratio.clamp(0.8, 1.2)).mean()
            value = 0.5 * (critic(seen[pick]).squeeze(-1) - worth[pick]).pow(2).mean()
            loss = kept + 0.5 * value - 0.01 * chance.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()

    return step


def q_learning():
    """A step of deep Q-learning on 32 small images, with a slow copy of the network."""

    def network():
        return nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
            nn.Linear(512, 6),
        ).cuda()  # fmt: skip

    model, slow = network(), network()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2.5e-4)
    now, then = (torch.randint(0, 255, (32, 4, 84, 84), device="cuda").byte() for _ in range(2))
    action, reward = torch.randint(0, 6, (32, 1), device="cuda"), torch.randn(32, device="cuda")

    def step():
        with torch.no_grad():
            best = reward + 0.99 * slow(then.float() / 255).max(1).values
        value = model(now.float() / 255).gather(1, action).squeeze(1)
        loss = F.smooth_l1_loss(value, best)
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.grad.clamp_(-1, 1)
        optimizer.step()

    return step


def table():
    """Rows of a table: 20 categories embedded, 30 numbers, attention over the columns."""
    kinds = nn.ModuleList(nn.Embedding(1000, 96) for _ in range(20))
    scale = nn.ParameterList([nn.Parameter(torch.randn(30, 96)), nn.Parameter(torch.zeros(30, 96))])
    layer = nn.TransformerEncoderLayer(96, 8, 192, 0.1, batch_first=True, norm_first=True)
    body, head = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), nn.Linear(96, 1)
    category = torch.randint(0, 1000, (2048, 20), device="cuda")
    number, y = torch.randn(2048, 30, device="cuda"), torch.rand(2048, device="cuda").round()

    def loss(model):
        named = [embed(category[:, n]) for n, embed in enumerate(model[0])]
        rows = number[..., None] * model[1][0] + model[1][1]
        h = model[2](torch.cat([torch.stack(named, 1), rows], 1))
        return F.binary_cross_entropy_with_logits(model[3](h.mean(1)).squeeze(-1), y)

    return _loop(nn.ModuleList([kinds, scale, body, head]), loss)


def gaussian_process():
    """The likelihood of a Gaussian process of 2,048 points: a Cholesky factor and its gradient."""
    log = nn.ParameterList([nn.Parameter(torch.zeros(8)), nn.Parameter(torch.tensor(-2.0))])
    x, y = torch.randn(2048, 8, device="cuda"), torch.randn(2048, 1, device="cuda")

    def loss(model):
        scaled = x * model[0].exp()
        kernel = torch.exp(-0.5 * torch.cdist(scaled, scaled).pow(2))
        kernel = kernel + torch.eye(2048, device="cuda") * model[1].exp()
        factor = torch.linalg.cholesky(kernel)
        part = torch.cholesky_solve(y, factor)
        return 0.5 * (y * part).sum() + factor.diagonal().log().sum()

    return _loop(log, loss)


def solver():
    """A neural differential equation: 20 Runge-Kutta steps through a small network, and back."""
    field, head = mlp(64, 128, 64, act=nn.Tanh), nn.Linear(64, 10)
    x, y = torch.randn(256, 64, device="cuda"), torch.randint(0, 10, (256,), device="cuda")

    def loss(model):
        h, dt = x, 0.05
        for _ in range(20):
            a = model[0](h)
            b = model[0](h + dt / 2 * a)
            c = model[0](h + dt / 2 * b)
            d = model[0](h + dt * c)
            h = h + dt / 6 * (a + 2 * b + 2 * c + d)
        return F.cross_entropy(model[1](h), y)

    return _loop(nn.ModuleList([field, head]), loss)


def physics():
    """A network that obeys the heat equation: gradients of gradients, float32, 20,000 points."""
    net = mlp(2, 128, 128, 128, 1, act=nn.Tanh)
    points = torch.rand(20_000, 2, device="cuda")
    edge, known = torch.rand(2000, 2, device="cuda"), torch.randn(2000, 1, device="cuda")

    def loss(model):
        at = points.detach().requires_grad_(True)
        u = model(at)
        (first,) = torch.autograd.grad(u.sum(), at, create_graph=True)
        (second,) = torch.autograd.grad(first[:, 0].sum(), at, create_graph=True)
        return (first[:, 1] - 0.1 * second[:, 0]).pow(2).mean() + F.mse_loss(model(edge), known)

    return _loop(net, loss)


def flows():
    """Eight coupling layers that turn data into noise, 4,096 rows of 64, float32."""
    nets = nn.ModuleList(mlp(32, 256, 256, 64) for _ in range(8))
    data = torch.randn(4096, 64, device="cuda")

    def loss(model):
        x, volume = data, 0
        for net in model:
            a, b = x.chunk(2, 1)
            scale, shift = net(a).chunk(2, 1)
            scale = torch.tanh(scale)
            x = torch.cat([b * scale.exp() + shift, a], 1)
            volume = volume + scale.sum(1)
        return (0.5 * x.pow(2).sum(1) - volume).mean()

    return _loop(nets, loss)


class Spectral(nn.Module):
    """The lowest Fourier modes of a field through complex weights."""

    def __init__(self, width=48, modes=16):
        super().__init__()
        self.modes, self.side = modes, nn.Conv2d(width, width, 1)
        self.weight = nn.Parameter(torch.randn(width, width, modes, modes, 2) / width)

    def forward(self, x):
        spectrum = torch.fft.rfft2(x)
        low = torch.zeros_like(spectrum)
        m = self.modes
        low[:, :, :m, :m] = torch.einsum(
            "bixy,ioxy->boxy", spectrum[:, :, :m, :m], torch.view_as_complex(self.weight)
        )
        return F.gelu(torch.fft.irfft2(low, s=x.shape[-2:]) + self.side(x))


def fourier_operator():
    """A Fourier neural operator on 16 fields of 128 x 128, float32."""
    first, last = nn.Conv2d(3, 48, 1), nn.Conv2d(48, 1, 1)
    model = nn.Sequential(first, *[Spectral() for _ in range(4)], last)
    x, y = torch.randn(16, 3, 128, 128, device="cuda"), torch.randn(16, 1, 128, 128, device="cuda")

    def loss(net):
        said = net(x)
        return ((said - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)).mean()

    return _loop(model, loss)


def two_towers():
    """Users and things of a shop, matched within the batch of 4,096."""
    user, thing = nn.Embedding(500_000, 64), nn.Embedding(200_000, 64)
    left, right = mlp(64, 256, 128), mlp(64, 256, 128)
    who, what = (torch.randint(0, n, (4096,), device="cuda") for n in (500_000, 200_000))

    def loss(model):
        a = F.normalize(model[2](model[0](who)), dim=-1)
        b = F.normalize(model[3](model[1](what)), dim=-1)
        return F.cross_entropy(a @ b.t() / 0.05, torch.arange(4096, device="cuda"))

    return _loop(nn.ModuleList([user, thing, left, right]), loss)


def small_autoencoder():
    """A variational autoencoder of digits, batch 128, float32: the host's pace."""
    encoder, decoder = mlp(784, 400, 40), mlp(20, 400, 784)
    x = torch.rand(128, 784, device="cuda")

    def loss(model):
        mean, log = model[0](x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log).exp()
        made = F.binary_cross_entropy_with_logits(model[1](z), x, reduction="sum")
        return made - 0.5 * (1 + log - mean.pow(2) - log.exp()).sum()

    return _loop(nn.ModuleList([encoder, decoder]), loss)
