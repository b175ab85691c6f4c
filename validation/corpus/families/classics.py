"""What everybody writes first: the classic example programs, in plain words."""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from validation.corpus.case import Family, Step, training

family = Family("classics")


def cases() -> list:
    return family.cases


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def conv(a: int, b: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)
    )


@family
def mnist_convolutions(device: str) -> Step:
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(128, 10), nn.LogSoftmax(1),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0)
    x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))

    def step() -> None:
        data, target = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(net(data), target)
        loss.backward()
        optimizer.step()

    return step


@family
def mnist_evaluation(device: str) -> Step:
    net = nn.Sequential(nn.Flatten(), mlp(784, 64, 10)).to(device).eval()
    x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))

    def step() -> float:
        with torch.no_grad():
            out = net(x.to(device))
            loss = F.cross_entropy(out, y.to(device), reduction="sum").item()
            right = out.argmax(1, keepdim=True).eq(y.to(device).view(-1, 1)).sum().item()
        return loss + right

    return step


@family
def mnist_recurrent(device: str) -> Step:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.out = nn.LSTM(28, 64, batch_first=True), nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.out(self.rnn(x)[0][:, -1])

    net = Net().to(device)
    x, y = torch.randn(32, 28, 28, device=device), torch.randint(0, 10, (32,), device=device)
    return training(net.parameters(), lambda: F.cross_entropy(net(x), y), "Adadelta")


@family
def mnist_forward_forward(device: str) -> Step:
    layers = [nn.Linear(784, 128).to(device), nn.Linear(128, 128).to(device)]
    optimizers = [torch.optim.Adam(layer.parameters(), lr=0.03) for layer in layers]
    good, bad = torch.rand(32, 784, device=device), torch.rand(32, 784, device=device)

    def step() -> None:
        a, b = good, bad
        for layer, optimizer in zip(layers, optimizers, strict=True):
            ya, yb = F.relu(layer(F.normalize(a))), F.relu(layer(F.normalize(b)))
            push = torch.cat([2 - ya.pow(2).mean(1), yb.pow(2).mean(1) - 2])
            optimizer.zero_grad()
            F.softplus(push).mean().backward()
            optimizer.step()
            a, b = ya.detach(), yb.detach()

    return step


@family
def dcgan(device: str) -> Step:
    def up(a: int, b: int) -> nn.Sequential:
        return nn.Sequential(
            nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)
        )

    maker = nn.Sequential(
        nn.ConvTranspose2d(32, 64, 4, 1, 0, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
        up(64, 32), up(32, 16), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh(),
    ).to(device)  # fmt: skip
    judge = nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(16, 32, 4, 2, 1),
        nn.BatchNorm2d(32), nn.LeakyReLU(0.2, True), nn.Conv2d(32, 1, 8), nn.Sigmoid(),
    ).to(device)  # fmt: skip

    def weights(m: nn.Module) -> None:
        if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(m.weight, 0.0, 0.02)

    maker.apply(weights)
    judge.apply(weights)
    d = torch.optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.999))
    g = torch.optim.Adam(maker.parameters(), lr=2e-4, betas=(0.5, 0.999))
    loss, pictures = nn.BCELoss(), torch.randn(16, 3, 32, 32)

    def step() -> float:
        judge.zero_grad()
        real = pictures.to(device)
        label = torch.full((16,), 1.0, device=device)
        told = loss(judge(real).view(-1), label)
        told.backward()
        fake = maker(torch.randn(16, 32, 1, 1, device=device))
        label.fill_(0.0)
        lied = loss(judge(fake.detach()).view(-1), label)
        lied.backward()
        d.step()
        maker.zero_grad()
        label.fill_(1.0)
        tricked = loss(judge(fake).view(-1), label)
        tricked.backward()
        g.step()
        return tricked.item() + told.item() + lied.item()

    return step


@family
def wasserstein_gan_with_penalty(device: str) -> Step:
    maker, judge = mlp(16, 64, 32).to(device), mlp(32, 64, 1).to(device)
    d = torch.optim.Adam(judge.parameters(), lr=1e-4)
    real = torch.randn(32, 32, device=device)

    def step() -> None:
        fake = maker(torch.randn(32, 16, device=device)).detach()
        mix = torch.rand(32, 1, device=device)
        between = (mix * real + (1 - mix) * fake).requires_grad_(True)
        out = judge(between)
        (grad,) = torch.autograd.grad(out, between, torch.ones_like(out), create_graph=True)
        penalty = ((grad.norm(2, dim=1) - 1) ** 2).mean()
        d.zero_grad()
        (judge(fake).mean() - judge(real).mean() + 10 * penalty).backward()
        d.step()

    return step


