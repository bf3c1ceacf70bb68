"""Where alerts go: a Python callable, a webhook, a command. A hook that fails stops nothing."""

from __future__ import annotations

import json
import logging
import subprocess
import urllib.request
from collections.abc import Callable, Iterable, Sequence

from spark_trickle.errors import UserError
from spark_trickle.maintain.watch.alerts import Alert

Hook = Callable[[Alert], object] | str | Sequence[str]
"""Called with the alert; an ``http(s)://`` URL gets it as JSON; a command gets the JSON as input."""
SECONDS = 10.0
log = logging.getLogger("spark_trickle.alerts")


def hooks(given: Hook | Iterable[Hook] | None) -> list[Callable[[Alert], object]]:
    """One callable for each; UserError for what is no hook."""
    if given is None:
        return []
    if callable(given) or isinstance(given, str):
        return [_hook(given)]
    return [_hook(one) for one in given]


def _hook(given: Hook) -> Callable[[Alert], object]:
    if callable(given):
        return given
    if isinstance(given, str):
        if not given.startswith(("http://", "https://")):
            raise UserError(
                f"{given!r} is not the address of a webhook",
                hint="give an http(s):// URL, a callable, or a command as a list of words",
            )
        return lambda alert: _post(given, alert)
    words = [given] if isinstance(given, str) else list(given)
    if len(words) == 1:
        return lambda alert: _run(words[0], alert, shell=True)
    return lambda alert: _run(words, alert, shell=False)


class Announcer:
    """Hands each alert over when it begins, and again only if it went away and came back."""

    def __init__(self, given: Hook | Iterable[Hook] | None) -> None:
        self._hooks = hooks(given)
        self._known: set[tuple[str, str]] = set()

    def announce(self, alerts: Iterable[Alert]) -> list[Alert]:
        """The alerts that are new."""
        now = {(alert.kind, alert.name): alert for alert in alerts}
        fresh = [alert for key, alert in now.items() if key not in self._known]
        self._known = set(now)
        for alert in fresh:
            level = logging.ERROR if alert.severity == "CRITICAL" else logging.WARNING
            event = {"event": "alert", **alert.to_dict()}
            log.log(
                level, "%s %s: %s", alert.kind, alert.name, alert.message, extra={"event": event}
            )
            for hook in self._hooks:
                try:
                    hook(alert)
                except Exception as error:
                    log.warning("a hook for alerts failed: %s: %s", type(error).__name__, error)
        return fresh


def _post(url: str, alert: Alert) -> None:
    body = json.dumps(alert.to_dict()).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers, method="POST")
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        answer.read()


def _run(command: str | list[str], alert: Alert, *, shell: bool) -> None:
    text = json.dumps(alert.to_dict())
    subprocess.run(
        command,
        input=text,
        text=True,
        shell=shell,
        timeout=SECONDS,
        check=True,
        capture_output=True,
    )
