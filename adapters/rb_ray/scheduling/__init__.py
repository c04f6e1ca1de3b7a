"""The scheduler for Tune: rungs, plans and nodes."""
