"""Programs of a fifth set that no constant was fitted to: games."""

import torch
from fourth_training import fit
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Unchanged(nn.Module):
    """Two convolutions around which the input goes, rectified before."""

    def __init__(self, width):
        super().__init__()
        self.one, self.two = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x):
        return x + self.two(F.relu(self.one(F.relu(x))))


def played_frames(actors=16, moments=64, parts=4, actions=15, widths=(16, 32, 32)):
    """One round over what was played: advantages, then four parts of frames; float32."""
    torch.manual_seed(0)
    layers, inside = [], 4
    for w in widths:
        layers += [nn.Conv2d(inside, w, 3, padding=1), nn.MaxPool2d(3, 2, 1), Unchanged(w),
                   Unchanged(w)]  # fmt: skip
        inside = w
    body = nn.Sequential(
        *layers, nn.ReLU(), nn.Flatten(), nn.Linear(inside * 8 * 8, 256), nn.ReLU()
    )
    policy, value = nn.Linear(256, actions), nn.Linear(256, 1)
    model = nn.ModuleList([body, policy, value]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, eps=1e-5)
    count = actors * moments
    frames = torch.randint(0, 256, (count, 4, 64, 64), device="cuda", dtype=torch.uint8)
    done_by = torch.randint(0, actions, (count,), device="cuda")
    reward = torch.randn(moments, actors, device="cuda")
    over = (torch.rand(moments, actors, device="cuda") < 0.01).float()

    def seen(x):
        h = body(x.float() / 255)
        return policy(h), value(h)[:, 0]

    with torch.no_grad():
        logits, guessed = seen(frames)
        before = logits.log_softmax(-1).gather(1, done_by[:, None])[:, 0]
    guesses = guessed.view(moments, actors)

    def advantages():
        gains, last = torch.zeros_like(reward), torch.zeros_like(reward[0])
        for t in reversed(range(moments)):
            after = guesses[t + 1] if t < moments - 1 else guesses[-1]
            alive = 1 - over[t]
            off = reward[t] + 0.999 * after * alive - guesses[t]
            gains[t] = last = off + 0.999 * 0.95 * alive * last
        return gains.flatten()

    def step():
        gain = advantages()
        returns, total = gain + guessed, 0.0
        for index in torch.randperm(count, device="cuda").chunk(parts):
            logits, now = seen(frames[index])
            chance = logits.log_softmax(-1)
            mine = gain[index]
            mine = (mine - mine.mean()) / (mine.std() + 1e-8)
            ratio = (chance.gather(1, done_by[index, None])[:, 0] - before[index]).exp()
            won = torch.max(-mine * ratio, -mine * ratio.clamp(0.8, 1.2)).mean()
            old, truth = guessed[index], returns[index]
            near = old + (now - old).clamp(-0.2, 0.2)
            off = torch.max((now - truth).square(), (near - truth).square()).mean()
            spread = -(chance.exp() * chance).sum(-1).mean()
            loss = won + 0.5 * off - 0.01 * spread
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            total = total + loss.detach()
        return total

    return step


class Board(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x):
        return F.relu(x + self.body(x))


def imagined_moves(batch=1024, side=9, planes=17, width=192, depth=6, ahead=5, support=601):
    """Moves imagined five ahead: states, rewards, values, policies; float16, scaled, channels
    last."""
    torch.manual_seed(0)
    moves = side * side + 1

    def tower(inside):
        return nn.Sequential(
            nn.Conv2d(inside, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            *(Board(width) for _ in range(depth)),
        )  # fmt: skip

    def head(outside):
        return nn.Sequential(
            nn.Conv2d(width, 16, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
            nn.Linear(16 * side * side, 128), nn.ReLU(), nn.Linear(128, outside),
        )  # fmt: skip

    see, imagine = tower(planes), tower(width + 1)
    reward, value, policy = head(support), head(support), head(moves)
    model = nn.ModuleList([see, imagine, reward, value, policy]).cuda()
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=1e-4)
    seen = (torch.rand(batch, planes, side, side, device="cuda") > 0.7).float()
    seen = seen.to(memory_format=torch.channels_last)
    played = torch.randint(0, moves, (ahead, batch), device="cuda")
    visits = torch.rand(ahead + 1, batch, moves, device="cuda").softmax(-1)
    values, rewards = 20 * torch.randn(2, ahead + 1, batch, device="cuda")
    weight = torch.rand(batch, device="cuda")

    def spread_out(x):
        """A number as shares of the two whole numbers beside it, after a root."""
        half = support // 2
        x = x.sign() * ((x.abs() + 1).sqrt() - 1) + 1e-3 * x
        x = x.clamp(-half, half - 1e-3) + half
        low = x.floor()
        found = torch.zeros(*x.shape, support, device=x.device)
        found.scatter_(-1, low.long()[..., None], (1 - x + low)[..., None])
        return found.scatter_(-1, low.long()[..., None] + 1, (x - low)[..., None])

    def even(h):
        low, high = h.amin((1, 2, 3), keepdim=True), h.amax((1, 2, 3), keepdim=True)
        return (h - low) / (high - low + 1e-5)

    def off(logits, truth):
        return -(truth * logits.float().log_softmax(-1)).sum(-1)

    def loss():
        aims, gains = spread_out(values), spread_out(rewards)
        state = even(see(seen))
        total = 0.25 * off(value(state), aims[0]) + off(policy(state), visits[0])
        for n in range(ahead):
            move = F.one_hot(played[n], moves)[:, :-1].view(batch, 1, side, side)
            state = even(imagine(torch.cat([state, move.to(state.dtype)], 1)))
            one = off(reward(state), gains[n + 1]) + 0.25 * off(value(state), aims[n + 1])
            total = total + (one + off(policy(state), visits[n + 1])) / ahead
            state = 0.5 * state + 0.5 * state.detach()
        return (total * weight).mean()

    return fit(model, loss, torch.float16, optimizer, scaled=True, clip=5.0)
