"""A convolutional network on scikit-learn's 1,797 handwritten digits."""

from typing import Any

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import TensorDataset

import rb_core

# At the top of the module, so that it is loaded once for all trials.
pixels, digits = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
images = pixels.float().view(-1, 1, 8, 8) / 16
train_x, test_x, train_y, test_y = train_test_split(
    images, digits, train_size=1024, test_size=200, stratify=digits, random_state=0
)
train_set = TensorDataset(train_x, train_y)


class Network(nn.Sequential):
    """Two layers of 5x5 filters and a linear classifier; nothing in it depends on how a batch is divided."""

    def __init__(self, width: int = 64) -> None:
        super().__init__(
            nn.Conv2d(1, width, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(width * 4 * 4, 10),
        )


def train(config: dict[str, Any], trial: rb_core.Trial) -> None:
    """Train with one configuration for as long as the trial says; an iteration is one pass over the data."""
    model = trial.wrap(Network())
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=config["lr"],
        momentum=config["momentum"],
        nesterov=config["nesterov"],
        weight_decay=config["weight_decay"],
    )
    trial.restore(model=model, optimizer=optimizer)
    batches = trial.loader(train_set, global_batch_size=256)
    for _ in trial.iterations():
        for x, y in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        trial.report(accuracy(model))


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    """Share of the test images that the model names rightly."""
    return (model(test_x).argmax(dim=1) == test_y).double().mean().item()
