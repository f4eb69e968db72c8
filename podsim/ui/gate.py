"""Access control: only this machine by default, or holders of the token if another address was requested.

A page of another site in the user's browser could send requests to this machine too. It cannot forge the headers `host`
and `origin`, so both have to name this server.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN: Final = "token"
_COOKIE: Final = "podsim_token"
_REFUSED: Final = "This server answers its own address only. `podsim ui` printed that; open it as it was printed.\n"
_HEADERS: Final = {
    # No request goes to another machine; the page's framework compiles templates to code.
    "content-security-policy": "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches a host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Gate:
    """Lets a request through, or refuses it, before anything else sees it."""

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or a web socket."""
        from starlette.datastructures import MutableHeaders
        from starlette.requests import HTTPConnection
        from starlette.responses import PlainTextResponse
        from starlette.websockets import WebSocketClose

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if self._token:
                    headers.append("set-cookie", f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/")
            await send(message)

        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
        elif self.admits(HTTPConnection(scope)):
            await self._app(scope, receive, with_headers)
        else:
            refusal = PlainTextResponse(_REFUSED, 403) if scope["type"] == "http" else WebSocketClose(1008)
            await refusal(scope, receive, send)

    def admits(self, asked: HTTPConnection) -> bool:
        """Return True if a request is allowed."""
        host = asked.headers.get("host", "")
        if urlsplit(asked.headers.get("origin", f"//{host}")).netloc != host:
            return False
        if not self._token:
            return is_loopback(urlsplit(f"//{host}").hostname or "")
        brought = [*asked.query_params.getlist(TOKEN), asked.cookies.get(_COOKIE, "")]
        return any(hmac.compare_digest(each.encode(), self._token.encode()) for each in brought)
