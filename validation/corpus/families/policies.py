"""Preference and policy optimisation, and reinforcement learning, written plainly."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from validation.corpus.case import Case, Family, Step, training
from validation.corpus.families.classics import Gpt, mlp

preference = Family("preference-optimisation")
reinforcement = Family("reinforcement-learning")


def cases() -> list[Case]:
    return preference.cases + reinforcement.cases


def said(model: nn.Module, text: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The log-probability of each answer, its tokens marked by the mask."""
    scores = model(text[:, :-1]).log_softmax(-1)
    each = scores.gather(2, text[:, 1:, None]).squeeze(2)
    return (each * mask[:, 1:]).sum(1)


def _texts(device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    good, bad = (torch.randint(0, 128, (4, 24), device=device) for _ in range(2))
    mask = (torch.arange(24, device=device) > 8).float().expand(4, -1)
    return good, bad, mask


Pair = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

PAIRS: dict[str, Pair] = {
    "dpo": lambda w, r: -F.logsigmoid(0.1 * (w - r)).mean(),
    "dpo-hinge": lambda w, r: torch.relu(1 - 0.1 * (w - r)).mean(),
    "ipo": lambda w, r: ((w - r) - 5).pow(2).mean(),
    "robust-dpo": lambda w, r: (
        -0.9 * F.logsigmoid(0.1 * (w - r)) + 0.1 * F.logsigmoid(-0.1 * (w - r))
    ).mean(),
    "kto": lambda w, r: (1 - torch.sigmoid(0.1 * w)).mean() + torch.sigmoid(0.1 * r).mean(),
}
"""Losses of how much likelier both answers became than under the model at the start."""


def _pairs(loss_of: Pair, device: str) -> Step:
    model = Gpt().to(device)
    start = copy.deepcopy(model).eval().requires_grad_(False)
    good, bad, mask = _texts(device)

    def loss() -> torch.Tensor:
        both, marks = torch.cat([good, bad]), torch.cat([mask, mask])
        with torch.no_grad():
            before = said(start, both, marks)
        won, lost = (said(model, both, marks) - before).chunk(2)
        return loss_of(won, lost)

    return training(model.parameters(), loss)


for _name, _loss in PAIRS.items():
    preference.add(_name, partial(_pairs, _loss))


@preference
def simpo(device: str) -> Step:
    model, (good, bad, mask) = Gpt().to(device), _texts(device)

    def loss() -> torch.Tensor:
        length = mask[:, 1:].sum(1)
        apart = said(model, good, mask) / length - said(model, bad, mask) / length
        return -F.logsigmoid(2 * apart - 0.5).mean()

    return training(model.parameters(), loss)


@preference
def orpo(device: str) -> Step:
    model, (good, bad, mask) = Gpt().to(device), _texts(device)

    def loss() -> torch.Tensor:
        length = mask[:, 1:].sum(1)
        w, r = said(model, good, mask) / length, said(model, bad, mask) / length
        odds = (w - r) - (torch.log1p(-torch.exp(w)) - torch.log1p(-torch.exp(r)))
        return -w.mean() - 0.1 * F.logsigmoid(odds).mean()

    return training(model.parameters(), loss)


@preference
def reward_model(device: str) -> Step:
    model, (good, bad, _) = Gpt().to(device), _texts(device)
    head = nn.Linear(128, 1).to(device)

    def loss() -> torch.Tensor:
        w, r = head(model(torch.cat([good, bad])))[:, -1, 0].chunk(2)
        return -F.logsigmoid(w - r).mean()

    return training([*model.parameters(), *head.parameters()], loss)


def _answers(model: nn.Module, asked: torch.Tensor, n: int) -> torch.Tensor:
    text = asked
    with torch.no_grad():
        for _ in range(n):
            share = model(text)[:, -1].softmax(-1)
            text = torch.cat([text, torch.multinomial(share, 1)], 1)
    return text


def _policy(advantage: Callable[[torch.Tensor], torch.Tensor], device: str) -> Step:
    model = Gpt().to(device)
    start = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    asked = torch.randint(0, 128, (8, 6), device=device)
    mask = (torch.arange(14, device=device) >= 6).float().expand(8, -1)

    def step() -> float:
        text = _answers(model, asked, 8)
        reward = (text == 7).float().mean(1)
        gain = advantage(reward)
        with torch.no_grad():
            old, first = said(model, text, mask), said(start, text, mask)
        for _ in range(2):
            new = said(model, text, mask)
            ratio = (new - old).exp()
            kept = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
            far = (first - new).exp() - (first - new) - 1
            loss = (0.04 * far - kept).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return reward.mean().item()

    return step


def _grouped(reward: torch.Tensor) -> torch.Tensor:
    of_group = reward.view(2, 4)
    scaled = (of_group - of_group.mean(1, keepdim=True)) / (of_group.std(1, keepdim=True) + 1e-4)
    return scaled.flatten()


preference.add("grpo", partial(_policy, _grouped))
preference.add("rloo", partial(_policy, lambda r: r - (r.sum() - r) / (len(r) - 1)))
preference.add("reinforce-of-texts", partial(_policy, lambda r: r - r.mean()))


class CartPole:
    """A pole on a cart, in plain Python: four numbers, two ways to push."""

    def reset(self) -> list[float]:
        self.state, self.n = [random.uniform(-0.05, 0.05) for _ in range(4)], 0
        return self.state

    def step(self, way: int) -> tuple[list[float], float, bool]:
        import math

        x, v, a, w = self.state
        force = 10.0 if way else -10.0
        sine, cosine = math.sin(a), math.cos(a)
        pushed = (force + 0.05 * w * w * sine) / 1.1
        turn = (9.8 * sine - cosine * pushed) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        push = pushed - 0.05 * turn * cosine / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * push, a + 0.02 * w, w + 0.02 * turn]
        self.n += 1
        return self.state, 1.0, abs(self.state[2]) > 0.21 or self.n > 8


