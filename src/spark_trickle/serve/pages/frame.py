"""The frame of every page."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from spark_trickle.maintain.watch.alerts import health
from spark_trickle.serve.pages.markup import Child, Html, cut, join, tag
from spark_trickle.serve.sight import Sight

_FINDINGS = 6
_PLACES = (("/", "Overview"), ("/graph", "Graph"), ("/sql", "SQL"))


def page(
    sight: Sight,
    title: str,
    *body: Child,
    live: str | None = None,
    role: str = "",
    above: Html | None = None,
) -> Html:
    """``live``: where the inner part of the page is fetched from whenever something happened.

    ``above``: what stays as it is meanwhile.
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{cut(title, 80)} · spark-trickle"),
        tag("link", rel="icon", href="/static/icon.svg"),
        tag("link", rel="stylesheet", href="/static/style.css"),
        tag("script", src="/static/app.js", defer=True),
    )
    places = [
        tag("a", words, href=place, aria_current="page" if title == words else None)
        for place, words in _PLACES
    ]
    top = tag(
        "header",
        tag("strong", "spark-trickle"),
        tag("nav", *places),
        tag("span", tag("bdi", sight.place), cls="place"),
        tag("span", role, cls="role"),
        tag("button", "◐", id="theme", type="button", title="Dark or light"),
    )
    inner = tag("main", above, tag("div", *body, id="main", data_live=live))
    return join(Html("<!doctype html>"), tag("html", head, tag("body", top, inner), lang="en"))


def badge(word: str) -> Html:
    """A state, in its colour."""
    return tag("span", word, cls=f"badge state-{word}")


def mode(word: str | None) -> Html | None:
    return tag("span", word, cls=f"badge mode-{word}") if word else None


def link(path: str, words: Child, /, **values: object) -> Html:
    """A link with its values in the query, where any text is safe."""
    return tag("a", words, href=url(path, **values))


def url(path: str, /, **values: object) -> str:
    return f"{path}?{urlencode(values)}" if values else path


def form(action: str, mark: str, /, *inside: Child, **hidden: str) -> Html:
    """A form of ours, with the mark that shows it."""
    fields = [tag("input", type="hidden", name=name, value=v) for name, v in hidden.items()]
    sign = tag("input", type="hidden", name="mark", value=mark)
    return tag("form", sign, *fields, *inside, method="post", action=action)


def well(sight: Sight) -> Html:
    """What is wrong with the lake, or that nothing is."""
    found = health(sight.look()[1])
    lines = [
        tag("li", badge(one.status), " ", tag("b", cut(one.name, 80)), " ", *_said(one.reason))
        for one in found[:_FINDINGS]
    ]
    more = len(found) - len(lines)
    if more > 0:
        lines.append(tag("li", f"and {more} more: trickle health"))
    return tag("ul", *lines, cls="health")


def _said(reason: str) -> Sequence[Child]:
    return (tag("span", cut(reason, 300), title=cut(reason, 2000)),)
