"""What is tuned: a small network of scikit-learn on its 1,797 handwritten digits."""

from typing import Any

import joblib
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import rb_core

# At the top of the module, so that it is loaded once for all trials. Put your own data in its place.
pixels, digits = load_digits(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(pixels / 16, digits, test_size=500, random_state=0)


def train(config: dict[str, Any], trial: rb_core.Trial) -> None:
    """Train with one configuration for as long as the trial says; an iteration is five passes over the data."""
    model = MLPClassifier(
        solver="sgd",
        hidden_layer_sizes=(config["width"],),
        learning_rate_init=config["lr"],
        momentum=config["momentum"],
        random_state=trial.number,
    )
    if (folder := trial.load()) is not None:  # a trial that goes on, where it stood
        model = joblib.load(folder / "model")
    for _ in trial.iterations():
        for _ in range(5):
            model.partial_fit(train_x, train_y, classes=range(10))
        trial.report(model.score(test_x, test_y))
        if trial.save_due:  # the stage ends, or the last checkpoint is old enough
            with trial.save() as folder:
                joblib.dump(model, folder / "model")
