"""Server of the planner page: addresses, access and files."""

from __future__ import annotations

import secrets
import socket
import tempfile
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import Any, Final

from podsim.errors import PodsimError
from podsim.packages import optional
from podsim.scenario.library import shipped
from podsim.show.html_page import check_library, script
from podsim.ui.gate import TOKEN, Gate, is_loopback

_FIRST: Final = "bert_v1.1_pod64_closed"
_CHARTS: Final = "/podsim/charts.js"
_ICON: Final = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>"


def check_packages() -> None:
    """Refuse to start where NiceGUI or what draws charts is missing."""
    optional("nicegui", "the planner page needs")
    check_library()


def check_port(host: str, port: int) -> None:
    """Refuse an address that is taken, or not one of this machine."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        do = "choose another, for example `--port 8081`"
        raise PodsimError(f"the server cannot listen there: {reason}", where=f"{host}:{port}", do=do) from error


def address(host: str, port: int, token: str) -> str:
    """Return the address to type into a browser.

    >>> address("pod-planner", 8080, ""), address("::1", 80, "abc")
    ('http://pod-planner:8080/', 'http://[::1]:80/?token=abc')
    """
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/{f'?{TOKEN}={token}' if token else ''}"


def new_token(host: str) -> str:
    """Return the token that requests need; empty if only this machine reaches the server."""
    return "" if is_loopback(host) else secrets.token_urlsafe()


def _text(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def prepare(ui: Any) -> None:
    """Give a page its head: styles of reports, which count inside of answers alone, and the charts."""
    styles = f".part {{ {_text('podsim.show', 'page.css').replace(':root', '&')} }}\n{_text('podsim.ui', 'ui.css')}"
    ui.add_head_html(f'<style>{styles}</style><script src="{_CHARTS}" defer></script>')
    ui.colors(primary="#1b5e92")


def _charts() -> str:
    """Return the script that draws the charts of reports wherever they appear."""
    # The script is wrapped in a function because its names clash with those of the page's framework.
    return f"(() => {{\n{script()}\n}})();\n{_text('podsim.show', 'page.js')}\n{_text('podsim.ui', 'ui.js')}"


def serve(
    named: Sequence[str],
    *,
    host: str,
    port: int,
    token: str,
    opens: bool,
    processes: int | None,
    tell: Callable[[str], None],
) -> None:
    """Serve the page until the process is interrupted."""
    from fastapi import Response
    from nicegui import app, ui

    from podsim.ui.page import Offer, Planner
    from podsim.ui.pool import Pool

    who = "" if is_loopback(host) else "; whoever has this address can ask"
    with tempfile.TemporaryDirectory(prefix="podsim-ui-") as folder:
        pool = Pool(Path(folder), processes)
        own = tuple(each for each in named if shipped(each, "scenario") is None)
        offer = Offer(pool, own, named[0] if named else _FIRST)

        def page() -> None:
            prepare(ui)
            request: Any = ui.context.client.request
            Planner(offer, request.url.query)

        app.get(_CHARTS)(lambda: Response(_charts(), media_type="text/javascript"))
        app.on_startup(offer.warm)
        app.on_startup(lambda: tell(f"the planner page is at {address(host, port, token)}{who}; Control-C ends it"))
        app.on_shutdown(pool.close)
        app.add_middleware(Gate, token=token)
        Thread(target=script, daemon=True).start()  # put together once, which takes two seconds
        ui.run(
            page,
            host=host,
            port=port,
            title="podsim",
            favicon=_ICON,
            show=f"/?{TOKEN}={token}" if opens and token else opens,
            reload=False,
            tailwind=False,
            show_welcome_message=False,
            language="en-GB",
        )
