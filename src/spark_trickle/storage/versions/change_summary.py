"""What users see of a table's change without reading it."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.display import html_facts, plural
from spark_trickle.storage.records import ChangePlan


@dataclass(frozen=True)
class ChangeSummary:
    """What metadata alone says about a table's change in a window."""

    before: int
    after: int
    inserted: int
    deleted: int
    bytes: int
    """Bytes of the files that reading the changes would open."""

    @classmethod
    def of(cls, plan: ChangePlan) -> ChangeSummary:
        return cls(plan.before, plan.after, plan.inserted_rows, plan.deleted_rows, plan.bytes)

    def __repr__(self) -> str:
        told = f"{plural(self.inserted, 'row')} inserted, {self.deleted:,} deleted"
        return (
            f"ChangeSummary(versions {self.before} to {self.after}: {told}, {self.bytes:,} bytes)"
        )

    def _repr_html_(self) -> str:
        return html_facts(f"versions {self.before} to {self.after}", vars(self).items())

    @property
    def changed(self) -> bool:
        """Whether any row came or went."""
        return self.inserted > 0 or self.deleted > 0

    @property
    def rows(self) -> int:
        """Rows that came or went; an updated one does both."""
        return self.inserted + self.deleted

    @property
    def insert_only(self) -> bool:
        """Whether no row went."""
        return self.deleted == 0
