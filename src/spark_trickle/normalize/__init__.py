"""Passes that keep the meaning and simplify the tree."""
