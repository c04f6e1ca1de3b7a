"""Tunes a small convolutional network on scikit-learn's 1,797 handwritten digits."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
from ray import tune
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

EPOCHS = 9
TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 9

pixels, digits = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
images = pixels.float().view(-1, 1, 8, 8) / 16
train_x, test_x, train_y, test_y = train_test_split(images, digits, train_size=1024, stratify=digits, random_state=0)


def network(width: int) -> nn.Module:
    """Two layers of filters and a linear classifier."""
    return nn.Sequential(
        nn.Conv2d(1, width, kernel_size=5, padding=2),
        nn.ReLU(),
        nn.Conv2d(width, width, kernel_size=5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(width * 4 * 4, 10),
    )


def train(config):
    """Train with one configuration; report the share of the test images that the network names rightly."""
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    torch.manual_seed(0)
    model = network(config["width"])
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"])
    done = 0
    if checkpoint := tune.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["done"]
    parallel = nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    for epoch in range(done, EPOCHS):
        order = torch.randperm(len(train_x), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(64):
            mine = batch[rank::ranks]
            optimizer.zero_grad()
            nn.functional.cross_entropy(parallel(train_x[mine]), train_y[mine]).backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (model(test_x).argmax(dim=1) == test_y).double().mean().item()
        with tempfile.TemporaryDirectory() as folder:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": epoch + 1}
            torch.save(state, os.path.join(folder, "state.pt"))
            tune.report({"accuracy": accuracy, "ranks": ranks}, checkpoint=tune.Checkpoint.from_directory(folder))


if __name__ == "__main__":
    tuner = tune.Tuner(
        train,
        param_space={
            "width": tune.choice([16, 32, 48]),
            "lr": tune.loguniform(1e-3, 0.5),
            "momentum": tune.uniform(0.5, 0.99),
        },
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=TRIALS,
            search_alg=tune.search.BasicVariantGenerator(random_state=0),
            scheduler=tune.schedulers.ASHAScheduler(max_t=EPOCHS, reduction_factor=3),
        ),
    )
    results = tuner.fit()
    best = results.get_best_result()
    epochs = sum(result.metrics["training_iteration"] for result in results)
    print(f"accuracy {best.metrics['accuracy']:.3f} with {best.config}")
    print(f"{epochs} epochs in all, the last ones of the best trial on {best.metrics['ranks']} slots")
