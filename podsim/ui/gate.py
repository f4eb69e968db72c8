"""Who may ask: this machine alone, or whoever has the token where another address was asked for.

A page of another site that a person looks at could send requests to this machine too. It cannot choose what browsers
say of the host that is meant and of the page that asks, so both have to be this server.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Send], Awaitable[None]]
TOKEN: Final = "token"
_COOKIE: Final = "podsim_token"
_REFUSED: Final = b"This server answers its own address only. `podsim ui` printed that; open it as it was printed.\n"
_POLICY: Final = "; ".join(
    (
        "default-src 'self' data: blob:",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""No request leaves for another machine; the framework of the page makes code of templates."""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nobody else reaches it.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Gate:
    """Lets a request through, or refuses it, before anything else sees it."""

    def __init__(self, app: App, token: str = "") -> None:
        """Guard an application."""
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Send) -> None:
        """Answer a request or a web socket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
        if not self.admits(headers, scope.get("query_string", b"").decode("latin-1")):
            await _refuse(scope, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._headers()]
            await send(message)

        await self._app(scope, receive, with_headers)

    def admits(self, headers: MutableMapping[str, str], query: str) -> bool:
        """Whether a request may ask."""
        host = headers.get("host", "")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return False
        if not self._token:
            return is_loopback(urlsplit(f"//{host}").hostname or "")
        brought = [*parse_qs(query).get(TOKEN, []), *_cookies(headers.get("cookie", ""))]
        return any(hmac.compare_digest(each.encode(), self._token.encode()) for each in brought)

    def _headers(self) -> Iterable[tuple[bytes, bytes]]:
        yield b"content-security-policy", _POLICY.encode()
        yield b"referrer-policy", b"no-referrer"
        yield b"x-content-type-options", b"nosniff"
        if self._token:
            yield b"set-cookie", f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/".encode()


def _cookies(text: str) -> list[str]:
    try:
        found = SimpleCookie(text).get(_COOKIE)
    except CookieError:
        return []
    return [] if found is None else [found.value]


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(_REFUSED)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": _REFUSED})
