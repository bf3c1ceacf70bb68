"""How each operator changes when its inputs change: one family per file, its law on line 1."""
