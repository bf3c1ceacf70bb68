"""Reads the text form that DuckDB gives nested values: ``[1, 2]``, ``{'a': x}``, ``{k=v}``."""

from __future__ import annotations

from typing import Any

from spark_trickle.errors import CatalogError
from spark_trickle.storage.records import Column


def parse_nested(text: str, column: Column) -> Any:
    """The Python value (list, dict, or list of pairs for a map) of a nested text."""
    reader = _Reader(text, column.name)
    value = reader.value(column)
    reader.spaces()
    if reader.at != len(text):
        raise reader.fail()
    return value


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.at = 0

    def fail(self) -> CatalogError:
        return CatalogError(
            f"a nested value of column {self.name} cannot be read at {self.at}: {self.text}"
        )

    def spaces(self) -> None:
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1

    def take(self, token: str) -> bool:
        self.spaces()
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def need(self, token: str) -> None:
        if not self.take(token):
            raise self.fail()

    def value(self, column: Column, ends: str = "") -> Any:
        self.spaces()
        if not column.children:
            return self.scalar(column, ends)
        if self.text[self.at :].startswith("NULL"):
            self.at += 4
            return None
        match column.storage_type:
            case "list":
                return self.sequence(column.children[0])
            case "map":
                return self.pairs(*column.children)
            case _:
                return self.struct(column.children)

    def sequence(self, element: Column) -> list[Any]:
        self.need("[")
        result: list[Any] = []
        if self.take("]"):
            return result
        while True:
            result.append(self.value(element, ",]"))
            if self.take("]"):
                return result
            self.need(",")

    def pairs(self, key: Column, value: Column) -> list[tuple[Any, Any]]:
        self.need("{")
        result: list[tuple[Any, Any]] = []
        if self.take("}"):
            return result
        while True:
            found = self.value(key, "=")
            self.need("=")
            result.append((found, self.value(value, ",}")))
            if self.take("}"):
                return result
            self.need(",")

    def struct(self, fields: tuple[Column, ...]) -> dict[str, Any]:
        self.need("{")
        result = {}
        for i, field in enumerate(fields):
            if i:
                self.need(",")
            self.spaces()
            self.word(":")
            self.need(":")
            result[field.name] = self.value(field, ",}")
        self.need("}")
        return result

    def scalar(self, column: Column, ends: str) -> Any:
        from spark_trickle.storage.files.values import from_text

        quoted = self.text[self.at : self.at + 1] in ("'", '"')
        word = self.word(ends)
        if word == "NULL" and not quoted:
            return None
        return from_text(column, word)

    def word(self, ends: str) -> str:
        quote = self.text[self.at : self.at + 1]
        if quote not in ("'", '"'):
            start = self.at
            while self.at < len(self.text) and self.text[self.at] not in ends:
                self.at += 2 if self.text[self.at] == "\\" else 1
            return self.text[start : self.at].strip()
        self.at += 1
        result = ""
        while self.at < len(self.text):
            here = self.text[self.at]
            if here == quote and self.text[self.at + 1 : self.at + 2] != quote:
                break
            if here in ("\\", quote):
                self.at += 1
            result += self.text[self.at : self.at + 1]
            self.at += 1
        self.at += 1
        return result