class Vae(nn.Module):
    """Two hidden layers and a code of ten numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.mean, self.spread = (
            nn.Linear(784, 128),
            nn.Linear(128, 10),
            nn.Linear(128, 10),
        )
        self.back = mlp(10, 128, 784)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        h = F.relu(self.body(x))
        mean, spread = self.mean(h), self.spread(h)
        code = mean + torch.randn_like(spread) * torch.exp(0.5 * spread)
        return torch.sigmoid(self.back(code)), mean, spread


@family
def variational_autoencoder(device: str) -> Step:
    net, x = Vae().to(device), torch.rand(64, 1, 28, 28, device=device)

    def loss() -> torch.Tensor:
        out, mean, spread = net(x.view(-1, 784))
        near = F.binary_cross_entropy(out, x.view(-1, 784), reduction="sum")
        return near - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())

    return training(net.parameters(), loss, "Adam")


@family
def vector_quantised_autoencoder(device: str) -> Step:
    enc = nn.Sequential(conv(3, 16, 2), nn.Conv2d(16, 8, 1)).to(device)
    dec = nn.Sequential(nn.ConvTranspose2d(8, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 3, 1)).to(
        device
    )
    book = nn.Embedding(32, 8).to(device)
    x = torch.randn(4, 3, 16, 16, device=device)

    def loss() -> torch.Tensor:
        z = enc(x).permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, 8)
        far = (
            flat.pow(2).sum(1, keepdim=True)
            + book.weight.pow(2).sum(1)
            - 2 * flat @ book.weight.t()
        )
        q = book(far.argmin(1)).view_as(z)
        kept = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(q.detach(), z)
        q = z + (q - z).detach()
        return F.mse_loss(dec(q.permute(0, 3, 1, 2)), x) + kept

    return training([*enc.parameters(), *dec.parameters(), *book.parameters()], loss)


@family
def denoising_autoencoder(device: str) -> Step:
    net, x = mlp(784, 64, 784).to(device), torch.rand(32, 784, device=device)
    return training(net.parameters(), lambda: F.mse_loss(net(x + 0.3 * torch.randn_like(x)), x))


def _word_model(kind: str) -> object:
    def build(device: str) -> Step:
        layers = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}[kind]
        enc, rnn = nn.Embedding(200, 32).to(device), layers(32, 32, 2, dropout=0.2).to(device)
        out, drop = nn.Linear(32, 200).to(device), nn.Dropout(0.2)
        out.weight = enc.weight
        data = torch.randint(0, 200, (36, 8), device=device)
        parameters = [*enc.parameters(), *rnn.parameters(), out.bias]
        kept: list = [None]

        def step() -> float:
            hidden = kept[0]
            if hidden is not None:
                hidden = tuple(h.detach() for h in hidden) if kind == "LSTM" else hidden.detach()
            for p in parameters:
                p.grad = None
            made, kept[0] = rnn(drop(enc(data[:35])), hidden)
            logp = F.log_softmax(out(drop(made)).view(-1, 200), 1)
            loss = F.nll_loss(logp, data[1:].reshape(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 0.25)
            for p in parameters:
                p.data.add_(p.grad, alpha=-0.1)
            return loss.item()

        return step

    return build


for _kind in ("LSTM", "GRU", "RNN"):
    family.add(f"word-language-model-{_kind.lower()}", _word_model(_kind))


@family
def word_language_model_transformer(device: str) -> Step:
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.2)
    body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    enc, out = nn.Embedding(200, 32).to(device), nn.Linear(32, 200).to(device)
    data = torch.randint(0, 200, (36, 8), device=device)
    where = torch.arange(35, device=device).unsqueeze(1)
    pace = torch.exp(torch.arange(0, 32, 2, device=device) * (-math.log(10000.0) / 32))
    place = torch.zeros(35, 1, 32, device=device)
    place[:, 0, 0::2], place[:, 0, 1::2] = torch.sin(where * pace), torch.cos(where * pace)
    mask = torch.log(torch.tril(torch.ones(35, 35, device=device)))

    def loss() -> torch.Tensor:
        h = body(enc(data[:35]) * math.sqrt(32) + place, mask)
        return F.cross_entropy(out(h).view(-1, 200), data[1:].reshape(-1))

    return training([*body.parameters(), *enc.parameters(), *out.parameters()], loss, "SGD")


class Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, a: int, b: int, stride: int = 1) -> None:
        super().__init__()
        self.one, self.two = (
            conv(a, b, stride),
            nn.Sequential(nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)),
        )
        same = stride == 1 and a == b
        self.short = (
            nn.Sequential()
            if same
            else nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.two(self.one(x)) + self.short(x))


def _resnet() -> nn.Sequential:
    return nn.Sequential(
        conv(3, 16), Block(16, 16), Block(16, 32, 2), Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


@family
def cifar_resnet(device: str) -> Step:
    net = _resnet().to(device)
    x, y = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)

    def step() -> float:
        a, b = x.to(device), y.to(device)
        optimizer.zero_grad()
        out = net(a)
        loss = F.cross_entropy(out, b)
        loss.backward()
        optimizer.step()
        plan.step()
        return out.max(1)[1].eq(b).sum().item() / 16

    return step


@family
def cifar_resnet_mixed_precision(device: str) -> Step:
    net = _resnet().to(device)
    x, y = torch.randn(16, 3, 32, 32, device=device), torch.randint(0, 10, (16,), device=device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

    return step


@family
def mobile_network(device: str) -> Step:
    def separable(a: int, b: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(a, a, 3, stride, 1, groups=a, bias=False), nn.BatchNorm2d(a), nn.ReLU6(),
            nn.Conv2d(a, b, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU6(),
        )  # fmt: skip

    net = nn.Sequential(
        conv(3, 16, 2), separable(16, 32, 1), separable(32, 64, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    ).to(device)  # fmt: skip
    x, y = torch.randn(8, 3, 32, 32, device=device), torch.randint(0, 10, (8,), device=device)
    return training(net.parameters(), lambda: F.cross_entropy(net(x), y), "RMSprop")


@family
def dense_network(device: str) -> Step:
    layers = nn.ModuleList(conv(8 + 8 * i, 8) for i in range(4)).to(device)
    head = nn.Linear(40, 10).to(device)
    x, y = torch.randn(8, 8, 16, 16, device=device), torch.randint(0, 10, (8,), device=device)

    def loss() -> torch.Tensor:
        kept = [x]
        for layer in layers:
            kept.append(layer(torch.cat(kept, 1)))
        return F.cross_entropy(head(torch.cat(kept, 1).mean((2, 3))), y)

    return training([*layers.parameters(), *head.parameters()], loss, "SGD")


@family
def squeeze_and_excite(device: str) -> Step:
    body, gate = conv(3, 32).to(device), mlp(32, 8, 32).to(device)
    x = torch.randn(4, 3, 16, 16, device=device)

    def loss() -> torch.Tensor:
        h = body(x)
        return (h * torch.sigmoid(gate(h.mean((2, 3))))[:, :, None, None]).pow(2).mean()

    return training([*body.parameters(), *gate.parameters()], loss)


@family
def super_resolution(device: str) -> Step:
    net = nn.Sequential(
        nn.Conv2d(1, 64, 5, 1, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(),
        nn.Conv2d(64, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 9, 3, 1, 1), nn.PixelShuffle(3),
    ).to(device)  # fmt: skip
    for layer in net:
        if isinstance(layer, nn.Conv2d):
            nn.init.orthogonal_(layer.weight, nn.init.calculate_gain("relu"))
    x, y = torch.rand(4, 1, 24, 24, device=device), torch.rand(4, 1, 72, 72, device=device)
    return training(net.parameters(), lambda: F.mse_loss(net(x), y), "Adam")


@family
def fast_style_transfer(device: str) -> Step:
    painter = nn.Sequential(
        nn.ReflectionPad2d(4), nn.Conv2d(3, 16, 9), nn.InstanceNorm2d(16, affine=True), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1), nn.InstanceNorm2d(32, affine=True), nn.ReLU(),
        nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(32, 3, 3, 1, 1),
    ).to(device)  # fmt: skip
    eyes = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU()).to(device)  # fmt: skip
    for p in eyes.parameters():
        p.requires_grad_(False)
    x, style = torch.rand(2, 3, 32, 32, device=device), torch.rand(2, 3, 32, 32, device=device)

    def gram(y: torch.Tensor) -> torch.Tensor:
        b, c, h, w = y.shape
        flat = y.view(b, c, h * w)
        return flat.bmm(flat.transpose(1, 2)) / (c * h * w)

    def loss() -> torch.Tensor:
        y = painter(x)
        seen = eyes(y)
        return F.mse_loss(seen, eyes(x)) + 1e5 * F.mse_loss(gram(seen), gram(eyes(style)))

    return training(painter.parameters(), loss, "Adam")


@family
def neural_style_by_lbfgs(device: str) -> Step:
    picture = torch.rand(1, 3, 16, 16, device=device, requires_grad=True)
    target, eyes = torch.rand(1, 8, 16, 16, device=device), nn.Conv2d(3, 8, 3, 1, 1).to(device)
    optimizer = torch.optim.LBFGS([picture], max_iter=3)

    def step() -> None:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(eyes(picture.clamp(0, 1)), target)
            loss.backward()
            return loss

        optimizer.step(closure)

    return step


@family
def time_sequence_of_sines(device: str) -> Step:
    one, two = nn.LSTMCell(1, 24).to(device).double(), nn.LSTMCell(24, 24).to(device).double()
    out = nn.Linear(24, 1).to(device).double()
    x = torch.sin(torch.arange(20, device=device).double() / 4).repeat(6, 1)

    def loss() -> torch.Tensor:
        h = [torch.zeros(6, 24, dtype=torch.double, device=device) for _ in range(4)]
        made = []
        for part in x.split(1, dim=1):
            h[0], h[1] = one(part, (h[0], h[1]))
            h[2], h[3] = two(h[0], (h[2], h[3]))
            made.append(out(h[2]))
        return F.mse_loss(torch.cat(made, 1)[:, :-1], x[:, 1:])

    return training([*one.parameters(), *two.parameters(), *out.parameters()], loss)


def _graph(nodes: int, device: str) -> torch.Tensor:
    links = (torch.rand(nodes, nodes) < 0.1).float() + torch.eye(nodes)
    links = ((links + links.t()) > 0).float()
    root = links.sum(1).rsqrt()
    return (root[:, None] * links * root).to(device)


@family
def graph_convolutions(device: str) -> Step:
    links, x = _graph(64, device), torch.randn(64, 16, device=device)
    one, two = nn.Linear(16, 32).to(device), nn.Linear(32, 7).to(device)
    y, known = torch.randint(0, 7, (64,), device=device), torch.arange(20, device=device)

    def loss() -> torch.Tensor:
        h = F.dropout(F.relu(links @ one(x)), 0.5)
        return F.nll_loss(F.log_softmax(links @ two(h), 1)[known], y[known])

    return training([*one.parameters(), *two.parameters()], loss, "Adam", weight_decay=5e-4)


@family
def graph_attention(device: str) -> Step:
    links, x = _graph(64, device), torch.randn(64, 16, device=device)
    w, a = (
        nn.Linear(16, 4 * 8, bias=False).to(device),
        nn.Parameter(torch.randn(2, 4, 8, device=device)),
    )
    y = torch.randint(0, 8, (64,), device=device)

    def loss() -> torch.Tensor:
        h = w(x).view(64, 4, 8)
        left, right = (h * a[0]).sum(-1), (h * a[1]).sum(-1)
        score = F.leaky_relu(left[:, None] + right[None], 0.2)
        score = score.masked_fill(links[..., None] == 0, float("-inf"))
        return F.cross_entropy(torch.einsum("ijh,jhd->ihd", score.softmax(1), h).mean(1), y)

    return training([*w.parameters(), a], loss)


@family
def siamese_network(device: str) -> Step:
    net, head = _resnet()[:-1].to(device), mlp(128, 64, 1).to(device)
    a, b = (torch.randn(8, 3, 16, 16, device=device) for _ in range(2))
    same = torch.randint(0, 2, (8,), device=device).float()

    def loss() -> torch.Tensor:
        both = torch.cat([net(a), net(b)], 1)
        return F.binary_cross_entropy(torch.sigmoid(head(both)).squeeze(), same)

    return training([*net.parameters(), *head.parameters()], loss, "Adadelta")


@family
def triplets(device: str) -> Step:
    net = mlp(32, 64, 16).to(device)
    a, p, n = (torch.randn(16, 32, device=device) for _ in range(3))
    return training(net.parameters(), lambda: F.triplet_margin_loss(net(a), net(p), net(n)))


@family
def sequence_to_sequence_with_attention(device: str) -> Step:
    enc, dec = nn.Embedding(100, 32).to(device), nn.Embedding(100, 32).to(device)
    reader, writer = nn.GRU(32, 32, batch_first=True).to(device), nn.GRUCell(64, 32).to(device)
    look, out = nn.Linear(64, 1).to(device), nn.Linear(32, 100).to(device)
    x, y = (torch.randint(0, 100, (8, 10), device=device) for _ in range(2))
    parts = [enc, dec, reader, writer, look, out]

    def loss() -> torch.Tensor:
        seen, state = reader(enc(x))
        state, total = state[0], torch.zeros((), device=device)
        for t in range(9):
            score = look(torch.cat([state[:, None].expand_as(seen), seen], -1)).softmax(1)
            state = writer(torch.cat([dec(y[:, t]), (score * seen).sum(1)], -1), state)
            total = total + F.cross_entropy(out(state), y[:, t + 1])
        return total / 9

    return training([p for part in parts for p in part.parameters()], loss)


@family
def character_model_samples(device: str) -> Step:
    enc, rnn, out = nn.Embedding(64, 32), nn.GRU(32, 32), nn.Linear(32, 64)
    for part in (enc, rnn, out):
        part.to(device)

    def step() -> list[int]:
        state, token, said = None, torch.zeros(1, 1, dtype=torch.long, device=device), []
        with torch.no_grad():
            for _ in range(8):
                made, state = rnn(enc(token), state)
                token = torch.multinomial(out(made[0]).div(0.8).exp(), 1)
                said.append(token.item())
        return said

    return step


class Attend(nn.Module):
    """A block of a small GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, w = x.shape
        q, k, v = (
            t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(self.n1(x)).split(w, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, w))
        return x + self.mlp(self.n2(x))


