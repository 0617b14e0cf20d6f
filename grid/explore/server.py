"""Serve the page: on this machine alone unless said otherwise, for this page alone.

A page of another site can send a browser here, also under a name that it points at this machine
(DNS rebinding). Requests must therefore name this machine as Host, and come from this page.
"""

import contextlib
import ipaddress
import json
import os
import socket
import socketserver
import sys
import threading
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from ..errors import InputError, shown
from .view import View

PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/plot.js": ("plot.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}
JSON = "application/json"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


MOST_CONNECTIONS = 64  # a browser makes six


class Server(ThreadingHTTPServer):
    """Serves a view at `url`.

    Of more connections than MOST_CONNECTIONS the oldest is ended: who sends nothing keeps nobody
    out.

    Args:
        host: address to listen at.
        port: port; 0 takes a free one.

    Raises OSError where it cannot listen.
    """

    daemon_threads = True
    request_queue_size = 2 * MOST_CONNECTIONS

    def __init__(self, view: View, host: str = "127.0.0.1", port: int = 0) -> None:
        self.view = view
        self._held: dict[Any, None] = {}  # connections, the oldest first
        self._gate = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            raise OSError(
                f"cannot listen at {host}, port {port}: {error.strerror or error}; "
                "choose another --port (0: a free one), or leave --host out"
            ) from None
        address, self.port = self.server_address[0], self.server_address[1]
        self.local = ipaddress.ip_address(str(address)).is_loopback
        self.names = {"localhost", host.lower()}
        if not self.local:
            self.names.add(socket.gethostname().lower())
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        self.page = {
            path: (files(__package__).joinpath(name).read_bytes(), kind)
            for path, (name, kind) in PAGE.items()
        }

    def server_bind(self) -> None:
        """Bind, without asking a name server for a name that nobody needs."""
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection; the oldest one ends where there are too many."""
        with self._gate:
            self._held[request] = None
            oldest = next(iter(self._held)) if len(self._held) > MOST_CONNECTIONS else None
            self._held.pop(oldest, None)
            if oldest is not None:
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        with self._gate:
            self._held.pop(request, None)
        super().shutdown_request(request)

    def is_own(self, authority: str) -> bool:
        """Whether the Host of a request names this machine: no name that others can set up does."""
        try:
            name = urlsplit(f"//{authority}").hostname or ""
        except ValueError:
            return False
        if name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self.local


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; bad requests with one line of JSON."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "fleetcube", ""
    timeout = 60  # seconds that a connection may idle

    def do_GET(self) -> None:
        """Answer."""
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # a body, which is not read
        path, _, query = self.path.partition("?")
        refused = self._refusal(path)
        if refused:
            self._fail(HTTPStatus.FORBIDDEN, refused)
        elif path in self.server.page:
            self._send(HTTPStatus.OK, *self.server.page[path])
        elif path in ("/api/download.csv", "/api/download.nc"):
            ending = path.removeprefix("/api/download")
            self._answer(lambda: self.server.view.saved(query, ending))
        elif path in ("/api/cube", "/api/slice", "/api/levers"):
            view = self.server.view
            asked: dict[str, Callable[[], Any]] = {
                "/api/cube": view.description,
                "/api/slice": lambda: view.slice(query),
                "/api/levers": lambda: view.levers(query),
            }
            self._answer(asked[path])
        else:
            self._fail(HTTPStatus.NOT_FOUND, f"there is no page {shown(path)}; open /")

    do_HEAD = do_GET  # noqa: N815

    def _refusal(self, path: str) -> str:
        """Why a request is refused; nothing where it is not."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not self.server.is_own(hosts[0]):
            told = shown(", ".join(hosts))
            return f"Host {told} does not name this machine; open {self.server.url}"
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{hosts[0].lower()}":
            return f"Origin {shown(origin)} is another page; open {self.server.url}"
        site = self.headers.get("Sec-Fetch-Site", "none")
        if path.startswith("/api/") and site not in ("none", "same-origin"):
            return f"the request comes from another page ({shown(site)}); open {self.server.url}"
        return ""

    def _answer(self, ask: Callable[[], Any]) -> None:
        """Send what is asked for: JSON, or a file."""
        try:
            found = ask()
            if not isinstance(found, tuple):
                text = json.dumps(found, allow_nan=False, separators=(",", ":"))
        except InputError as error:
            self._fail(HTTPStatus.BAD_REQUEST, str(error))
        except MemoryError:
            self._fail(HTTPStatus.INSUFFICIENT_STORAGE, "out of memory; choose a smaller slice")
        except Exception as error:  # a damaged cube, a store that is gone: the page goes on
            if os.environ.get("FLEETCUBE_DEBUG"):
                traceback.print_exc()
            told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            print(f"fleetcube: {told}; FLEETCUBE_DEBUG=1 shows where", file=sys.stderr)
            self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, "it failed; the terminal says why")
        else:
            if isinstance(found, tuple):
                name, data = found
                kind = (
                    "text/csv; charset=utf-8" if name.endswith(".csv") else "application/x-netcdf"
                )
                self._send(HTTPStatus.OK, data, kind, name)
            else:
                self._send(HTTPStatus.OK, text.encode("ascii"), JSON)

    def _fail(self, status: HTTPStatus, reason: str) -> None:
        self._send(status, json.dumps({"error": reason}).encode("ascii"), JSON)

    def _send(self, status: HTTPStatus, data: bytes, kind: str, name: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if name is not None:
            self.send_header("Content-Disposition", f'attachment; filename="{name}"')
        for key, value in HEADERS.items():
            self.send_header(key, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is not HTTP, or another method."""
        self.close_connection = True
        status = HTTPStatus(code)
        self._fail(status, f"{message or status.phrase}; send GET")

    def handle(self) -> None:
        """Answer until the browser leaves."""
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep the terminal quiet."""
