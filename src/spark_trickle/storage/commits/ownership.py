"""Who a file belongs to: the transaction that made it, until a commit hands it to a version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from spark_trickle.errors import CommitUnknownError, TrickleError
from spark_trickle.storage.files.filesystem import FileSystem


def may_stand(error: BaseException) -> bool:
    """Whether what was to be committed may be there although ``error`` came out of the commit."""
    return isinstance(error, CommitUnknownError) or not isinstance(error, Exception)


class Owned:
    """Files and folders that go away with their owner, unless a version takes them over.

    Law: nothing that a version has, or may have, taken over is removed, nor a folder it is in.
    """

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._paths: list[str] = []
        self._of_commit: list[str] = []
        self._taken_over: frozenset[str] = frozenset()

    def add(self, path: str) -> None:
        self._paths.append(path)

    def add_of_commit(self, path: str) -> None:
        """A file that is written under the lock: the version's if there will be one."""
        self._paths.append(path)
        self._of_commit.append(path)

    def hand_over(self, used: Iterable[str]) -> None:
        """The commit took effect: these files, and those made in it, are the version's."""
        self._taken_over |= {*used, *self._of_commit}

    def give_up(self) -> None:
        """Nobody knows whether a version needs them: what none does, remove_orphans takes."""
        self._paths.clear()

    def remove(self) -> None:
        while self._paths:
            self._files.remove(self._paths[-1], self._taken_over)
            self._paths.pop()


@contextmanager
def owning(files: FileSystem) -> Iterator[Owned]:
    """For one commit: what was made goes away again if the commit surely failed."""
    owned = Owned(files)
    try:
        yield owned
    except BaseException as error:
        if not may_stand(error):
            with suppress(TrickleError):  # the error that ended the commit is the one to show
                owned.remove()
        raise
