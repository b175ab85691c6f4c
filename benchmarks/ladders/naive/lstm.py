"""A word-level LSTM language model as first written: float32, loss read every step."""

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=33278, width=1024, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embed(tokens))
        return self.head(hidden)


def build(batch=64, seq=128):
    model = LanguageModel().cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    text = torch.randint(0, 33278, (batch, seq + 1))

    def step():
        tokens = text.cuda()
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = criterion(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        return loss.item()

    return step