class Gpt(nn.Module):
    """Two blocks of it."""

    def __init__(self, width: int = 64, words: int = 128) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.body = nn.Sequential(Attend(width, 4), Attend(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.body(self.words(x) + self.places.weight[: x.shape[1]])))


@family
def small_gpt(device: str) -> Step:
    net, text = Gpt().to(device), torch.randint(0, 128, (2000,))

    def loss() -> torch.Tensor:
        at = torch.randint(len(text) - 33, (8,))
        x = torch.stack([text[i : i + 32] for i in at])
        y = torch.stack([text[i + 1 : i + 33] for i in at])
        return F.cross_entropy(net(x.to(device)).view(-1, 128), y.to(device).view(-1))

    return training(net.parameters(), loss, weight_decay=0.1)


@family
def small_gpt_with_accumulation(device: str) -> Step:
    net = Gpt().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.95))
    x = torch.randint(0, 128, (4, 8, 33), device=device)

    def step() -> float:
        total = 0.0
        for part in x:
            loss = F.cross_entropy(net(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten()) / 4
            loss.backward()
            total += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total.item() + norm.item()

    return step


@family
def small_gpt_writes(device: str) -> Step:
    net = Gpt().to(device).eval()

    @torch.no_grad()
    def step() -> list[int]:
        text = torch.zeros(1, 1, dtype=torch.long, device=device)
        for _ in range(6):
            scores = net(text[:, -64:])[:, -1] / 0.8
            best, _ = torch.topk(scores, 10)
            scores[scores < best[:, [-1]]] = -float("inf")
            text = torch.cat((text, torch.multinomial(scores.softmax(-1), 1)), dim=1)
        return text[0].tolist()

    return step


@family
def vision_transformer(device: str) -> Step:
    cut = nn.Conv2d(3, 48, 4, 4).to(device)
    layer = nn.TransformerEncoderLayer(
        48, 4, 96, activation="gelu", batch_first=True, norm_first=True
    )
    body, head = (
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device),
        nn.Linear(48, 10).to(device),
    )
    first = nn.Parameter(torch.zeros(1, 1, 48, device=device))
    place = nn.Parameter(torch.zeros(1, 65, 48, device=device))
    x, y = torch.randn(8, 3, 32, 32, device=device), torch.randint(0, 10, (8,), device=device)

    def loss() -> torch.Tensor:
        h = cut(x).flatten(2).transpose(1, 2)
        h = torch.cat([first.expand(8, -1, -1), h], 1) + place
        return F.cross_entropy(head(body(h)[:, 0]), y, label_smoothing=0.1)

    parts = [*cut.parameters(), *body.parameters(), *head.parameters(), first, place]
    return training(parts, loss)


