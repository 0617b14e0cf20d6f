"""Serve the page: on this machine alone unless said otherwise, for this page alone.

A page of another site can send a browser here, also under a name that it points at this machine
(DNS rebinding). Requests must therefore name this machine as Host, and come from this page.

One thread holds all connections, and a second one evaluates, for one request at a time: memory is
bounded, and who sends or takes bytes slowly keeps nobody waiting.
"""

import asyncio
import contextlib
import io
import ipaddress
import itertools
import json
import os
import re
import socket
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import Any, Self
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


MOST_CONNECTIONS = 512
MOST_HEAD = 1 << 16  # bytes of a request
MOST_HELD = 1 << 28  # bytes of answers that are not sent yet, beyond which none is begun
GRACE = 0.25  # seconds in which a connection is not ended to make room for another
HEAD_SECONDS = 10  # in which a request that has begun must end
IDLE_SECONDS = 60  # between requests
PIECE = 1 << 20  # bytes of an answer that must be taken in PIECE_SECONDS
PIECE_SECONDS = 20
END = re.compile(rb"\n\r?\n")  # of a request
ASKED = ("slice", "levers", "download.csv", "download.nc")  # those in front are answered first


@dataclass(frozen=True, eq=False)
class Answer:
    """What a request gets."""

    status: HTTPStatus
    data: bytes
    kind: str = JSON
    name: str | None = None  # of a file

    @classmethod
    def failed(cls, status: HTTPStatus, reason: str) -> Self:
        """One line of JSON."""
        return cls(status, json.dumps({"error": reason}).encode("ascii"))

    @classmethod
    def to(cls, ask: Callable[[], Any]) -> Self:
        """What a view says: JSON, or a file."""
        try:
            found = ask()
            if isinstance(found, tuple):
                name, data = found
                csv = name.endswith(".csv")
                kind = "text/csv; charset=utf-8" if csv else "application/x-netcdf"
                return cls(HTTPStatus.OK, data, kind, name)
            text = json.dumps(found, allow_nan=False, separators=(",", ":"))
            return cls(HTTPStatus.OK, text.encode("ascii"))
        except InputError as error:
            return cls.failed(HTTPStatus.BAD_REQUEST, str(error))
        except MemoryError:
            told = "out of memory; choose a smaller slice"
            return cls.failed(HTTPStatus.INSUFFICIENT_STORAGE, told)
        except Exception as error:  # a damaged cube, a store that is gone: the page goes on
            if os.environ.get("FLEETCUBE_DEBUG"):
                traceback.print_exc()
            told = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            print(f"fleetcube: {told}; FLEETCUBE_DEBUG=1 shows where", file=sys.stderr)
            told = "it failed; the terminal says why"
            return cls.failed(HTTPStatus.INTERNAL_SERVER_ERROR, told)


NOTHING = Answer(HTTPStatus.OK, b"")


