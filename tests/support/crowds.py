"""How long a crowd is at work, and how long each of it may stand still.

``make crowd`` gives three minutes and ten seconds; where other tests may be at work beside it, the
seconds say little.
"""

from __future__ import annotations

import os

SECONDS = float(os.environ.get("TRICKLE_CROWD_SECONDS", "20"))
PATIENCE = float(os.environ.get("TRICKLE_CROWD_PATIENCE", "60"))