@family
def mlp_mixer(device: str) -> Step:
    cut, head = nn.Conv2d(3, 32, 4, 4).to(device), nn.Linear(32, 10).to(device)
    across, within, norm = (
        mlp(64, 96, 64).to(device),
        mlp(32, 64, 32).to(device),
        nn.LayerNorm(32).to(device),
    )
    x, y = torch.randn(8, 3, 32, 32, device=device), torch.randint(0, 10, (8,), device=device)

    def loss() -> torch.Tensor:
        h = cut(x).flatten(2).transpose(1, 2)
        h = h + across(norm(h).transpose(1, 2)).transpose(1, 2)
        h = h + within(norm(h))
        return F.cross_entropy(head(h.mean(1)), y)

    parts = [p for m in (cut, head, across, within, norm) for p in m.parameters()]
    return training(parts, loss)


def _overlap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    low, high = (
        torch.maximum(a[:, None, :2], b[None, :, :2]),
        torch.minimum(a[:, None, 2:], b[None, :, 2:]),
    )
    both = (high - low).clamp(min=0).prod(2)
    of_a, of_b = ((t[:, 2:] - t[:, :2]).prod(1) for t in (a, b))
    return both / (of_a[:, None] + of_b - both)


@family
def detector_with_suppression(device: str) -> Step:
    body, head = (
        nn.Sequential(conv(3, 16, 2), conv(16, 32, 2)).to(device),
        nn.Conv2d(32, 5, 1).to(device),
    )
    x = torch.randn(1, 3, 32, 32, device=device)

    @torch.no_grad()
    def step() -> list[int]:
        out = head(body(x))[0].flatten(1).t()
        scores = out[:, 4].sigmoid()
        corner = torch.rand(64, 2, device=device) * 16
        boxes = torch.cat([corner, corner + 4 + out[:, 2:4].abs()], 1)
        order = scores.argsort(descending=True)[:20]
        over = (_overlap(boxes[order], boxes[order]) > 0.5).cpu()
        kept: list[int] = []
        for i in range(20):
            if not any(bool(over[i, j]) for j in kept):
                kept.append(i)
        return kept

    return step


