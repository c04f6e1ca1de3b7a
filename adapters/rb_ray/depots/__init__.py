"""Checkpoints on stores that are no folders."""
