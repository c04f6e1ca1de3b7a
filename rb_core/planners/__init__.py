"""The planners: each chooses an allocation for every stage, for a problem's objective."""
