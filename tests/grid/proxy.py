"""A proxy before an object server that answers like a bad network and a busy store."""

import http.client
import http.server
import random
import socket
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

KINDS = ("500", "503", "unsent", "unanswered", "cut", "slow", "stale")
PIECES, PAUSE = 5, 0.02  # of a slow answer
OWN = {"connection", "transfer-encoding", "content-length", "keep-alive"}  # hop-by-hop headers


class Faults:
    """A proxy's faults, in `rate` of the answers, drawn from `kinds`.

    500 and 503: sent before the store is asked. unsent: the connection closes before that.
    unanswered: it closes after that, so that writes have happened. cut: it closes amid the answer.
    slow: the answer comes in pieces. stale: a list as it was up to five lists before.
    """

    def __init__(self, port: int, seed: int = 0) -> None:
        self.port, self.rate, self.kinds = port, 0.0, KINDS
        self.done: Counter[str] = Counter()
        # changes a request's headers, or returns the status to answer
        self.change: Callable[[str, dict[str, str]], int | None] = lambda *_: None
        self._random, self._lock = random.Random(seed), threading.Lock()
        self._lists: dict[str, deque[Any]] = defaultdict(lambda: deque(maxlen=5))

    def draw(self) -> str:
        with self._lock:
            return self._random.choice(self.kinds) if self._random.random() < self.rate else ""

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                link.putheader(name, value)
            link.endheaders(body)
            answer = link.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            link.close()

    def stale(self, method: str, path: str, answer: Any, fault: str) -> Any:
        """For a list request, an earlier list of the same names."""
        if method != "GET" or "list-type" not in path or answer[0] != 200:
            return answer
        with self._lock:
            before = self._lists[path.split("&continuation")[0]]
            before.append(answer)
            return before[0] if fault == "stale" else answer


@contextmanager
def proxy(port: int, seed: int = 0) -> Iterator[tuple[int, Faults]]:
    """Proxy a port; yields the proxy's port and its faults."""
    faults = Faults(port, seed)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet per answer

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = dict(self.headers.items())
            fault = faults.draw()
            faults.done[fault] += 1
            status = faults.change(self.command, headers)
            if status or fault in ("500", "503"):
                code = {"500": "InternalError", "503": "SlowDown"}.get(fault, "NotImplemented")
                text = f"<Error><Code>{code}</Code><Message>{fault}</Message></Error>".encode()
                self.say(status or int(fault), [], text)
                return
            if fault == "unsent":
                self.end()
                return
            answer = faults.ask(self.command, self.path, headers, body)
            if fault == "unanswered":
                self.end()
                return
            self.say(*faults.stale(self.command, self.path, answer, fault), fault)

        def say(self, status: int, headers: Any, body: bytes, fault: str = "") -> None:
            self.send_response_only(status)
            length = str(len(body))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                if name.lower() not in OWN:
                    self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", length)
            self.end_headers()
            if fault == "cut" and body:
                self.wfile.write(body[: len(body) // 2])
                self.end()
            elif fault == "slow":
                step = len(body) // PIECES + 1
                for start in range(0, len(body), step):
                    self.wfile.write(body[start : start + step])
                    self.wfile.flush()
                    time.sleep(PAUSE)
            elif self.command != "HEAD":
                self.wfile.write(body)

        def end(self) -> None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = pass_on  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # a client that was killed

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, faults
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
