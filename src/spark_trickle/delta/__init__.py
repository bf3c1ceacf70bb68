"""How a plan changes when its inputs change: laws by operator, the keys that matter, and the parts that keep state."""
