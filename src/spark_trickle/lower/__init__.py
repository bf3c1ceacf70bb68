"""Operator trees to sqlglot SELECT trees with weights."""
