"""scikit-learn's perceptron on its 1,797 handwritten digits; the width of its layer sets how long a pass takes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import rb_core

PASSES = 15
"""Passes over the data that make up an iteration."""

TRAINED = 1500
"""Images that are trained with; the rest is for the score."""

pixels, digits = load_digits(return_X_y=True)
images = pixels / 16


def train(config: dict[str, Any], trial: rb_core.Trial) -> None:
    """Train with one configuration: the step size and the width of the hidden layer."""
    folder = trial.load()
    if folder is None:
        model = MLPClassifier(
            hidden_layer_sizes=(int(config["width"]),),
            solver="sgd",
            batch_size=64,
            learning_rate_init=float(config["lr"]),
            random_state=trial.number,
        )
    else:
        model = pickle.loads((folder / "model").read_bytes())
    for _ in trial.iterations():
        for _ in range(PASSES):
            model.partial_fit(images[:TRAINED], digits[:TRAINED], classes=np.arange(10))
        trial.report(model.score(images[TRAINED:], digits[TRAINED:]))
        if trial.save_due:
            with trial.save() as made:
                (made / "model").write_bytes(pickle.dumps(model))
