"""What a trainable of Tune's may use: its allocation, and data-parallel training."""
