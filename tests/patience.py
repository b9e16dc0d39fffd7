"""How long tests wait for what a machine with nothing else to do does at once: only a fault takes longer."""

WITHIN_S = 60.0
