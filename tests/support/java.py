"""How Java runs where a test starts one."""

from __future__ import annotations

JAVA_OF_TESTS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Most queries run once: the second compiler and threads that collect garbage cost more than they give.

With one compiler Java would keep 48 MB for compiled code, which are full after half a minute: all
that comes later would be interpreted.
"""
