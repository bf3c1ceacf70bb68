"""The calls that users make: wrong types of arguments are told in our words before anything is done,
and Ctrl-C ends a call in good order.

Ctrl-C while Spark works: its jobs are cancelled, and KeyboardInterrupt comes when Spark has answered.
Raised in the midst of a call to Spark, it would leave that call's answer on the connection, and the
next call would take it for its own. A second Ctrl-C does not wait.

Imports no pyspark: calls that need no Spark are guarded, too.
"""

from __future__ import annotations

import functools
import inspect
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar
from weakref import WeakSet

from spark_trickle.errors import UserError

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_SPARK = ("py4j", "grpc", "pyspark")
_AGAIN_SECONDS = 0.2
_sessions: WeakSet[Any] = WeakSet()


def guarded_methods(cls: C) -> C:
    """Have every public method of a class check what it is given, and end at Ctrl-C."""
    for name, member in vars(cls).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(cls, name, _guarded(checked(member)))
    return cls


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with interruptible():
            return function(*args, **kwargs)

    return called


# Arguments

_PLAIN: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "Path": (Path,),
    "None": (type(None),),
}
_WORDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "True or False"}


def checked(function: F) -> F:
    """Check arguments whose annotation is made of plain types only; UserError where one is wrong.

    Annotations are read as text: names that only type checkers import are never looked up.
    """
    signature = inspect.signature(function)
    wanted = {
        name: parts
        for name, parameter in signature.parameters.items()
        if (parts := _parts(parameter.annotation))
    }

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = zip(signature.parameters, args, strict=False)
        for name, value in (*given, *kwargs.items()):
            if name in wanted and not _fits(value, wanted[name]):
                raise _wrong(function.__name__, name, wanted[name], value)
        return function(*args, **kwargs)

    return called  # type: ignore[return-value]


def _parts(annotation: Any) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in str(annotation).split("|"))
    return parts if all(part in _PLAIN for part in parts) else ()


def _fits(value: Any, parts: tuple[str, ...]) -> bool:
    if isinstance(value, bool):  # which Python takes for an int
        return "bool" in parts
    return any(isinstance(value, _PLAIN[part]) for part in parts)


def _wrong(function: str, name: str, parts: tuple[str, ...], value: Any) -> UserError:
    words = " or ".join(_WORDS.get(part, part) for part in parts)
    return UserError(f"{function}: {name} must be {words}, not {_shown(value)}")


def _shown(value: Any) -> str:
    text = repr(value)
    kind = type(value).__name__
    return kind if value is None or len(text) > 40 or "\n" in text else f"{kind} {text}"


# Ctrl-C


class _Guard:
    """The main thread inside a call of ours."""

    def __init__(self) -> None:
        self.depth = 0
        self.asked = False
        self.over = threading.Event()
        self.usual: Any = None

    def begin(self) -> None:
        self.depth += 1
        if self.depth == 1:
            self.asked, self.over = False, threading.Event()
            self.take()

    def take(self) -> None:
        """Have Ctrl-C told to us; a handler that somebody else has made keeps it."""
        handler = signal.getsignal(signal.SIGINT)
        made = getattr(handler, "__module__", None) or ""
        if handler is signal.default_int_handler or made.startswith("pyspark"):
            self.usual = handler
            signal.signal(signal.SIGINT, self.on_interrupt)

    def end(self) -> None:
        self.depth -= 1
        if self.depth:
            return
        if self.usual is not None and signal.getsignal(signal.SIGINT) == self.on_interrupt:
            signal.signal(signal.SIGINT, self.usual)
        self.over.set()

    def on_interrupt(self, _: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if not again:
            threading.Thread(target=_cancel, args=(self.over,), daemon=True).start()
        if again or not _calls_spark(frame):
            raise KeyboardInterrupt


_guard = _Guard()


def watch(session: Any) -> None:
    """Have the session's jobs cancelled by Ctrl-C; Spark has set a handler of its own by now."""
    _sessions.add(session)
    if _guard.depth and threading.current_thread() is threading.main_thread():
        _guard.take()


def interrupted() -> bool:
    """Whether Ctrl-C was pressed during the call that is under way."""
    return _guard.asked and _guard.depth > 0


@contextmanager
def interruptible() -> Iterator[None]:
    """A call of ours: Ctrl-C ends it and leaves a connection that works."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _guard.begin()
    try:
        yield
        if _guard.depth == 1 and _guard.asked:
            raise KeyboardInterrupt
    except Exception:
        if _guard.asked:  # it failed because its jobs were cancelled
            raise KeyboardInterrupt from None
        raise
    finally:
        _guard.end()


def _calls_spark(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).split(".")[0] in _SPARK:
            return True
        frame = frame.f_back
    return False


def _cancel(over: threading.Event) -> None:
    """Until the call is over: one job may follow another."""
    while not over.is_set():
        for session in list(_sessions):
            with suppress(Exception):  # a session that is gone has no jobs
                session.interruptAll()
        over.wait(_AGAIN_SECONDS)