class Server:
    """Serves a view at `url`.

    Beyond MOST_CONNECTIONS a new one waits until there is room. Connections that have sent no whole
    request are ended for it, the oldest first; one that has sent a request is answered.

    Args:
        host: address to listen at.
        port: port; 0 takes a free one.

    Raises OSError where it cannot listen.
    """

    def __init__(self, view: View, host: str = "127.0.0.1", port: int = 0) -> None:
        self.view = view
        self._held: set[socket.socket] = set()
        self._idle: dict[socket.socket, float] = {}  # since when; the oldest first
        self._asked: asyncio.PriorityQueue[Any] = asyncio.PriorityQueue()
        self._count = itertools.count()
        self._asking: dict[str, asyncio.Future[Answer]] = {}  # by path and query
        self._answers: weakref.WeakSet[Answer] = weakref.WeakSet()  # not sent yet
        six = ":" in host
        try:
            self._listener = socket.create_server(
                (host, port),
                family=socket.AF_INET6 if six else socket.AF_INET,
                backlog=MOST_CONNECTIONS,
                dualstack_ipv6=six and socket.has_dualstack_ipv6(),
            )
        except OSError as error:
            raise OSError(
                f"cannot listen at {host}, port {port}: {error.strerror or error}; "
                "choose another --port (0: a free one), or leave --host out"
            ) from None
        self._listener.setblocking(False)
        address, self.port = self._listener.getsockname()[:2]
        self.local = ipaddress.ip_address(str(address)).is_loopback
        self.names = {"localhost", host.lower()}
        if not self.local:
            self.names.add(socket.gethostname().lower())
        self.url = f"http://{f'[{host}]' if six else host}:{self.port}/"
        self.page = {
            path: Answer(HTTPStatus.OK, files(__package__).joinpath(name).read_bytes(), kind)
            for path, (name, kind) in PAGE.items()
        }
        self.page["/api/cube"] = Answer.to(view.description)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    async def serve(self) -> None:
        """Answer until it is cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ask_the_view())
            while True:
                while len(self._held) >= MOST_CONNECTIONS:
                    await self._make_room()
                try:
                    wire, _ = await loop.sock_accept(self._listener)
                except OSError:  # no more open files, say
                    await self._make_room()
                    continue
                self._held.add(wire)
                group.create_task(self._converse(wire))

    async def _make_room(self) -> None:
        """End connections that have sent no request: what is on its way is still answered."""
        await asyncio.sleep(GRACE / 10)
        latest = asyncio.get_running_loop().time() - GRACE
        for wire, since in itertools.islice(self._idle.items(), MOST_CONNECTIONS // 8):
            if since < latest:
                with contextlib.suppress(OSError):
                    wire.shutdown(socket.SHUT_RD)

    async def _converse(self, wire: socket.socket) -> None:
        """Answer a connection's requests."""
        came = bytearray()
        try:
            wire.setblocking(False)
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while await self._exchange(wire, came):
                await asyncio.sleep(0)  # others have their turn
        except OSError:  # it left, or its time is over
            pass
        except Exception:  # the others go on
            traceback.print_exc()
        finally:
            self._held.discard(wire)
            wire.close()

    async def _exchange(self, wire: socket.socket, came: bytearray) -> bool:
        """Answer a request; whether more may follow. Nothing of it is held afterwards."""
        head = await self._head(wire, came)
        if not head:
            return False
        request = Handler(self, head)
        if request.ask is not None:
            request.send(await self._answer(request.path, request.ask))
        loop, body = asyncio.get_running_loop(), memoryview(request.body.data)
        begin = request.begin.getvalue()
        for start in range(0, max(1, len(body)), PIECE):
            async with asyncio.timeout(PIECE_SECONDS):
                await loop.sock_sendall(wire, begin + body[start : start + PIECE])
            begin = b""
        return not request.close_connection

    async def _head(self, wire: socket.socket, came: bytearray) -> bytes:
        """Take a request from what came; nothing where the connection has ended.

        It may be longer than MOST_HEAD, and then lack its end.
        """
        loop = asyncio.get_running_loop()
        self._idle[wire] = loop.time()
        searched = 0
        try:
            async with asyncio.timeout(HEAD_SECONDS if came else IDLE_SECONDS) as limit:
                while not (end := END.search(came, searched)) and len(came) <= MOST_HEAD:
                    searched = max(0, len(came) - 2)
                    data = await loop.sock_recv(wire, MOST_HEAD)
                    if not data:
                        return b""
                    if not came:
                        limit.reschedule(loop.time() + HEAD_SECONDS)
                    came += data
        finally:
            del self._idle[wire]
        size = end.end() if end else len(came)
        head = bytes(came[:size])
        del came[:size]
        return head

    async def _answer(self, path: str, ask: Callable[[], Any]) -> Answer:
        """Ask the view; those who ask the same meanwhile share its answer."""
        if path not in self._asking:
            self._asking[path] = asyncio.get_running_loop().create_future()
            rank = next(k for k, name in enumerate(ASKED) if path.startswith(f"/api/{name}"))
            self._asked.put_nowait((rank, next(self._count), path, ask))
        return await self._asking[path]

    async def _ask_the_view(self) -> None:
        """Ask one after the other, in a thread that may be left alone where the program ends."""
        loop = asyncio.get_running_loop()
        while True:
            _, _, path, ask = await self._asked.get()
            while sum(len(answer.data) for answer in self._answers) > MOST_HELD:
                await asyncio.sleep(0.02)
            found: asyncio.Future[Answer] = loop.create_future()

            def work(ask: Any = ask, found: Any = found) -> None:
                answer = Answer.to(ask)
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(lambda: found.done() or found.set_result(answer))

            threading.Thread(target=work, daemon=True).start()
            answer = await found
            self._answers.add(answer)
            self._asking.pop(path).set_result(answer)
            del answer, found, work

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
    """Reads a request: GET and HEAD have an answer, or `ask` for it; bad ones one line of JSON."""

    server: Server  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "fleetcube", ""

    def __init__(self, server: Server, head: bytes) -> None:
        self.server, self.body = server, NOTHING
        self.ask: Callable[[], Any] | None = None
        self.rfile = io.BytesIO(head)
        self.wfile = self.begin = io.BytesIO()
        self.requestline = self.request_version = self.command = ""
        if len(head) <= MOST_HEAD:
            self.handle_one_request()
        elif b"\n" in head[:MOST_HEAD]:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)

    def do_GET(self) -> None:
        """Answer."""
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # a body, which is not read
        path, _, query = self.path.partition("?")
        refused = self._refusal(path)
        view = self.server.view
        if refused:
            self._fail(HTTPStatus.FORBIDDEN, refused)
        elif path in self.server.page:
            self.send(self.server.page[path])
        elif path in ("/api/download.csv", "/api/download.nc"):
            self.ask = partial(view.saved, query, path.removeprefix("/api/download"))
        elif path in ("/api/slice", "/api/levers"):
            self.ask = partial(view.slice if path == "/api/slice" else view.levers, query)
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

    def _fail(self, status: HTTPStatus, reason: str) -> None:
        self.send(Answer.failed(status, reason))

    def send(self, answer: Answer) -> None:
        """Answer."""
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.data)))
        if answer.name is not None:
            self.send_header("Content-Disposition", f'attachment; filename="{answer.name}"')
        for key, value in HEADERS.items():
            self.send_header(key, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.body = answer

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is not HTTP, or another method."""
        self.close_connection = True
        status = HTTPStatus(code)
        self._fail(status, f"{message or status.phrase}; send GET")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep the terminal quiet."""
