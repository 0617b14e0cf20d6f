"""Many clients of `fleetcube explore` at once, with and without silent connections.

`python -m tests.door.load CUBE [CLIENTS] [SILENT]`: exit 0 if no request fails and, where all
view the same maps, 99 of 100 are answered within a second. Different maps are evaluated in turn,
and wait for each other.
"""

import asyncio
import contextlib
import json
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

HEAD = "GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: {}\r\n\r\n"
SECONDS = 60  # after which a request has failed


Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def ask(port: int, paths: list[str], keep: bool) -> list[float]:
    """Seconds of each request of a client, NaN where it fails; on one connection, or one each."""
    found: list[float] = []
    async with contextlib.AsyncExitStack() as stack:
        wire: Wire | None = None
        for path in paths:
            begun = time.perf_counter()
            try:
                async with asyncio.timeout(SECONDS):
                    for kept in (wire, None):
                        wire = kept or await stack.enter_async_context(connected(port))
                        if await _answered(wire, path, keep):
                            break
                        assert kept  # it was closed while idle: retry, as browsers do
                found.append(time.perf_counter() - begun)
            except (OSError, EOFError, AssertionError):
                found.append(float("nan"))
                wire = None
            if not keep:
                wire = None
    return found


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _answered(wire: Wire, path: str, keep: bool) -> bool:
    """Whether there is an answer; False if the connection was closed before."""
    reader, writer = wire
    writer.write(HEAD.format(path, "keep-alive" if keep else "close").encode())
    try:
        head = await reader.readline()
        if not head:
            return False
    except ConnectionError:
        return False
    head += await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"Content-Length: (\d+)", head)
    assert head.startswith(b"HTTP/1.1 200 "), head[:100]
    assert size, head
    await reader.readexactly(int(size[1]))
    return True


async def drip(port: int) -> None:
    """Send a request byte by byte, and reconnect when closed."""
    while True:
        with contextlib.suppress(OSError):
            async with connected(port) as (reader, writer):
                writer.write(HEAD[:20].encode())
                while not reader.at_eof():
                    writer.write(b"a")
                    await writer.drain()
                    await asyncio.sleep(1)


async def crowd(
    port: int, asked: list[list[str]], silent: int = 0, before: float = 1
) -> list[float]:
    """Simultaneous clients, every other one keeping its connection."""
    slow = [asyncio.create_task(drip(port)) for _ in range(silent)]
    await asyncio.sleep(before if silent else 0)
    clients = [ask(port, paths, k % 2 == 0) for k, paths in enumerate(asked)]
    found = await asyncio.gather(*clients)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    return [seconds for client in found for seconds in client]


def places(cube: Any, client: int) -> str:
    """A map that no other client requests: over two numeric axes, at different places."""
    draw = random.Random(client)
    at = "".join(f"&at.{axis['name']}={draw.randrange(axis['size'])}" for axis in cube["axes"])
    first, second = [axis["name"] for axis in cube["axes"] if "labels" not in axis][:2]
    return f"/api/slice?variable={cube['variables'][0]['name']}&x={first}&y={second}{at}"


def pages(cube: Any, clients: int, own: bool) -> list[list[str]]:
    """Requests of each client: the page, and four maps, shared or its own."""
    return [["/", *(places(cube, 4 * k * own + j) for j in range(4))] for k in range(clients)]


@contextlib.contextmanager
def explored(source: str) -> Iterator[int]:
    """Run a server in a separate process; yields its port."""
    words = [sys.executable, "-m", "fleetcube", "explore", source, "--no-browser"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found
        try:
            yield int(found[1])
        finally:
            process.terminate()


async def described(port: int) -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD.format("/", "close").encode())
    text = (await reader.read()).decode()
    writer.close()
    found = re.search(r"const DATA = (.*);\n", text)
    assert found
    return json.loads(found[1])["cube"]


def main(source: str, clients: int = 200, silent: int = 200) -> int:
    """Measure; returns the exit status."""
    good = True
    with explored(source) as port:
        cube = asyncio.run(described(port))
        for own in (False, True):
            for slow in (0, silent):
                begun = time.perf_counter()
                found = asyncio.run(crowd(port, pages(cube, clients, own), slow))
                done = [seconds for seconds in found if seconds == seconds]
                half, late = statistics.median(done), sorted(done)[int(0.99 * len(done))]
                good &= len(done) == len(found) and (own or late < 1)
                print(
                    f"{clients} clients, {'maps of their own' if own else 'the same maps'}, beside "
                    f"{slow} silent: {len(found)} requests, {len(found) - len(done)} failed; "
                    f"median {half:.3f} s, p99 {late:.3f} s, longest {max(done):.3f} s, "
                    f"all {time.perf_counter() - begun:.1f} s",
                    flush=True,
                )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
