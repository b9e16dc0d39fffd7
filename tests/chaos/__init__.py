"""A whole installation under random load and random faults, and the checks of what must hold meanwhile."""