@family
def detector_training(device: str) -> Step:
    body, head = (
        nn.Sequential(conv(3, 16, 2), conv(16, 32, 2)).to(device),
        nn.Conv2d(32, 9, 1).to(device),
    )
    x, where = torch.randn(4, 3, 32, 32, device=device), torch.rand(4, 64, device=device) > 0.8
    boxes, kinds = torch.rand(4, 64, 4, device=device), torch.randint(0, 4, (4, 64), device=device)

    def loss() -> torch.Tensor:
        out = head(body(x)).flatten(2).transpose(1, 2)
        seen = F.binary_cross_entropy_with_logits(out[..., 4], where.float())
        place = F.smooth_l1_loss(out[..., :4], boxes, reduction="none").sum(-1) * where
        kind = F.cross_entropy(out[..., 5:].transpose(1, 2), kinds, reduction="none") * where
        return seen + (place + kind).sum() / where.sum().clamp(min=1)

    return training([*body.parameters(), *head.parameters()], loss, "SGD", momentum=0.9)


@family
def set_prediction_with_matching(device: str) -> Step:
    layer = nn.TransformerDecoderLayer(32, 4, 64, batch_first=True)
    dec, out = nn.TransformerDecoder(layer, 1).to(device), nn.Linear(32, 4).to(device)
    queries = nn.Parameter(torch.randn(6, 32, device=device))
    seen, boxes = torch.randn(2, 16, 32, device=device), torch.rand(2, 3, 4, device=device)

    def loss() -> torch.Tensor:
        made = out(dec(queries.expand(2, -1, -1), seen)).sigmoid()
        cost = torch.cdist(made.detach(), boxes, p=1).cpu()
        total = torch.zeros((), device=device)
        for b in range(2):
            left, pairs = list(range(6)), []
            for j in range(3):
                best = min(left, key=lambda i: float(cost[b, i, j]))
                left.remove(best)
                pairs.append(best)
            total = total + F.l1_loss(made[b, pairs], boxes[b])
        return total

    return training([*dec.parameters(), *out.parameters(), queries], loss)


class Unet(nn.Module):
    """Down twice and up again, with what was seen on the way."""

    def __init__(self, channels: int, out: int, width: int = 16) -> None:
        super().__init__()
        w = width
        self.a, self.b, self.c = conv(channels, w), conv(w, 2 * w), conv(2 * w, 4 * w)
        self.u1, self.u2 = (
            nn.ConvTranspose2d(4 * w, 2 * w, 2, 2),
            nn.ConvTranspose2d(2 * w, w, 2, 2),
        )
        self.d1, self.d2, self.out = conv(4 * w, 2 * w), conv(2 * w, w), nn.Conv2d(w, out, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        b = self.d1(torch.cat([self.u1(c), b], 1))
        return self.out(self.d2(torch.cat([self.u2(b), a], 1)))


@family
def segmentation_unet(device: str) -> Step:
    net = Unet(3, 2).to(device)
    x, y = torch.randn(2, 3, 32, 32, device=device), torch.randint(0, 2, (2, 32, 32), device=device)

    def loss() -> torch.Tensor:
        out = net(x)
        share, truth = out.softmax(1), F.one_hot(y, 2).permute(0, 3, 1, 2).float()
        dice = 2 * (share * truth).sum((2, 3)) / (share + truth).sum((2, 3)).clamp(min=1e-6)
        return F.cross_entropy(out, y) + 1 - dice.mean()

    return training(net.parameters(), loss, "RMSprop", momentum=0.9)


@family
def denoising_diffusion(device: str) -> Step:
    net = Unet(4, 3).to(device)
    keep = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100, device=device), 0)
    x = torch.randn(4, 3, 16, 16, device=device)

    def loss() -> torch.Tensor:
        t = torch.randint(0, 100, (4,), device=device)
        noise, a = torch.randn_like(x), keep[t].view(-1, 1, 1, 1)
        seen = a.sqrt() * x + (1 - a).sqrt() * noise
        when = (t.float() / 100).view(-1, 1, 1, 1).expand(-1, 1, 16, 16)
        return F.mse_loss(net(torch.cat([seen, when], 1)), noise)

    return training(net.parameters(), loss)


