"""Who may ask for what.

Bound to loopback and without a token, everybody on this machine is an operator: the Host header is
then checked, for a page of another site may have its name point here (DNS rebinding). Any other
address needs a token. What changes something needs a role, an origin of our own, and a mark that
only our pages carry (CSRF).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from spark_trickle.errors import UserError

VIEWER, OPERATOR = "viewer", "operator"
COOKIE = "trickle_session"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Address:
    """Where the server listens."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """From ``host:port``, ``[::1]:port`` or ``:port`` of all addresses."""
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            raise UserError(
                f"{text!r} is not an address to listen on", hint="give host:port: 127.0.0.1:8642"
            )
        return cls(host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port))

    @property
    def loopback(self) -> bool:
        return self.host in _LOOPBACK or (
            self.host.startswith("127.") and self.host.replace(".", "").isdigit()
        )

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"


@dataclass(frozen=True)
class Access:
    """The rules of one server."""

    loopback: bool = True
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By role."""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @classmethod
    def of(cls, address: Address, token: str | None, viewer_token: str | None) -> Access:
        """UserError where that would let strangers in."""
        tokens = {role: t for role, t in ((OPERATOR, token), (VIEWER, viewer_token)) if t}
        if "" in (token, viewer_token):
            raise UserError("a token must not be empty")
        if not address.loopback and OPERATOR not in tokens:
            raise UserError(
                f"{address.host} can be reached from other machines: a token is needed",
                hint="set TRICKLE_TOKEN or give --token, or listen on 127.0.0.1",
            )
        return cls(address.loopback, tokens)

    def host_allowed(self, host: str) -> bool:
        """On loopback only names that mean this machine, whatever a name server says."""
        if not self.loopback:
            return True
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        name = name.strip("[]").lower()
        return name in _LOOPBACK or (name.startswith("127.") and name.replace(".", "").isdigit())

    def role(self, headers: Mapping[str, str]) -> str | None:
        """Of a request; None: it has shown no token that we know."""
        if not self.tokens:
            return OPERATOR if self.loopback else None
        given = bearer(headers)
        if given is not None:
            return self.role_of(given)
        session = _cookie(headers.get("cookie", ""))
        found = None
        for role, token in self.tokens.items():
            if _equal(session, _session(token)):
                found = found or role
        return found

    def role_of(self, token: str) -> str | None:
        """All tokens are compared in full: time tells nothing."""
        found = None
        for role, known in self.tokens.items():
            if _equal(token, known):
                found = found or role
        return found

    def session(self, role: str) -> str:
        """What the cookie holds: it proves the token, but is not the token."""
        return _session(self.tokens[role])

    def mark(self, role: str) -> str:
        """What our own forms carry, and no other site can know."""
        return hmac.new(self.secret, f"form {role}".encode(), hashlib.sha256).hexdigest()

    def refused(self, headers: Mapping[str, str], role: str, mark: str) -> str | None:
        """Why a request that changes something is not from a page of ours; None: it is."""
        if bearer(headers) is not None:
            return None  # no browser sends this by itself
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "the request comes from another site"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host", ""):
            return "the request comes from another site"
        if not _equal(mark, self.mark(role)):
            return "the page is from before the server was started: load it again"
        return None


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token of the Authorization header."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _session(token: str) -> str:
    return hmac.new(token.encode(), b"trickle session", hashlib.sha256).hexdigest()


def _equal(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())


def _cookie(text: str) -> str:
    try:
        found = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value
