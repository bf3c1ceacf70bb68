"""Names of one or more parts as text: backticks around a part that holds a point or a backtick."""

from __future__ import annotations


def spelled(name: str) -> str:
    """One part of a name, in backticks where it needs them."""
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name


def split(text: str) -> list[str]:
    """The parts of a name."""
    if "`" not in text:
        return text.split(".")
    parts, part, quoted, i = [], "", False, 0
    while i < len(text):
        c = text[i]
        if c == "`":
            if quoted and text[i + 1 : i + 2] == "`":
                part += "`"
                i += 1
            else:
                quoted = not quoted
        elif c == "." and not quoted:
            parts.append(part)
            part = ""
        else:
            part += c
        i += 1
    return [*parts, part]