@family
def denoising_diffusion_samples(device: str) -> Step:
    net = Unet(4, 3).to(device).eval()
    beta = torch.linspace(1e-4, 0.02, 6, device=device)
    keep = torch.cumprod(1 - beta, 0)

    @torch.no_grad()
    def step() -> torch.Tensor:
        x = torch.randn(2, 3, 16, 16, device=device)
        for t in reversed(range(6)):
            when = torch.full((2, 1, 16, 16), t / 6, device=device)
            guess = net(torch.cat([x, when], 1))
            x = (x - beta[t] / (1 - keep[t]).sqrt() * guess) / (1 - beta[t]).sqrt()
            if t:
                x = x + beta[t].sqrt() * torch.randn_like(x)
        return x.clamp(-1, 1).cpu()

    return step


@family
def flow_matching(device: str) -> Step:
    net, x = mlp(3, 64, 64, 2).to(device), torch.randn(64, 2, device=device)

    def loss() -> torch.Tensor:
        start, t = torch.randn_like(x), torch.rand(64, 1, device=device)
        return F.mse_loss(net(torch.cat([(1 - t) * start + t * x, t], 1)), x - start)

    return training(net.parameters(), loss)


@family
def real_nvp(device: str) -> Step:
    nets = nn.ModuleList(mlp(4, 32, 8) for _ in range(4)).to(device)
    x = torch.randn(64, 8, device=device)

    def loss() -> torch.Tensor:
        z, volume = x, torch.zeros(64, device=device)
        for net in nets:
            a, b = z.chunk(2, 1)
            scale, shift = net(a).chunk(2, 1)
            z = torch.cat([b * torch.tanh(scale).exp() + shift, a], 1)
            volume = volume + torch.tanh(scale).sum(1)
        return (0.5 * z.pow(2).sum(1) - volume).mean()

    return training(nets.parameters(), loss)


