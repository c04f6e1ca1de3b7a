"""A cloud and its training that exist in time alone: what the real engine is rehearsed against, faults included.

`rehearsal.rehearse` runs the engine as it stands on a manual clock; everything that it meets here is reproducible
from a seed. Without faults a rehearsal takes the same random numbers as `rb_core.simulate` and agrees with it.
"""
