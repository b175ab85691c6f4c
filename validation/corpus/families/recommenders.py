"""Recommenders, state-space models and graph networks, written plainly."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from validation.corpus.case import Case, Family, Step, training
from validation.corpus.families.classics import mlp

family = Family("recommenders")
states = Family("state-space")


def cases() -> list[Case]:
    return family.cases + states.cases


def _rows(device: str, fields: int = 4, n: int = 32) -> tuple[torch.Tensor, ...]:
    return (
        torch.randn(n, 5, device=device),
        torch.randint(0, 100, (n, fields), device=device),
        torch.randint(0, 2, (n,), device=device).float(),
    )


def _tables(fields: int, width: int, device: str) -> nn.ModuleList:
    return nn.ModuleList(nn.Embedding(100, width) for _ in range(fields)).to(device)


def _looked_up(tables: nn.ModuleList, ids: torch.Tensor) -> torch.Tensor:
    return torch.stack([table(ids[:, i]) for i, table in enumerate(tables)], 1)


def _click(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(out.squeeze(-1), y)


@family
def dlrm(device: str) -> Step:
    numbers, ids, y = _rows(device)
    bags = nn.ModuleList(nn.EmbeddingBag(100, 8, mode="sum") for _ in range(4)).to(device)
    low, top = mlp(5, 16, 8).to(device), mlp(18, 16, 1).to(device)
    rows, cols = torch.tril_indices(5, 5, -1).unbind()

    def loss() -> torch.Tensor:
        dense = low(numbers)
        each = torch.stack([dense] + [bag(ids[:, i : i + 1]) for i, bag in enumerate(bags)], 1)
        pairs = torch.bmm(each, each.transpose(1, 2))[:, rows.to(device), cols.to(device)]
        return _click(top(torch.cat([dense, pairs], 1)), y)

    return training([*bags.parameters(), *low.parameters(), *top.parameters()], loss, "SGD")


@family
def two_towers(device: str) -> Step:
    users, things = nn.Embedding(200, 16).to(device), nn.Embedding(200, 16).to(device)
    left, right = mlp(16, 32, 16).to(device), mlp(16, 32, 16).to(device)
    u, i = (torch.randint(0, 200, (32,), device=device) for _ in range(2))

    def loss() -> torch.Tensor:
        scores = F.normalize(left(users(u))) @ F.normalize(right(things(i))).t() / 0.05
        return F.cross_entropy(scores, torch.arange(32, device=device))

    return training([p for m in (users, things, left, right) for p in m.parameters()], loss)


@family
def two_towers_retrieve(device: str) -> Step:
    users, things = torch.randn(8, 16, device=device), torch.randn(1000, 16, device=device)
    return lambda: (users @ things.t()).topk(10).indices.cpu().tolist()


@family
def factorisation_machine(device: str) -> Step:
    _, ids, y = _rows(device)
    flat, wide = nn.Embedding(400, 1).to(device), nn.Embedding(400, 8).to(device)
    shift = torch.arange(4, device=device) * 100

    def loss() -> torch.Tensor:
        v = wide(ids + shift)
        pairs = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        return _click(flat(ids + shift).sum((1, 2)) + pairs, y)

    return training([*flat.parameters(), *wide.parameters()], loss, "Adagrad")


@family
def deep_factorisation_machine(device: str) -> Step:
    numbers, ids, y = _rows(device)
    tables, deep = _tables(4, 8, device), mlp(37, 32, 1).to(device)

    def loss() -> torch.Tensor:
        v = _looked_up(tables, ids)
        pairs = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1, keepdim=True)
        return _click(pairs + deep(torch.cat([numbers, v.flatten(1)], 1)), y)

    return training([*tables.parameters(), *deep.parameters()], loss)


@family
def wide_and_deep(device: str) -> Step:
    numbers, ids, y = _rows(device)
    wide, tables, deep = (
        nn.EmbeddingBag(400, 1, mode="sum").to(device),
        _tables(4, 8, device),
        mlp(37, 32, 1).to(device),
    )

    def loss() -> torch.Tensor:
        h = torch.cat([numbers, _looked_up(tables, ids).flatten(1)], 1)
        return _click(wide(ids) + deep(h), y)

    return training([*wide.parameters(), *tables.parameters(), *deep.parameters()], loss)


@family
def cross_network(device: str) -> Step:
    numbers, ids, y = _rows(device)
    tables, layers = (
        _tables(4, 8, device),
        nn.ModuleList(nn.Linear(37, 37) for _ in range(2)).to(device),
    )
    out = nn.Linear(37, 1).to(device)

    def loss() -> torch.Tensor:
        first = x = torch.cat([numbers, _looked_up(tables, ids).flatten(1)], 1)
        for layer in layers:
            x = first * layer(x) + x
        return _click(out(x), y)

    return training([*tables.parameters(), *layers.parameters(), *out.parameters()], loss)


@family
def matrix_factorisation(device: str) -> Step:
    users, things = nn.Embedding(200, 8).to(device), nn.Embedding(200, 8).to(device)
    u, i = (torch.randint(0, 200, (64,), device=device) for _ in range(2))
    stars = torch.rand(64, device=device) * 5
    parts = [*users.parameters(), *things.parameters()]
    return training(parts, lambda: F.mse_loss((users(u) * things(i)).sum(1), stars), "SGD")


@family
def pairwise_ranking(device: str) -> Step:
    users, things = nn.Embedding(200, 8).to(device), nn.Embedding(200, 8).to(device)
    u, i, j = (torch.randint(0, 200, (64,), device=device) for _ in range(3))

    def loss() -> torch.Tensor:
        return -F.logsigmoid((users(u) * (things(i) - things(j))).sum(1)).mean()

    return training([*users.parameters(), *things.parameters()], loss)


@family
def neural_collaborative_filtering(device: str) -> Step:
    a, b, c, d = (nn.Embedding(200, 8).to(device) for _ in range(4))
    deep, out = mlp(16, 16, 8).to(device), nn.Linear(16, 1).to(device)
    u, i = (torch.randint(0, 200, (64,), device=device) for _ in range(2))
    y = torch.randint(0, 2, (64,), device=device).float()

    def loss() -> torch.Tensor:
        return _click(out(torch.cat([a(u) * b(i), deep(torch.cat([c(u), d(i)], 1))], 1)), y)

    return training([p for m in (a, b, c, d, deep, out) for p in m.parameters()], loss)


@family
def interest_by_attention(device: str) -> Step:
    things, gate, out = (
        nn.Embedding(200, 8).to(device),
        mlp(32, 16, 1).to(device),
        mlp(16, 16, 1).to(device),
    )
    past, now = (
        torch.randint(0, 200, (16, 10), device=device),
        torch.randint(0, 200, (16,), device=device),
    )
    y = torch.randint(0, 2, (16,), device=device).float()

    def loss() -> torch.Tensor:
        h, q = things(past), things(now)[:, None].expand(-1, 10, -1)
        w = gate(torch.cat([h, q, h - q, h * q], -1))
        return _click(out(torch.cat([(w * h).sum(1), q[:, 0]], 1)), y)

    return training([p for m in (things, gate, out) for p in m.parameters()], loss)


@family
def sequential_self_attention(device: str) -> Step:
    things, places = nn.Embedding(200, 16).to(device), nn.Embedding(12, 16).to(device)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).to(device)
    seen = torch.randint(0, 200, (8, 13), device=device)
    mask = nn.Transformer.generate_square_subsequent_mask(12, device=device)

    def loss() -> torch.Tensor:
        h = body(things(seen[:, :-1]) + places.weight, mask, is_causal=True)
        return F.cross_entropy((h @ things.weight.t()).flatten(0, 1), seen[:, 1:].flatten())

    return training([p for m in (things, places, body) for p in m.parameters()], loss)


@family
def session_by_gru(device: str) -> Step:
    things, rnn = nn.Embedding(200, 16).to(device), nn.GRU(16, 16, batch_first=True).to(device)
    seen, after = (
        torch.randint(0, 200, (8, 10), device=device),
        torch.randint(0, 200, (8,), device=device),
    )

    def loss() -> torch.Tensor:
        return F.cross_entropy(rnn(things(seen))[1][0] @ things.weight.t(), after)

    return training([*things.parameters(), *rnn.parameters()], loss)


@family
def several_tasks_with_experts(device: str) -> Step:
    numbers, _, y = _rows(device)
    experts = nn.ModuleList(mlp(5, 16, 8) for _ in range(3)).to(device)
    gates = nn.ModuleList(nn.Linear(5, 3) for _ in range(2)).to(device)
    tops = nn.ModuleList(nn.Linear(8, 1) for _ in range(2)).to(device)

    def loss() -> torch.Tensor:
        each = torch.stack([e(numbers) for e in experts], 1)
        total = torch.zeros((), device=device)
        for gate, top in zip(gates, tops, strict=True):
            total = total + _click(top((gate(numbers).softmax(1)[..., None] * each).sum(1)), y)
        return total

    return training([*experts.parameters(), *gates.parameters(), *tops.parameters()], loss)


@family
def autoencoder_of_ratings(device: str) -> Step:
    net, x = mlp(300, 32, 300).to(device), (torch.rand(16, 300, device=device) < 0.05).float()

    def loss() -> torch.Tensor:
        return -(F.log_softmax(net(F.dropout(F.normalize(x), 0.5)), 1) * x).sum(1).mean()

    return training(net.parameters(), loss)


class Mamba(nn.Module):
    """A selective state-space layer, its scan one step after another."""

    def __init__(self, width: int = 16, state: int = 8) -> None:
        super().__init__()
        self.inner, self.state = 2 * width, state
        self.into, self.out = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)
        self.mix = nn.Conv1d(2 * width, 2 * width, 4, padding=3, groups=2 * width)
        self.choose, self.pace = nn.Linear(2 * width, 1 + 2 * state), nn.Linear(1, 2 * width)
        self.a = nn.Parameter(torch.arange(1.0, state + 1).repeat(2 * width, 1).log())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        h, gate = self.into(x).chunk(2, -1)
        h = F.silu(self.mix(h.transpose(1, 2))[..., :n].transpose(1, 2))
        pace, b, c = self.choose(h).split([1, self.state, self.state], -1)
        pace = F.softplus(self.pace(pace))
        keep = torch.exp(pace[..., None] * -self.a.exp())
        add = pace[..., None] * b[:, :, None] * h[..., None]
        s, out = torch.zeros_like(add[:, 0]), []
        for t in range(n):
            s = keep[:, t] * s + add[:, t]
            out.append((s * c[:, t, None]).sum(-1))
        return self.out(torch.stack(out, 1) * F.silu(gate))


@states
def mamba_by_a_loop(device: str) -> Step:
    net, x = Mamba().to(device), torch.randn(2, 12, 16, device=device)
    return training(net.parameters(), lambda: net(x).pow(2).mean())


@states
def mamba_inference(device: str) -> Step:
    net, x = Mamba().to(device).eval(), torch.randn(2, 12, 16, device=device)

    def step() -> torch.Tensor:
        with torch.inference_mode():
            return net(x)

    return step


@states
def diagonal_state_space_by_fourier(device: str) -> Step:
    a = nn.Parameter(-torch.rand(16, 8, device=device))
    b, c = (nn.Parameter(torch.randn(16, 8, device=device)) for _ in range(2))
    x = torch.randn(4, 16, 64, device=device)

    def loss() -> torch.Tensor:
        kernel = (b * c)[..., None] * torch.exp(a[..., None] * torch.arange(64, device=device))
        k, u = torch.fft.rfft(kernel.sum(1), n=128), torch.fft.rfft(x, n=128)
        return torch.fft.irfft(k * u, n=128)[..., :64].pow(2).mean()

    return training([a, b, c], loss)


@states
def linear_attention(device: str) -> Step:
    qkv, x = nn.Linear(32, 96).to(device), torch.randn(2, 16, 32, device=device)

    def loss() -> torch.Tensor:
        q, k, v = (t.view(2, 16, 4, 8).transpose(1, 2) for t in qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        seen = (k[..., None] * v[..., None, :]).cumsum(2)
        out = (q[..., None, :] @ seen).squeeze(-2) / (q * k.cumsum(2)).sum(-1, keepdim=True)
        return out.pow(2).mean()

    return training(qkv.parameters(), loss)


@states
def retention_in_chunks(device: str) -> Step:
    qkv, x = nn.Linear(32, 96).to(device), torch.randn(2, 32, 32, device=device)
    place = torch.arange(8, device=device)
    fade = torch.where(place[:, None] >= place, 0.9 ** (place[:, None] - place).float(), 0.0)

    def loss() -> torch.Tensor:
        state, total = torch.zeros(2, 32, 32, device=device), torch.zeros((), device=device)
        for part in x.split(8, 1):
            q, k, v = qkv(part).chunk(3, -1)
            out = ((q @ k.transpose(1, 2)) * fade) @ v + (
                q * 0.9 ** (place + 1)[:, None].float()
            ) @ state
            state = 0.9**8 * state + (k * 0.9 ** (7 - place)[:, None].float()).transpose(1, 2) @ v
            total = total + out.pow(2).mean()
        return total

    return training(qkv.parameters(), loss)


@states
def delta_rule(device: str) -> Step:
    qkv, beta = nn.Linear(16, 48).to(device), nn.Linear(16, 1).to(device)
    x = torch.randn(2, 10, 16, device=device)

    def loss() -> torch.Tensor:
        q, k, v = qkv(x).chunk(3, -1)
        k, rate = F.normalize(k, dim=-1), beta(x).sigmoid()
        state, out = torch.zeros(2, 16, 16, device=device), []
        for t in range(10):
            old = (state * k[:, t, None]).sum(-1)
            state = state + rate[:, t, None] * (v[:, t] - old)[..., None] * k[:, t, None]
            out.append((state @ q[:, t, :, None]).squeeze(-1))
        return torch.stack(out, 1).pow(2).mean()

    return training([*qkv.parameters(), *beta.parameters()], loss)


@states
def gated_linear_recurrence_by_doubling(device: str) -> Step:
    gate, into = nn.Linear(16, 16).to(device), nn.Linear(16, 16).to(device)
    x = torch.randn(2, 32, 16, device=device)

    def loss() -> torch.Tensor:
        a, h, d = gate(x).sigmoid(), into(x), 1
        while d < 32:
            h = h + a * F.pad(h[:, :-d], (0, 0, d, 0))
            a = a * F.pad(a[:, :-d], (0, 0, d, 0))
            d *= 2
        return h.pow(2).mean() / math.sqrt(2)

    return training([*gate.parameters(), *into.parameters()], loss)