@family
def contrastive_pairs_of_text_and_picture(device: str) -> Step:
    eye, ear = (
        nn.Sequential(conv(3, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(device),
        nn.EmbeddingBag(100, 16).to(device),
    )
    warmth = nn.Parameter(torch.tensor(2.6593, device=device))
    x, words = (
        torch.randn(8, 3, 16, 16, device=device),
        torch.randint(0, 100, (8, 5), device=device),
    )

    def loss() -> torch.Tensor:
        a, b = F.normalize(eye(x), dim=-1), F.normalize(ear(words), dim=-1)
        scores = warmth.exp() * a @ b.t()
        own = torch.arange(8, device=device)
        return (F.cross_entropy(scores, own) + F.cross_entropy(scores.t(), own)) / 2

    return training([*eye.parameters(), *ear.parameters(), warmth], loss)


@family
def contrastive_views(device: str) -> Step:
    net, x = mlp(64, 64, 32).to(device), torch.randn(16, 64, device=device)

    def loss() -> torch.Tensor:
        views = torch.cat([x + 0.1 * torch.randn_like(x), x * (torch.rand_like(x) > 0.2)])
        z = F.normalize(net(views), dim=1)
        scores = z @ z.t() / 0.5
        scores = scores.masked_fill(torch.eye(32, dtype=torch.bool, device=device), -1e9)
        other = torch.arange(32, device=device).roll(16)
        return F.cross_entropy(scores, other)

    return training(net.parameters(), loss)


@family
def momentum_teacher(device: str) -> Step:
    net, teacher = mlp(64, 64, 16).to(device), mlp(64, 64, 16).to(device).requires_grad_(False)
    x = torch.randn(16, 64, device=device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def step() -> None:
        with torch.no_grad():
            aim = (teacher(x) / 0.04).softmax(-1)
        loss = -(aim * F.log_softmax(net(x + torch.randn_like(x)) / 0.1, -1)).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(net.parameters(), teacher.parameters(), strict=True):
                theirs.mul_(0.996).add_(ours, alpha=0.004)

    return step


@family
def distillation(device: str) -> Step:
    teacher, net = (
        _resnet().to(device).eval(),
        nn.Sequential(conv(3, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)).to(
            device
        ),
    )
    x, y = torch.randn(8, 3, 16, 16, device=device), torch.randint(0, 10, (8,), device=device)

    def loss() -> torch.Tensor:
        with torch.no_grad():
            aim = (teacher(x) / 4).softmax(1)
        out = net(x)
        soft = F.kl_div(F.log_softmax(out / 4, 1), aim, reduction="batchmean") * 16
        return 0.7 * soft + 0.3 * F.cross_entropy(out, y)

    return training(net.parameters(), loss)


@family
def federated_round(device: str) -> Step:
    import copy

    shared = mlp(32, 32, 4).to(device)
    data = [
        (torch.randn(16, 32, device=device), torch.randint(0, 4, (16,), device=device))
        for _ in range(3)
    ]

    def step() -> None:
        found = []
        for x, y in data:
            own = copy.deepcopy(shared)
            optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                F.cross_entropy(own(x), y).backward()
                optimizer.step()
            found.append(own.state_dict())
        mean = {k: torch.stack([f[k] for f in found]).mean(0) for k in found[0]}
        shared.load_state_dict(mean)

    return step


@family
def meta_learning(device: str) -> Step:
    from torch.func import functional_call

    net = mlp(1, 32, 1).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    x = torch.randn(4, 10, 1, device=device)

    def step() -> None:
        optimizer.zero_grad()
        total = torch.zeros((), device=device)
        for task in x:
            weights = dict(net.named_parameters())
            inner = F.mse_loss(functional_call(net, weights, (task,)), task.sin())
            grads = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            fast = {k: w - 0.01 * g for (k, w), g in zip(weights.items(), grads, strict=True)}
            total = total + F.mse_loss(functional_call(net, fast, (task + 1,)), (task + 1).sin())
        total.backward()
        optimizer.step()

    return step


@family
def radiance_field(device: str) -> Step:
    net = mlp(39, 64, 64, 4).to(device)
    rays, colours = torch.randn(32, 2, 3, device=device), torch.rand(32, 3, device=device)

    def loss() -> torch.Tensor:
        t = (
            torch.linspace(2, 6, 16, device=device).expand(32, 16)
            + torch.rand(32, 16, device=device) / 4
        )
        points = rays[:, None, 0] + rays[:, None, 1] * t[..., None]
        waves = [points] + [f(points * 2.0**i) for i in range(6) for f in (torch.sin, torch.cos)]
        out = net(torch.cat(waves, -1))
        far = torch.cat([t[:, 1:] - t[:, :-1], torch.full((32, 1), 1e10, device=device)], -1)
        alpha = 1 - torch.exp(-F.relu(out[..., 3]) * far)
        clear = torch.cumprod(
            torch.cat([torch.ones(32, 1, device=device), 1 - alpha + 1e-10], -1), -1
        )
        weight = alpha * clear[:, :-1]
        return F.mse_loss((weight[..., None] * out[..., :3].sigmoid()).sum(1), colours)

    return training(net.parameters(), loss, "Adam")


@family
def physics_informed(device: str) -> Step:
    net = nn.Sequential(
        nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    ).to(device)
    points = torch.rand(128, 2, device=device)

    def loss() -> torch.Tensor:
        at = points.clone().requires_grad_(True)
        u = net(at)
        (du,) = torch.autograd.grad(u.sum(), at, create_graph=True)
        (dxx,) = torch.autograd.grad(du[:, 0].sum(), at, create_graph=True)
        return (du[:, 1:] + u * du[:, :1] - 0.01 / math.pi * dxx[:, :1]).pow(2).mean()

    return training(net.parameters(), loss, "Adam")


@family
def neural_differential_equation(device: str) -> Step:
    net, start = mlp(2, 32, 2).to(device), torch.randn(32, 2, device=device)
    aim = torch.randn(32, 2, device=device)

    def loss() -> torch.Tensor:
        y, h = start, 0.1
        for _ in range(5):
            k1 = net(y)
            k2 = net(y + h / 2 * k1)
            k3 = net(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + net(y + h * k3))
        return F.l1_loss(y, aim)

    return training(net.parameters(), loss, "RMSprop")


@family
def adversarial_training(device: str) -> Step:
    net = _resnet().to(device)
    x, y = torch.rand(4, 3, 16, 16, device=device), torch.randint(0, 10, (4,), device=device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step() -> None:
        shift = torch.zeros_like(x).uniform_(-0.03, 0.03).requires_grad_(True)
        for _ in range(2):
            (g,) = torch.autograd.grad(F.cross_entropy(net(x + shift), y), shift)
            shift = (shift + 0.01 * g.sign()).clamp(-0.03, 0.03).detach().requires_grad_(True)
        optimizer.zero_grad()
        F.cross_entropy(net((x + shift.detach()).clamp(0, 1)), y).backward()
        optimizer.step()

    return step


@family
def mixup(device: str) -> Step:
    net = mlp(32, 64, 10).to(device)
    x, y = torch.randn(16, 32, device=device), torch.randint(0, 10, (16,), device=device)

    def loss() -> torch.Tensor:
        share = float(torch.distributions.Beta(0.2, 0.2).sample())
        other = torch.randperm(16, device=device)
        out = net(share * x + (1 - share) * x[other])
        return share * F.cross_entropy(out, y) + (1 - share) * F.cross_entropy(out, y[other])

    return training(net.parameters(), loss)


@family
def text_classification(device: str) -> Step:
    bag, head = nn.EmbeddingBag(500, 32, mode="mean").to(device), nn.Linear(32, 4).to(device)
    words, starts = torch.randint(0, 500, (60,)), torch.tensor([0, 10, 25, 40])
    y = torch.randint(0, 4, (4,))

    def loss() -> torch.Tensor:
        out = head(bag(words.to(device), starts.to(device)))
        return F.cross_entropy(out, y.to(device))

    return training([*bag.parameters(), *head.parameters()], loss, "SGD")


@family
def word_vectors(device: str) -> Step:
    ins, outs = nn.Embedding(200, 16).to(device), nn.Embedding(200, 16).to(device)
    a, b = (torch.randint(0, 200, (64,), device=device) for _ in range(2))
    noise = torch.randint(0, 200, (64, 5), device=device)

    def loss() -> torch.Tensor:
        near = F.logsigmoid((ins(a) * outs(b)).sum(1))
        far = F.logsigmoid(-torch.bmm(outs(noise), ins(a).unsqueeze(2)).squeeze(2)).sum(1)
        return -(near + far).mean()

    return training([*ins.parameters(), *outs.parameters()], loss, "Adagrad")


@family
def speech_with_ctc(device: str) -> Step:
    body, rnn = nn.Conv1d(40, 32, 3, 2, 1).to(device), nn.GRU(32, 32, bidirectional=True).to(device)
    head, x = nn.Linear(64, 30).to(device), torch.randn(4, 40, 60, device=device)
    said, length = torch.randint(1, 30, (4, 8)), torch.tensor([8, 7, 6, 8])

    def loss() -> torch.Tensor:
        h, _ = rnn(F.relu(body(x)).permute(2, 0, 1))
        return F.ctc_loss(head(h).log_softmax(-1), said.to(device), torch.full((4,), 30), length)

    return training([*body.parameters(), *rnn.parameters(), *head.parameters()], loss)


@family
def spectrogram_classifier(device: str) -> Step:
    head, window = (
        nn.Sequential(conv(1, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)).to(
            device
        ),
        torch.hann_window(256, device=device),
    )
    x, y = torch.randn(4, 4000, device=device), torch.randint(0, 5, (4,), device=device)

    def loss() -> torch.Tensor:
        seen = (
            torch.stft(x, 256, 128, window=window, return_complex=True).abs().clamp(min=1e-5).log()
        )
        return F.cross_entropy(head(seen.unsqueeze(1)), y)

    return training(head.parameters(), loss)


@family
def dilated_causal_convolutions(device: str) -> Step:
    layers = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=2**i) for i in range(4)).to(device)
    first, last = nn.Conv1d(1, 16, 1).to(device), nn.Conv1d(16, 64, 1).to(device)
    x, y = torch.randn(2, 1, 64, device=device), torch.randint(0, 64, (2, 64), device=device)

    def loss() -> torch.Tensor:
        h = first(x)
        for i, layer in enumerate(layers):
            a, b = layer(F.pad(h, (2**i, 0))).chunk(2, 1)
            h = h + torch.tanh(a) * torch.sigmoid(b)
        return F.cross_entropy(last(h), y)

    return training([*layers.parameters(), *first.parameters(), *last.parameters()], loss)


@family
def video_convolutions(device: str) -> Step:
    net = nn.Sequential(nn.Conv3d(3, 8, 3, 1, 1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
                        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8, 4))  # fmt: skip
    net.to(device)
    x, y = torch.randn(2, 3, 4, 16, 16, device=device), torch.randint(0, 4, (2,), device=device)
    return training(net.parameters(), lambda: F.cross_entropy(net(x), y))


@family
def point_cloud(device: str) -> Step:
    body, head = (
        nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1)).to(
            device
        ),
        nn.Linear(64, 8).to(device),
    )
    x, y = torch.randn(4, 3, 128, device=device), torch.randint(0, 8, (4,), device=device)
    return training(
        [*body.parameters(), *head.parameters()],
        lambda: F.cross_entropy(head(body(x).max(2).values), y),
    )


