"""Numbers for new things of the catalog."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class CatalogIds:
    """The next free ids, given out under the write lock."""

    version: int
    schema_version: int
    catalog: int
    file: int

    def next_catalog(self) -> int:
        self.catalog += 1
        return self.catalog - 1

    def next_file(self) -> int:
        self.file += 1
        return self.file - 1
