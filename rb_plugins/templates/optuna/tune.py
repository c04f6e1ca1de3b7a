"""Tunes a small network, written in numpy, that tells three spirals apart: python tune.py."""

import numpy as np
import optuna
import rb_optuna
from numpy.typing import NDArray

EPOCHS = 27

Floats = NDArray[np.float64]


def spirals(count: int, seed: int) -> tuple[Floats, NDArray[np.intp]]:
    """Points of three spirals, with the number of their spiral. Put your own data in its place."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=count)
    radius = rng.uniform(0.1, 1, size=count)
    angle = 5 * radius + labels * 2 * np.pi / 3 + rng.normal(0, 0.15, size=count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), labels


train_x, train_y = spirals(3000, seed=0)
test_x, test_y = spirals(1000, seed=1)


def forward(weights: list[Floats], x: Floats) -> tuple[Floats, Floats]:
    """What the hidden layer gives, and the chance of each spiral."""
    hidden = np.tanh(x @ weights[0] + weights[1])
    scores = np.exp(hidden @ weights[2] + weights[3])
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def objective(trial: optuna.Trial) -> float:
    """Train with one configuration; the share of the test points whose spiral the network then names."""
    lr = trial.suggest_float("lr", 1e-2, 3.0, log=True)
    width = trial.suggest_categorical("width", [16, 32, 64])
    rng = np.random.default_rng(trial.number)
    weights = [rng.normal(0, 3, (2, width)), np.zeros(width), rng.normal(0, 0.1, (width, 3)), np.zeros(3)]
    run = rb_optuna.session(trial)
    state = run.load() or {"epochs": 0, "weights": weights}  # a trial that goes on, where it stood
    weights, accuracy = state["weights"], 0.0
    for epoch in range(state["epochs"], EPOCHS):
        for batch in np.split(rng.permutation(len(train_x)), 100):
            x, y = train_x[batch], train_y[batch]
            hidden, chances = forward(weights, x)
            error = (chances - np.eye(3)[y]) / len(batch)
            back = error @ weights[2].T * (1 - hidden**2)
            for weight, slope in zip(weights, (x.T @ back, back.sum(0), hidden.T @ error, error.sum(0)), strict=True):
                weight -= lr * slope
        accuracy = float((forward(weights, test_x)[1].argmax(axis=1) == test_y).mean())
        run.save({"epochs": epoch + 1, "weights": weights})  # before the report, after which the trial may have to wait
        trial.report(accuracy, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return accuracy


if __name__ == "__main__":
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    rb_optuna.RubberBandExecutor(study, max_resource=EPOCHS).optimize(objective, n_trials=27)
    print(f"accuracy {study.best_value:.3f} with {study.best_params}")
