"""A small convolutional network on scikit-learn's 1,797 handwritten digits, data-parallel on several slots."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import rb_core

PASSES = 2
"""Passes over the data that make up an iteration."""

WIDTH = 32
BATCH = 128
TRAINED = 1536
"""Images that are trained with; the rest is for the score."""

pixels, digits = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
images = pixels.float().view(-1, 1, 8, 8) / 16
train_set = TensorDataset(images[:TRAINED], digits[:TRAINED])


def train(config: dict[str, Any], trial: rb_core.Trial) -> None:
    """Train with one configuration; its step size and momentum."""
    model = trial.wrap(
        nn.Sequential(
            nn.Conv2d(1, WIDTH, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(WIDTH * 4 * 4, 10),
        )
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"])
    trial.restore(model=model, optimizer=optimizer)
    batches = trial.loader(train_set, global_batch_size=BATCH)
    for _ in trial.iterations():
        for _ in range(PASSES):
            for x, y in batches:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        with torch.no_grad():
            right = model(images[TRAINED:]).argmax(dim=1) == digits[TRAINED:]
        trial.report(right.double().mean().item())
