"""What the suite runs with, from the environment."""

from __future__ import annotations

import os

SCALE = float(os.environ.get("TRICKLE_TPCH_SF", "0.01"))
CYCLES = int(os.environ.get("TRICKLE_TPCH_CYCLES", "3"))
CHURN = float(os.environ.get("TRICKLE_TPCH_CHURN", "0.04"))
SEED = int(os.environ.get("TRICKLE_TPCH_SEED", "1"))
SUSTAINED = int(os.environ.get("TRICKLE_TPCH_SUSTAINED", "20"))
"""Cycles of the phase that looks for drift."""
