"""What stands behind a user's trial: checkpoints, data shards, gradients, random numbers, and talk between ranks."""
