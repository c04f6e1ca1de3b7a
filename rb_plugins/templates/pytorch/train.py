"""What is tuned: a small network that tells stripes of ten directions apart in noise."""

import math
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

import rb_core


def stripes(count: int, seed: int) -> TensorDataset:
    """Noisy images of stripes, with the number of their direction. Put your own data in its place."""
    draws = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=draws)
    angle = (labels * math.pi / 10).view(-1, 1, 1)
    phase = torch.rand(count, 1, 1, generator=draws) * 2 * math.pi
    y, x = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    images = torch.sin(x * torch.cos(angle) + y * torch.sin(angle) + phase)
    noise = torch.randn(count, 12, 12, generator=draws)
    return TensorDataset((images + noise).unsqueeze(1), labels)


# At the top of the module, so that it is loaded once for all trials.
train_set = stripes(1000, seed=0)
test_x, test_y = stripes(500, seed=1).tensors


def train(config: dict[str, Any], trial: rb_core.Trial) -> None:
    """Train with one configuration for as long as the trial says; an iteration is one pass over the data."""
    network = nn.Sequential(
        nn.Conv2d(1, config["width"], kernel_size=5, padding=2),
        nn.ReLU(),
        nn.Conv2d(config["width"], config["width"], kernel_size=5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(config["width"] * 6 * 6, 10),
    )
    model = trial.wrap(network)  # on its device, and data-parallel where there are several processes
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"])
    trial.restore(model=model, optimizer=optimizer)  # loaded now, saved by itself from then on
    batches = trial.loader(train_set, global_batch_size=100)  # the same batches on any number of processes
    for _ in trial.iterations():
        for x, y in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.to(trial.device)), y.to(trial.device)).backward()
            optimizer.step()
        trial.report(accuracy(model, trial.device))


@torch.no_grad()
def accuracy(model: nn.Module, device: str) -> float:
    """Share of the test images that the model names rightly."""
    return (model(test_x.to(device)).argmax(dim=1).cpu() == test_y).double().mean().item()
