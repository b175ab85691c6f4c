"""Recurrent networks other than the built-in one: GRU, bidirectional LSTM, plain RNN."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class Tagger(nn.Module):
    """Embeds words, runs a recurrent network, labels every place."""

    def __init__(self, recurrent, width, labels):
        super().__init__()
        self.words = nn.Embedding(20000, 300)
        self.recurrent = recurrent
        self.head = nn.Linear(width, labels)

    def forward(self, tokens):
        return self.head(self.recurrent(self.words(tokens))[0])


def _training(recurrent, width, batch, seq, amp):
    torch.manual_seed(0)
    model = Tagger(recurrent, width, 50).cuda().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 20000, (batch, seq), device="cuda")
    labels = torch.randint(0, 50, (batch, seq), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()

    return step


def gru():
    return _training(nn.GRU(300, 1024, 3, batch_first=True, dropout=0.2), 1024, 96, 100, False)


def bilstm():
    layers = nn.LSTM(300, 512, 2, batch_first=True, bidirectional=True)
    return _training(layers, 1024, 32, 80, True)


def rnn():
    return _training(nn.RNN(300, 640, 2, batch_first=True), 640, 128, 60, False)
