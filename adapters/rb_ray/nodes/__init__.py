"""A Ray cluster and the nodes that join it, for the launcher and the scheduler alike."""
