"""Serve a page: to this machine only, unless configured otherwise, and to this page only.

Another site's page can make a browser send requests here, even under a name that resolves to this
machine (DNS rebinding), so requests must name this machine as Host and come from this page. One
thread serves all connections, another evaluates one request at a time: memory is bounded, and slow
clients block nobody.
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
from typing import Any, Self
from urllib.parse import urlsplit

from fleetcube.grid.errors import InputError, shown

from .page import policy_of
from .view import View

JSON, HTML = "application/json", "text/html; charset=utf-8"
FILES = {"csv": "text/csv; charset=utf-8", "nc": "application/x-netcdf"}
POLICY = "default-src 'none'"
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
MOST_CONNECTIONS = 512
MOST_HEAD = 1 << 16  # bytes of a request
MOST_UNSENT = 1 << 28  # bytes of unsent answers beyond which no request is evaluated
GRACE = 0.25  # seconds during which a connection is not closed to make room for another
HEAD_SECONDS = 10  # from a request's first byte to its last
IDLE_SECONDS = 60  # between requests
PIECE = 1 << 20  # bytes of an answer that a client must take within PIECE_SECONDS
PIECE_SECONDS = 20
END = re.compile(rb"\n\r?\n")  # of a request's head
SLICE = "/api/slice"
DOWNLOADS = ("/api/download.csv", "/api/download.nc")
PRIORITY = (SLICE, *DOWNLOADS)  # highest first


@dataclass(frozen=True, eq=False)
class Answer:
    status: HTTPStatus
    data: bytes
    kind: str = JSON
    name: str | None = None  # file name
    policy: str = POLICY

    @classmethod
    def failed(cls, status: HTTPStatus, reason: str) -> Self:
        return cls(status, json.dumps({"error": reason}).encode("ascii"))

    @classmethod
    def to(cls, ask: Callable[[], Any]) -> Self:
        """Call a view method; the answer is JSON or a file, or a one-line error."""
        try:
            result = ask()
            if isinstance(result, tuple):
                name, data = result
                return cls(HTTPStatus.OK, data, FILES[name.rpartition(".")[2]], name)
            text = json.dumps(result, allow_nan=False, separators=(",", ":"))
            return cls(HTTPStatus.OK, text.encode("ascii"))
        except InputError as error:
            return cls.failed(HTTPStatus.BAD_REQUEST, str(error))
        except MemoryError:
            message = "out of memory; choose a smaller slice"
            return cls.failed(HTTPStatus.INSUFFICIENT_STORAGE, message)
        except Exception as error:  # a damaged cube, a store that is gone: the page stays up
            if os.environ.get("FLEETCUBE_DEBUG"):
                traceback.print_exc()
            message = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            print(f"fleetcube: {message}; FLEETCUBE_DEBUG=1 shows where", file=sys.stderr)
            message = "evaluation failed; the terminal shows why"
            return cls.failed(HTTPStatus.INTERNAL_SERVER_ERROR, message)


NOTHING = Answer(HTTPStatus.OK, b"")


class Server:
    """Serves a page at `url`, and slices of the cube in view; port 0 picks a free one. Raises
    OSError if it cannot listen. Beyond MOST_CONNECTIONS, connections without a complete request are
    closed for a new one, the oldest first; one that has sent a request is answered."""

    def __init__(self, content: View | str, host: str = "127.0.0.1", port: int = 0) -> None:
        self.view = None if isinstance(content, str) else content
        self._connections: set[socket.socket] = set()
        self._idle: dict[socket.socket, float] = {}  # idle since, oldest first
        self._queue: asyncio.PriorityQueue[Any] = asyncio.PriorityQueue()
        self._count = itertools.count()  # by arrival within a rank; requests have no order
        self._pending: dict[str, asyncio.Future[Answer]] = {}  # by path and query
        self._answers: weakref.WeakSet[Answer] = weakref.WeakSet()  # dropped once sent
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
                f"cannot listen on {host}, port {port}: {error.strerror or error}; "
                "choose another --port (0: a free one), or leave --host out"
            ) from None
        self._listener.setblocking(False)
        address, self.port = self._listener.getsockname()[:2]
        self.local = ipaddress.ip_address(str(address)).is_loopback
        self.names = {"localhost", host.lower()}
        if not self.local:
            self.names.add(socket.gethostname().lower())
        self.url = f"http://{f'[{host}]' if six else host}:{self.port}/"
        text = content if isinstance(content, str) else content.page
        self.page = Answer(HTTPStatus.OK, text.encode(), HTML, policy=policy_of(text))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    async def serve(self) -> None:
        """Answer requests until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._evaluate())
            while True:
                while len(self._connections) >= MOST_CONNECTIONS:
                    await self._make_room()
                try:
                    wire, _ = await loop.sock_accept(self._listener)
                except OSError:  # such as out of file descriptors
                    await self._make_room()
                    continue
                self._connections.add(wire)
                group.create_task(self._serve_connection(wire))

    async def _make_room(self) -> None:
        """Close connections that have sent no request; requests in progress are still answered."""
        await asyncio.sleep(GRACE / 10)
        latest = asyncio.get_running_loop().time() - GRACE
        for wire, since in itertools.islice(self._idle.items(), MOST_CONNECTIONS // 8):
            if since < latest:
                with contextlib.suppress(OSError):
                    wire.shutdown(socket.SHUT_RD)  # wakes its reader, which closes it

    async def _serve_connection(self, wire: socket.socket) -> None:
        received = bytearray()
        try:
            wire.setblocking(False)
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while await self._serve_request(wire, received):
                await asyncio.sleep(0)  # pipelined requests yield to other connections
        except OSError:  # the client left or timed out
            pass
        except Exception:  # it must not end the other connections
            traceback.print_exc()
        finally:
            self._connections.discard(wire)
            wire.close()

    async def _serve_request(self, wire: socket.socket, received: bytearray) -> bool:
        """Answer one request, keeping nothing of it; return whether more may follow."""
        head = await self._head(wire, received)
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

    async def _head(self, wire: socket.socket, received: bytearray) -> bytes:
        """Take one request from the bytes received; empty if the connection has ended. A result
        longer than MOST_HEAD may be incomplete."""
        loop = asyncio.get_running_loop()
        self._idle[wire] = loop.time()
        searched = 0
        try:
            async with asyncio.timeout(HEAD_SECONDS if received else IDLE_SECONDS) as limit:
                while not (end := END.search(received, searched)) and len(received) <= MOST_HEAD:
                    searched = max(0, len(received) - 2)  # END may straddle the chunks
                    data = await loop.sock_recv(wire, MOST_HEAD)
                    if not data:
                        return b""
                    if not received:
                        limit.reschedule(loop.time() + HEAD_SECONDS)
                    received += data
        finally:
            del self._idle[wire]
        size = end.end() if end else len(received)
        head = bytes(received[:size])
        del received[:size]
        return head

    async def _answer(self, path: str, ask: Callable[[], Any]) -> Answer:
        """Evaluate a request; concurrent identical requests share the answer."""
        if path not in self._pending:
            self._pending[path] = asyncio.get_running_loop().create_future()
            rank = next(k for k, name in enumerate(PRIORITY) if path.startswith(name))
            self._queue.put_nowait((rank, next(self._count), path, ask))
        return await self._pending[path]

    async def _evaluate(self) -> None:
        """Evaluate queued requests one by one, in threads that do not keep the process alive."""
        loop = asyncio.get_running_loop()
        while True:
            _, _, path, ask = await self._queue.get()
            while sum(len(answer.data) for answer in self._answers) > MOST_UNSENT:
                await asyncio.sleep(0.02)
            future: asyncio.Future[Answer] = loop.create_future()

            def work(ask: Any = ask, future: Any = future) -> None:
                answer = Answer.to(ask)
                # a future may be set only in the thread of its loop
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(lambda: future.done() or future.set_result(answer))

            threading.Thread(target=work, daemon=True).start()
            answer = await future
            self._answers.add(answer)
            self._pending.pop(path).set_result(answer)
            del answer, future, work  # else the last answer counts as unsent until the next

    def is_own(self, authority: str) -> bool:
        """Whether a request's Host names this machine, by a name that others cannot set up."""
        try:
            name = urlsplit(f"//{authority}").hostname or ""
            return name in self.names or ipaddress.ip_address(name).is_loopback or not self.local
        except ValueError:
            return False


class Handler(BaseHTTPRequestHandler):
    """Parses a request: GET and HEAD set an answer or `ask`, bad requests one line of JSON."""

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
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # its body is not read
        path, _, query = self.path.partition("?")
        refused = self._refusal(path)
        view = self.server.view
        if refused:
            self.send(Answer.failed(HTTPStatus.FORBIDDEN, refused))
        elif path == "/":
            self.send(self.server.page)
        elif view is not None and path == SLICE:
            self.ask = partial(view.slice, query)
        elif view is not None and path in DOWNLOADS:
            self.ask = partial(view.saved, query, path.removeprefix("/api/download"))
        else:
            missing = f"there is no page {shown(path)}; open /"
            self.send(Answer.failed(HTTPStatus.NOT_FOUND, missing))

    do_HEAD = do_GET  # noqa: N815

    def _refusal(self, path: str) -> str:
        """Why a request is refused; empty if it is not."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not self.server.is_own(hosts[0]):
            names = shown(", ".join(hosts))
            return f"Host {names} does not name this machine; open {self.server.url}"
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{hosts[0].lower()}":
            return f"Origin {shown(origin)} is another page; open {self.server.url}"
        site = self.headers.get("Sec-Fetch-Site", "none")
        if path.startswith("/api/") and site not in ("none", "same-origin"):
            return f"the request comes from another page ({shown(site)}); open {self.server.url}"
        return ""

    def send(self, answer: Answer) -> None:
        """Write the head of an answer and set its body."""
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.data)))
        if answer.name is not None:
            self.send_header("Content-Disposition", f'attachment; filename="{answer.name}"')
        for key, value in HEADERS.items():
            self.send_header(key, value)
        self.send_header("Content-Security-Policy", f"{answer.policy}; frame-ancestors 'none'")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.body = answer

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse other methods and malformed HTTP."""
        self.close_connection = True
        status = HTTPStatus(code)
        self.send(Answer.failed(status, f"{message or status.phrase}; send GET"))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep the terminal quiet."""
