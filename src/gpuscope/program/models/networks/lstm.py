"""LSTM language model (Zaremba et al. 2014): embedding, stacked LSTM with dropout, softmax."""

from __future__ import annotations

import torch
from torch import nn

State = tuple[torch.Tensor, torch.Tensor]


class LSTMLanguageModel(nn.Module):
    """Predicts the next word from those before.

    Args:
        vocabulary: number of words.
        width: features of the embedding and of the hidden state.
        layers: stacked LSTMs.
        dropout: on the non-recurrent connections.
    """

    def __init__(self, *, vocabulary: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, words: torch.Tensor, state: State) -> tuple[torch.Tensor, State]:
        """(tokens, N) words, state (layers, N, width) twice -> (tokens, N, vocabulary), state."""
        hidden, state = self.lstm(self.drop(self.embedding(words)), state)
        scores: torch.Tensor = self.decoder(self.drop(hidden))
        return scores, state