@family
def spatial_transformer(device: str) -> Step:
    look, net = (
        nn.Sequential(nn.Flatten(), mlp(256, 32, 6)).to(device),
        nn.Sequential(nn.Flatten(), mlp(256, 32, 10)).to(device),
    )
    x, y = torch.randn(8, 1, 16, 16, device=device), torch.randint(0, 10, (8,), device=device)

    def loss() -> torch.Tensor:
        grid = F.affine_grid(look(x).view(-1, 2, 3), x.shape, align_corners=False)
        return F.cross_entropy(net(F.grid_sample(x, grid, align_corners=False)), y)

    return training([*look.parameters(), *net.parameters()], loss)


@family
def mixture_of_experts(device: str) -> Step:
    gate, experts = (
        nn.Linear(32, 4).to(device),
        nn.ModuleList(mlp(32, 64, 32) for _ in range(4)).to(device),
    )
    x = torch.randn(64, 32, device=device)

    def loss() -> torch.Tensor:
        share, which = gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(experts):
            row, slot = torch.where(which == i)
            out.index_add_(0, row, share[row, slot, None] * expert(x[row]))
        return out.pow(2).mean()

    return training([*gate.parameters(), *experts.parameters()], loss)


@family
def early_stopping_with_loader(device: str) -> Step:
    from torch.utils.data import DataLoader, TensorDataset

    net = mlp(16, 32, 2).to(device)
    loader = DataLoader(
        TensorDataset(torch.randn(64, 16), torch.randint(0, 2, (64,))), 16, shuffle=True
    )
    optimizer, best = torch.optim.Adam(net.parameters()), [math.inf]

    def step() -> None:
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
        best[0] = min(best[0], total)

    return step


@family
def language_model_with_cache(device: str) -> Step:
    q, k, v, out = (nn.Linear(32, 32).to(device) for _ in range(4))
    first = torch.randn(2, 1, 32, device=device)

    @torch.no_grad()
    def step() -> torch.Tensor:
        keys = values = torch.empty(2, 4, 0, 8, device=device)
        x = first
        for _ in range(6):
            heads = [m(x).view(2, 1, 4, 8).transpose(1, 2) for m in (q, k, v)]
            keys, values = torch.cat([keys, heads[1]], 2), torch.cat([values, heads[2]], 2)
            y = F.scaled_dot_product_attention(heads[0], keys, values)
            x = out(y.transpose(1, 2).reshape(2, 1, 32))
        return x

    return step


@family
def capsules(device: str) -> Step:
    w = nn.Parameter(torch.randn(10, 24, 8, 4, device=device) * 0.1)
    x, y = torch.randn(8, 24, 4, device=device), torch.randint(0, 10, (8,), device=device)

    def squash(s: torch.Tensor) -> torch.Tensor:
        n = s.norm(dim=-1, keepdim=True)
        return n / (1 + n**2) * s

    def loss() -> torch.Tensor:
        u = torch.einsum("jide,bie->bjid", w, x)
        route = torch.zeros(8, 10, 24, 1, device=device)
        for i in range(3):
            v = squash((route.softmax(1) * u).sum(2))
            if i < 2:
                route = route + (u.detach() * v.detach().unsqueeze(2)).sum(-1, keepdim=True)
        return F.multi_margin_loss(v.norm(dim=-1), y)

    return training([w], loss)