@reinforcement
def deep_q_learning(device: str) -> Step:
    net, aim = mlp(4, 32, 2).to(device), mlp(4, 32, 2).to(device)
    aim.load_state_dict(net.state_dict())
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, amsgrad=True)
    world, kept = CartPole(), deque(maxlen=1000)
    state = [torch.tensor([world.reset()], device=device)]

    def step() -> None:
        for _ in range(16):
            if random.random() < 0.1:
                way = torch.tensor([[random.randrange(2)]], device=device)
            else:
                with torch.no_grad():
                    way = net(state[0]).max(1).indices.view(1, 1)
            seen, reward, over = world.step(way.item())
            after = torch.tensor([seen], device=device)
            kept.append((state[0], way, after, torch.tensor([reward], device=device), over))
            state[0] = torch.tensor([world.reset()], device=device) if over else after
        s, a, n, r, over = zip(*random.sample(list(kept), 16), strict=True)
        going = torch.tensor([not o for o in over], device=device)
        value = net(torch.cat(s)).gather(1, torch.cat(a))
        with torch.no_grad():
            best = aim(torch.cat(n)).max(1).values * going
        loss = F.smooth_l1_loss(value, (best * 0.99 + torch.cat(r)).unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(net.parameters(), 100)
        optimizer.step()
        mine = net.state_dict()
        aim.load_state_dict({k: 0.005 * mine[k] + 0.995 * v for k, v in aim.state_dict().items()})

    return step


@reinforcement
def reinforce(device: str) -> Step:
    net = mlp(4, 32, 2).to(device)
    optimizer, world = torch.optim.Adam(net.parameters(), lr=1e-2), CartPole()

    def step() -> None:
        state, told, rewards = world.reset(), [], []
        for _ in range(8):
            share = torch.distributions.Categorical(
                logits=net(torch.tensor(state, device=device).unsqueeze(0))
            )
            way = share.sample()
            told.append(share.log_prob(way))
            state, reward, over = world.step(int(way))
            rewards.append(reward)
            if over:
                break
        total, back = 0.0, []
        for r in reversed(rewards):
            total = r + 0.99 * total
            back.insert(0, total)
        gains = torch.tensor(back, device=device)
        gains = gains - gains.mean()
        optimizer.zero_grad()
        (-torch.cat(told) * gains).sum().backward()
        optimizer.step()

    return step


@reinforcement
def actor_critic(device: str) -> Step:
    body, act, judge = (
        m.to(device) for m in (nn.Linear(4, 32), nn.Linear(32, 2), nn.Linear(32, 1))
    )
    parts = [*body.parameters(), *act.parameters(), *judge.parameters()]
    states = torch.randn(16, 8, 4, device=device)
    rewards, going = torch.rand(16, 8, device=device), torch.rand(16, 8, device=device) > 0.1

    def loss() -> torch.Tensor:
        h = F.relu(body(states))
        share, value = torch.distributions.Categorical(logits=act(h)), judge(h).squeeze(-1)
        way, back = share.sample(), torch.zeros(8, device=device)
        found = []
        for t in reversed(range(16)):
            back = rewards[t] + 0.99 * back * going[t]
            found.insert(0, back)
        gain = torch.stack(found) - value
        chosen = -(share.log_prob(way) * gain.detach()).mean()
        return chosen + 0.5 * gain.pow(2).mean() - 0.01 * share.entropy().mean()

    return training(parts, loss, "RMSprop")


@reinforcement
def proximal_policy(device: str) -> Step:
    act, judge = mlp(8, 64, 4).to(device), mlp(8, 64, 1).to(device)
    optimizer = torch.optim.Adam([*act.parameters(), *judge.parameters()], lr=3e-4)
    seen, rewards = torch.randn(32, 4, 8, device=device), torch.rand(32, 4, device=device)

    def step() -> None:
        with torch.no_grad():
            share = torch.distributions.Categorical(logits=act(seen))
            way = share.sample()
            old, value = share.log_prob(way), judge(seen).squeeze(-1)
            gain, last = torch.zeros_like(rewards), torch.zeros(4, device=device)
            for t in reversed(range(31)):
                last = rewards[t] + 0.99 * value[t + 1] - value[t] + 0.94 * last
                gain[t] = last
            aim = gain + value
        flat = [x.flatten(0, 1) for x in (seen, way, old, gain, aim)]
        for part in torch.randperm(128).to(device).split(64):
            s, a, o, g, v = (x[part] for x in flat)
            g = (g - g.mean()) / (g.std() + 1e-8)
            new = torch.distributions.Categorical(logits=act(s))
            ratio = (new.log_prob(a) - o).exp()
            kept = torch.max(-g * ratio, -g * ratio.clamp(0.8, 1.2)).mean()
            loss = kept + 0.5 * F.mse_loss(judge(s).squeeze(-1), v) - 0.01 * new.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(act.parameters(), 0.5)
            optimizer.step()

    return step


@reinforcement
def soft_actor_critic(device: str) -> Step:
    act, one, two = mlp(8, 32, 4).to(device), mlp(10, 32, 1).to(device), mlp(10, 32, 1).to(device)
    late = copy.deepcopy(one).requires_grad_(False)
    q = torch.optim.Adam([*one.parameters(), *two.parameters()], lr=3e-4)
    p = torch.optim.Adam(act.parameters(), lr=3e-4)
    s, a = torch.randn(32, 8, device=device), torch.rand(32, 2, device=device)
    r, n = torch.rand(32, 1, device=device), torch.randn(32, 8, device=device)

    def draw(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, spread = act(x).chunk(2, 1)
        share = torch.distributions.Normal(mean, spread.clamp(-5, 2).exp())
        raw = share.rsample()
        way = torch.tanh(raw)
        return way, (share.log_prob(raw) - torch.log(1 - way.pow(2) + 1e-6)).sum(1, keepdim=True)

    def step() -> None:
        with torch.no_grad():
            way, told = draw(n)
            aim = r + 0.99 * (late(torch.cat([n, way], 1)) - 0.2 * told)
        both = torch.cat([s, a], 1)
        q.zero_grad()
        (F.mse_loss(one(both), aim) + F.mse_loss(two(both), aim)).backward()
        q.step()
        way, told = draw(s)
        both = torch.cat([s, way], 1)
        p.zero_grad()
        (0.2 * told - torch.min(one(both), two(both))).mean().backward()
        p.step()
        with torch.no_grad():
            for x, y in zip(late.parameters(), one.parameters(), strict=True):
                x.lerp_(y, 0.005)

    return step


@reinforcement
def deterministic_policy_gradient(device: str) -> Step:
    act, judge = mlp(8, 32, 2).to(device), mlp(10, 32, 1).to(device)
    p, q = (torch.optim.Adam(m.parameters(), lr=1e-3) for m in (act, judge))
    s, a, r = (torch.randn(32, k, device=device) for k in (8, 2, 1))

    def step() -> None:
        q.zero_grad()
        F.mse_loss(judge(torch.cat([s, a], 1)), r).backward()
        q.step()
        p.zero_grad()
        (-judge(torch.cat([s, torch.tanh(act(s))], 1)).mean()).backward()
        p.step()

    return step


@reinforcement
def categorical_value_distribution(device: str) -> Step:
    net, s = mlp(8, 32, 3 * 21).to(device), torch.randn(16, 8, device=device)
    z, r = torch.linspace(-5, 5, 21, device=device), torch.rand(16, 1, device=device)
    way = torch.randint(0, 3, (16,), device=device)

    def loss() -> torch.Tensor:
        share = net(s).view(16, 3, 21)
        with torch.no_grad():
            best = share.softmax(-1).mul(z).sum(-1).argmax(1)
            after = share.softmax(-1)[torch.arange(16, device=device), best]
            b = ((r + 0.99 * z).clamp(-5, 5) + 5) / 0.5
            low, high = b.floor().long(), b.ceil().long()
            aim = torch.zeros(16, 21, device=device)
            aim.scatter_add_(1, low, after * (high.float() - b))
            aim.scatter_add_(1, high, after * (b - low.float()))
        told = share[torch.arange(16, device=device), way].log_softmax(-1)
        return -(aim * told).sum(1).mean()

    return training(net.parameters(), loss)


@reinforcement
def curiosity(device: str) -> Step:
    know, guess = mlp(8, 32, 16).to(device).requires_grad_(False), mlp(8, 32, 16).to(device)
    s = torch.randn(64, 8, device=device)
    return training(guess.parameters(), lambda: F.mse_loss(guess(s), know(s)))


@reinforcement
def decision_transformer(device: str) -> Step:
    back, see, do = (nn.Linear(k, 32).to(device) for k in (1, 8, 2))
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    body, out = (
        nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).to(device),
        nn.Linear(32, 2).to(device),
    )
    r, s, a = (torch.randn(4, 10, k, device=device) for k in (1, 8, 2))
    mask = torch.triu(torch.full((30, 30), float("-inf"), device=device), 1)

    def loss() -> torch.Tensor:
        h = torch.stack([back(r), see(s), do(a)], 2).flatten(1, 2)
        return F.mse_loss(out(body(h, mask)[:, 1::3]), a)

    return training([p for m in (back, see, do, body, out) for p in m.parameters()], loss)


@reinforcement
def tabular_q_on_the_device(device: str) -> Step:
    table = torch.zeros(25, 4, device=device)

    def step() -> None:
        at = torch.randint(0, 25, (64,), device=device)
        way = table[at].argmax(1)
        after = (at + way + 1) % 25
        gain = (after == 24).float() + 0.9 * table[after].max(1).values
        table[at, way] += 0.1 * (gain - table[at, way])

    return step


@reinforcement
def evolution_strategies(device: str) -> Step:
    weights, x = torch.zeros(64, device=device), torch.randn(64, device=device)

    def step() -> None:
        noise = torch.randn(32, 64, device=device)
        reward = -((weights + 0.1 * noise - x) ** 2).sum(1)
        reward = (reward - reward.mean()) / (reward.std() + 1e-8)
        weights.add_(noise.t() @ reward, alpha=0.01 / 3.2)

    return step
