"""The laws of operators: one family per file, its law on line 1."""
