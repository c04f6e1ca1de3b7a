"""Tunes a small network, written in numpy, that tells three spirals apart: python tune.py."""

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import rb_ray
from numpy.typing import NDArray
from ray import tune

EPOCHS = 9

Floats = NDArray[np.float64]


def spirals(count: int, seed: int) -> tuple[Floats, NDArray[np.intp]]:
    """Points of three spirals, with the number of their spiral. Put your own data in its place."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=count)
    radius = rng.uniform(0.1, 1, size=count)
    angle = 5 * radius + labels * 2 * np.pi / 3 + rng.normal(0, 0.15, size=count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), labels


def forward(weights: list[Floats], x: Floats) -> tuple[Floats, Floats]:
    """What the hidden layer gives, and the chance of each spiral."""
    hidden = np.tanh(x @ weights[0] + weights[1])
    scores = np.exp(hidden @ weights[2] + weights[3])
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def train(config: dict[str, Any]) -> None:
    """Train with one configuration; report the share of the test points whose spiral the network names."""
    (train_x, train_y), (test_x, test_y) = spirals(3000, seed=0), spirals(1000, seed=1)
    rng, width = np.random.default_rng(0), config["width"]
    weights = [rng.normal(0, 3, (2, width)), np.zeros(width), rng.normal(0, 0.1, (width, 3)), np.zeros(3)]
    done = 0
    if checkpoint := tune.get_checkpoint():  # a trial that goes on, where it stood
        with checkpoint.as_directory() as folder:
            done, weights = pickle.loads(Path(folder, "state").read_bytes())
    for epoch in range(done, EPOCHS):
        for batch in np.split(rng.permutation(len(train_x)), 100):
            x, y = train_x[batch], train_y[batch]
            hidden, chances = forward(weights, x)
            error = (chances - np.eye(3)[y]) / len(batch)
            back = error @ weights[2].T * (1 - hidden**2)
            for weight, slope in zip(weights, (x.T @ back, back.sum(0), hidden.T @ error, error.sum(0)), strict=True):
                weight -= config["lr"] * slope
        accuracy = float((forward(weights, test_x)[1].argmax(axis=1) == test_y).mean())
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state").write_bytes(pickle.dumps((epoch + 1, weights)))
            tune.report({"accuracy": accuracy}, checkpoint=tune.Checkpoint.from_directory(folder))


if __name__ == "__main__":
    tuner = tune.Tuner(
        train,
        param_space={"lr": tune.loguniform(1e-2, 3.0), "width": tune.choice([16, 32, 64])},
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=9,
            search_alg=tune.search.BasicVariantGenerator(random_state=0),
            scheduler=rb_ray.RubberBandScheduler(max_t=EPOCHS),
        ),
    )
    best = tuner.fit().get_best_result()
    print(f"accuracy {(best.metrics or {})['accuracy']:.3f} with {best.config}")
