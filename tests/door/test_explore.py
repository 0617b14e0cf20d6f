"""`fleetcube explore`: data for the page, refused requests, and the page in a browser."""

import asyncio
import base64
import contextlib
import csv
import http.client
import io
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from fleetcube import Settings, Sweep
from fleetcube.commands.explore import opened
from fleetcube.grid.errors import InputError
from fleetcube.kernels.calculus.derivatives import quantity
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.presentation.page import server as servers
from fleetcube.presentation.page import view as views
from fleetcube.presentation.page.server import Server
from fleetcube.presentation.page.view import Points, View
from tests.door import command, load
from tests.door.wait import until

HOSTILE = "<img src=x onerror=document.title=1>"
# Only GPUs fail: the cluster MTBF is that of one GPU over their number.
SPEC = f"""
outputs = ["cluster_mtbf", "recovery_time", "job_time", "dominant_overhead"]
[scenario]
model = "llama-3-70b"
node = "dgx-h100"
fabric = "infiniband-ndr"
global_batch_size = 2048
detection_time = 90
checkpoint_restore_time = 50
nic_mttf = inf
psu_mttf = inf
[axes]
n_gpus = [64, 256, 1024]
gpu_mttf = {{ geomspace = ["1_000 h", "100_000 h"], num = 1001 }}
provision_time = {{ linspace = [100, 300], num = 5 }}
[axes.layout]
labels = ["small", "{HOSTILE}"]
tensor_parallel = [1, 8]
"""
MTTF = 3.6e6 * 100 ** (np.arange(1001) / 1000)  # [s]


@contextlib.contextmanager
def served(view: View, host: str = "127.0.0.1") -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    with Server(view, host) as server:
        serving = asyncio.run_coroutine_threadsafe(server.serve(), loop)
        try:
            yield server
        finally:
            serving.cancel()
            loop.call_soon_threadsafe(loop.call_later, 0.05, loop.stop)
            thread.join()
            loop.close()


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explore") / "spec.toml"
    path.write_text(SPEC, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def view(spec: Path) -> View:
    sweep = Sweep.from_file(spec)
    cube = sweep.to_zarr(spec.parent / "spec.zarr", settings=Settings("numpy"))
    return View.open(str(cube))


@pytest.fixture(scope="module")
def server(view: View) -> Iterator[Server]:
    with served(view) as found:
        yield found


def virtual(spec: Path) -> View:
    return View(Sweep.from_file(spec).virtual(), str(spec), None, "for a test")


def get(
    server: Server, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    try:
        connection.putrequest(method, path, skip_host=True)
        sent = {"Host": f"127.0.0.1:{server.port}"} | {
            key.replace("_", "-"): value for key, value in headers.items()
        }
        for key, value in sent.items():
            connection.putheader(key, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def asked(server: Server, path: str) -> Any:
    status, _, data = get(server, path)
    assert status == 200, data
    return json.loads(data)


def numbers(found: Any, *sizes: int) -> Any:
    return np.frombuffer(base64.b64decode(found["values"]), "<f8").reshape(sizes)


# Data for the page


def test_the_cube_is_described(view: View) -> None:
    found = view.described()
    axes = {axis["name"]: axis for axis in found["axes"]}
    assert {name: (axis["size"], "labels" in axis) for name, axis in axes.items()} == {
        "n_gpus": (3, False),
        "gpu_mttf": (1001, False),
        "provision_time": (5, False),
        "layout": (2, True),
    }
    assert axes["layout"]["labels"] == ["small", HOSTILE]
    mttf = axes["gpu_mttf"]
    assert (mttf["unit"], mttf["log"], axes["n_gpus"]["log"]) == ("h", True, True)
    assert (len(mttf["picks"]), mttf["picks"][0], mttf["picks"][-1]) == (400, 0, 1000)
    np.testing.assert_allclose(mttf["values"], MTTF[mttf["picks"]], rtol=1e-12)
    assert not axes["provision_time"]["log"]
    np.testing.assert_allclose(axes["provision_time"]["values"], np.linspace(100, 300, 5))
    about = {variable["name"]: variable for variable in found["variables"]}
    assert next(iter(about)) == "cluster_mtbf"
    assert about["cluster_mtbf"]["kind"] == "float64"
    assert about["infeasible_reason"]["words"][0] == "feasible"


def test_a_map_has_values_in_base_units(view: View) -> None:
    found = view.slice("variable=cluster_mtbf&x=gpu_mttf&y=n_gpus")
    assert (found["unit"], found["factor"]) == ("h", 3600)
    picks = view.axes["gpu_mttf"].picks
    expected = MTTF[picks] / np.array([[64], [256], [1024]])
    np.testing.assert_allclose(numbers(found, 3, 400), expected, rtol=1e-12)
    across = view.slice("variable=cluster_mtbf&x=layout&y=n_gpus&at.gpu_mttf=0")
    same = 3.6e6 / np.array([[64, 64], [256, 256], [1024, 1024]])  # no layout changes it
    np.testing.assert_allclose(numbers(across, 3, 2), same, rtol=1e-12)


def test_a_curve_and_a_point_are_cut_where_they_are_asked_for(view: View) -> None:
    path = "variable=recovery_time"
    # two stages that take 30 s each by default
    curve = view.slice(f"{path}&x=provision_time")
    np.testing.assert_allclose(numbers(curve, 5), 90 + 30 + 50 + 30 + np.linspace(100, 300, 5))
    assert numbers(view.slice(f"{path}&at.provision_time=4")).item() == pytest.approx(500)
    assert numbers(view.slice(path)).item() == pytest.approx(400)


def test_flags_and_infeasible_points_come_with_their_meanings(view: View) -> None:
    path = "x=n_gpus&y=layout&at.gpu_mttf=0&at.provision_time=0"
    found = view.slice(f"variable=job_time&{path}")
    reason = np.frombuffer(base64.b64decode(found["reason"]), "i1").reshape(2, 3)
    # the states of 70 billion parameters, some 16 bytes each, do not fit on one GPU
    meanings = [found["reasons"][code] for code in reason[0].tolist()]
    assert meanings == ["out_of_memory"] * 3
    flags = view.slice(f"variable=infeasible_reason&{path.split('&at')[0]}")
    np.testing.assert_array_equal(numbers(flags, 2, 3), reason)
    assert flags["reason"] is None


def test_the_first_point_is_feasible() -> None:
    reason = np.ones((5, 3), int)
    reason[0, 0] = reason[1, 1] = 0
    cube = xarray.Dataset(
        {"a": (("b", "c"), reason * 1.0)}, {"infeasible_reason": (("b", "c"), reason)}
    )
    assert View(cube, "a.zarr", None).start == {"b": 1, "c": 1}


def test_downloads_hold_every_point_in_base_units(server: Server, tmp_path: Path) -> None:
    query = "variable=cluster_mtbf&x=gpu_mttf&at.n_gpus=2"
    status, headers, data = get(server, f"/api/download.csv?{query}")
    assert (status, headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert 'filename="cluster_mtbf-gpu_mttf.csv"' in headers["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert len(rows) == 1001
    assert [float(row["gpu_mttf [s]"]) for row in rows] == pytest.approx(MTTF.tolist())
    assert [float(row["cluster_mtbf [s]"]) for row in rows] == pytest.approx((MTTF / 1024).tolist())
    (tmp_path / "a.nc").write_bytes(get(server, f"/api/download.nc?{query}")[2])
    with xarray.open_dataset(tmp_path / "a.nc") as cut:
        assert cut.cluster_mtbf.attrs["units"] == "s"
        np.testing.assert_allclose(cut.cluster_mtbf, MTTF / 1024)


def test_the_reason_is_downloaded_too(server: Server) -> None:
    status, _, data = get(server, "/api/download.csv?variable=infeasible_reason&x=n_gpus")
    assert status == 200
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert [(row["n_gpus"], row["layout"]) for row in rows] == [
        (size, HOSTILE) for size in ("64", "256", "1024")
    ]
    assert {row["infeasible_reason"] for row in rows} <= set(
        quantity(PHYSICS, "infeasible_reason").doc.flags.values()
    )


def test_a_download_that_is_too_large_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MOST_SAVED", 1000)
    status, _, data = get(server, "/api/download.csv?variable=job_time&x=gpu_mttf")
    assert status == 400
    assert "1,001 points and at most 1,000" in json.loads(data)["error"]


def test_a_stored_cube_is_seen_as_its_spec_is(
    spec: Path, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated = virtual(spec)
    ask = "variable=job_time&x=gpu_mttf&y=layout&at.n_gpus=2"
    for query in (ask, "variable=cluster_mtbf&x=n_gpus", "variable=infeasible_reason"):
        assert view.slice(query) == evaluated.slice(query)
    assert view.saved(ask, ".csv")[1].count(b"\n") == 2003
    assert view.described() == {**evaluated.described(), "source": view.source, "stored": True}
    monkeypatch.setattr(views, "MOST_READ", 10)
    with pytest.raises(InputError, match=r"reads .* GB of the cube"):
        view.slice(ask)
    with pytest.raises(InputError, match=r"reads .* GB of the cube"):
        view.saved(ask, ".csv")


def test_a_cube_whose_spec_is_not_known_is_a_map_alone() -> None:
    cube = xarray.Dataset({"a": ("b", [1.0, 2.0])})
    found = View(cube, "a.zarr", None, "it has no <spec>")
    assert found.described()["axes"][0]["values"] == [0, 1]
    assert "const PROGRAMS = [];" in found.page
    assert "Nothing is computed here: it has no \\u003cspec>" in found.page


def test_a_page_holds_the_formulas_of_a_cube_where_it_can(view: View) -> None:
    assert re.search(r"const PROGRAMS = \[\(all\)", view.page)
    assert HOSTILE not in view.page


def test_a_spec_of_more_choices_than_a_page_holds_is_a_map_alone(spec: Path) -> None:
    both = {"restart_time": [*range(10, 210)], "detection_time": [*range(200)]}
    text = spec.read_text("utf-8").replace("detection_time = 90", "")
    path = spec.parent / "many.toml"
    path.write_text(f"{text}[axes.both]\n" + "\n".join(f"{n} = {v}" for n, v in both.items()))
    found = opened(str(path))
    assert isinstance(found, View)
    assert "const PROGRAMS = [];" in found.page
    assert "layout and both make 400 choices; a page holds 128" in found.page
    assert numbers(found.slice("variable=job_time&x=both&y=layout"), 2, 200).size == 400


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1, 10, 100], "log"),
        ([1, 2, 3], "linear"),
        (np.linspace(1, 100, 50), "linear"),
        (np.round(np.geomspace(8, 16384, 12)), "log"),
        ([0, 1, 10], "linear"),
        ([2, 3], "linear"),
        ([3, 2, 1], "labels"),
        ([1, np.inf], "labels"),
    ],
)
def test_axes_are_drawn_on_the_scale_on_which_they_are_even(values: Any, scale: str) -> None:
    assert Points("gpu_mttf", np.asarray(values), "s").scale == scale


# Refusals and robustness

BAD = [
    ("", "variable = '' is not in the cube"),
    ("variable=job_tim", "did you mean 'job_time'?"),
    ("variable=job_time&x=fabric", "'fabric' is not an axis here; the axes: n_gpus, gpu_mttf"),
    ("variable=job_time&y=n_gpus", "choose two axes"),
    ("variable=job_time&x=n_gpus&y=n_gpus", "choose two axes"),
    ("variable=job_time&at.n_gpus=3", "give 0 to 2"),
    ("variable=job_time&at.n_gpus=-1", "give 0 to 2"),
    ("variable=job_time&at.n_gpus=1.5", "'1.5'"),
    ("variable=job_time&at.n_gpus=", "''"),
    ("variable=job_time&at.n_gpus=%D9%A1", "not an index"),
    ("variable=job_time&at.n_gpus=" + "9" * 5000, "not an index"),
    ("variable=job_time&at.nothing=1", "parameter 'at.nothing' is not known"),
    ("variable=job_time&n_gpus=1", "parameter 'n_gpus' is not known"),
    ("variable=job_time&variable=goodput", "twice"),
    ("variable", "not a query"),
    ("variable=%ff", "not a query"),
    ("variable=" + "a" * 9000, "characters"),
    ("variable=__class__", "not in the cube"),
    ("variable=%3Cscript%3E%0A%0A", "not in the cube"),
]


@pytest.mark.parametrize("page", ["slice", "download.csv", "download.nc"])
@pytest.mark.parametrize(("query", "said"), BAD, ids=[query[:40] for query, _ in BAD])
def test_bad_parameters_get_one_line(server: Server, page: str, query: str, said: str) -> None:
    status, headers, data = get(server, f"/api/{page}?{query}")
    assert (status, headers["Content-Type"]) == (400, "application/json")
    error = json.loads(data)["error"]
    assert said in error
    assert "\n" not in error
    assert len(error) < 600


@pytest.mark.parametrize(
    "path",
    [
        "/server.py",
        "/../server.py",
        "/map.js",
        "/%2e%2e/view.py",
        "/..%2f..%2fpyproject.toml",
        "//etc/passwd",
        "/etc/passwd",
        "/api/download.py",
        "/api/",
        "/api/download.csv/",
    ],
)
def test_there_are_no_other_files(server: Server, path: str) -> None:
    status, _, data = get(server, path)
    assert status == 404
    assert "there is no page" in json.loads(data)["error"]


def test_the_page_is_served_and_asks_no_other_host(server: Server) -> None:
    status, headers, data = get(server, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["X-Content-Type-Options"] == "nosniff"
    text = data.decode()
    (stated,) = re.findall('Content-Security-Policy" content="([^"]*)"', text)
    assert headers["Content-Security-Policy"] == f"{stated}; frame-ancestors 'none'"
    assert "default-src 'none'" in stated
    assert "connect-src 'self'" in stated
    assert "unsafe" not in stated
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
    assert re.findall(r"(?:src|href)=\"(?!data:,|/\")[^\"]*", text) == []
    assert re.findall(r"(?m)url\((?!#)|^\s*import\s|fetch\((?!path\))", text) == []
    head = get(server, "/", "HEAD")
    assert (head[0], head[1]["Content-Length"], head[2]) == (200, str(len(data)), b"")


PATHS = ("/", "/api/slice?variable=job_time", "/api/download.csv")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "192.0.2.1",
        "127.0.0.1@evil.example",
        "[::1",
        "",
    ],
)
def test_other_hosts_are_refused(server: Server, path: str, host: str) -> None:
    status, _, data = get(server, path, Host=host)
    assert status == 403
    assert server.url in json.loads(data)["error"]


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1", "[::1]:80"])
def test_names_of_this_machine_are_answered_also_through_a_tunnel(
    server: Server, host: str
) -> None:
    assert get(server, "/", Host=host)[0] == 200
    assert get(server, "/", Host=host, Origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:1"},  # another program on this machine
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_pages_are_refused(server: Server, headers: dict[str, str]) -> None:
    for path in PATHS[1:]:
        assert get(server, path, **headers)[0] == 403


def test_two_hosts_are_refused(server: Server) -> None:
    hosts = b"Host: localhost\r\nHost: evil.example\r\nConnection: close\r\n"
    answer = raw_answer(server, b"GET / HTTP/1.1\r\n" + hosts + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", b" 501 "),
        (b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", b" 501 "),
        (b"a b c d\r\n\r\n", b"bad request"),
        (b"GET / HTTP/9.1\r\nHost: localhost\r\n\r\n", b"http version"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b" 414 "),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 200 + b"\r\n", b" 431 "),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 70_000 + b"\r\nHost: localhost\r\n\r\n", b" 431 "),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: %060000d\r\n" % 0 * 2, b" 431 "),
    ],
    ids=lambda value: value[:20].decode(),
)
def test_other_methods_and_other_protocols_are_refused(
    server: Server, raw: bytes, said: bytes
) -> None:
    answer = raw_answer(server, raw)
    assert said in answer.splitlines()[0].lower()  # releases of Python word it differently
    assert answer.endswith(b'; send GET"}')


def test_requests_without_headers_are_refused(server: Server) -> None:
    old = raw_answer(server, b"GET /\r\n\r\n")  # HTTP 0.9: Python 3.14 does not answer
    assert b"does not name this machine" in old or not old
    assert b"does not name" in raw_answer(server, b"GET / HTTP/1.0\r\n\r\n")


def test_a_body_is_not_taken_for_the_next_request(server: Server) -> None:
    hidden = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    raw = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(hidden)
    assert raw_answer(server, raw + hidden).count(b"HTTP/1.1 200 ") == 1


def raw_answer(server: Server, raw: bytes) -> bytes:
    """The reply until the server closes or falls silent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=2) as wire:
        wire.sendall(raw)
        found = b""
        try:
            while part := wire.recv(65536):
                found += part
        except (TimeoutError, ConnectionError):
            pass
        return found


def test_a_failure_is_told_in_the_terminal_and_not_to_the_page(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(query: str) -> Any:
        raise RuntimeError("cannot read /a/folder/of\nmine")

    monkeypatch.delenv("FLEETCUBE_DEBUG", raising=False)
    monkeypatch.setattr(server.view, "slice", fail)
    status, _, data = get(server, "/api/slice?variable=job_time")
    assert status == 500
    assert b"mine" not in data
    assert b"Traceback" not in data
    (line,) = capfd.readouterr().err.splitlines()
    assert "RuntimeError: cannot read /a/folder/of mine" in line
    assert get(server, "/")[0] == 200  # still serving


# Concurrency


@pytest.fixture
def scarce(view: View, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(servers, "MOST_CONNECTIONS", 64)
    with served(view) as found:
        yield found


def begun(server: Server, path: str) -> socket.socket:
    wire = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    wire.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return wire


def held_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, list[str]]:
    """Make slices wait for an event; returns it and the requested slices."""
    go, queries = threading.Event(), []
    ask = server.view.slice

    def wait(query: str) -> Any:
        queries.append(query)
        assert go.wait(60)
        return ask(query)

    monkeypatch.setattr(server.view, "slice", wait)
    return go, queries


def test_of_a_crowd_beside_the_silent_no_request_fails(
    scarce: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "GRACE", 1.0)  # longer than a client on a busy machine pauses
    assert scarce.view
    cube = scarce.view.described()
    asked = load.pages(cube, 90, own=False) + load.pages(cube, 10, own=True)
    found = asyncio.run(load.crowd(scarce.port, asked, silent=80, before=1.2))
    assert len(found) == 500
    assert np.isfinite(found).all()


def test_who_sends_nothing_or_drips_keeps_nobody_out(scarce: Server) -> None:
    with contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", scarce.port), timeout=20))
            for _ in range(servers.MOST_CONNECTIONS + 10)
        ]
        for wire in slow[::2]:
            wire.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        assert get(scarce, "/")[0] == 200
        assert slow[0].recv(1) == b""  # the oldest is closed


@pytest.mark.slow
def test_who_has_asked_is_answered_however_many_come(
    scarce: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, _ = held_up(scarce, monkeypatch)
    path = "/api/slice?variable=job_time&at.gpu_mttf="
    with contextlib.ExitStack() as stack:
        count = 2 * servers.MOST_CONNECTIONS
        wires = [stack.enter_context(begun(scarce, f"{path}{k}")) for k in range(count)]
        time.sleep(3 * servers.GRACE)
        go.set()
        for wire in wires:
            assert wire.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_those_who_ask_the_same_at_once_share_its_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, queries = held_up(server, monkeypatch)
    with contextlib.ExitStack() as stack:
        path = "/api/slice?variable=job_time"
        wires = [stack.enter_context(begun(server, path)) for _ in range(20)]
        until(lambda: queries, lambda: "nothing is asked")
        time.sleep(0.2)
        go.set()
        answers = {wire.recv(65536).partition(b"\r\n\r\n")[2] for wire in wires}
    assert (len(queries), len(answers)) == (1, 1)


def test_slices_are_answered_before_downloads(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, queries = held_up(server, monkeypatch)
    monkeypatch.setattr(server.view, "saved", lambda *_: queries.append("saved") or ("a.nc", b""))
    kinds = ("slice", "download.nc", "slice")
    with contextlib.ExitStack() as stack:
        for k, kind in enumerate(kinds):
            query = f"variable=job_time&at.gpu_mttf={k}"
            stack.enter_context(begun(server, f"/api/{kind}?{query}"))
            until(lambda: queries, lambda: "nothing is asked")
            time.sleep(0.1)
        go.set()
        until(lambda: len(queries) == len(kinds), lambda: queries)
    assert queries[-1] == "saved"


def test_a_request_that_is_dripped_ends(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "HEAD_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as wire:
        with contextlib.suppress(ConnectionError):
            for letter in b"GET / HTTP/1.1\r\nHost: localhost":
                wire.sendall(bytes([letter]))
                time.sleep(0.05)
        with contextlib.suppress(ConnectionError):
            assert wire.recv(1) == b""


@pytest.mark.slow
def test_answers_that_nobody_takes_are_few_and_end(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def large(*_: str) -> tuple[str, bytes]:
        made.append(b"0" * (1 << 24))
        return "a.csv", made[-1]

    monkeypatch.setattr(server.view, "saved", large)
    monkeypatch.setattr(servers, "MOST_UNSENT", 1 << 24)
    monkeypatch.setattr(servers, "PIECE_SECONDS", 1)
    with contextlib.ExitStack() as stack:
        for k in range(5):
            stack.enter_context(begun(server, f"/api/download.csv?{k}"))
        until(lambda: len(made) > 1, lambda: made)
        time.sleep(0.3)
        assert len(made) == 2  # the second begins once at most MOST_UNSENT is buffered
        assert get(server, "/")[0] == 200
        until(lambda: len(made) == 5, lambda: "the others are not answered")


@pytest.fixture
def stored(spec: Path, tmp_path: Path) -> Path:
    sweep = Sweep.from_file(spec).spec
    path = tmp_path / "a.zarr"
    scenario: Any = sweep["scenario"]
    Sweep(scenario, {"n_gpus": [64, 256], "gpu_mttf": ["1 h", "2 h"]}, ["job_time"]).to_zarr(path)
    return path


@pytest.mark.parametrize("how", ["removed", "written anew"])
def test_a_cube_that_changes_while_it_is_shown_is_not_shown_on(stored: Path, how: str) -> None:
    query = "variable=job_time&x=n_gpus"
    with served(View.open(str(stored))) as server:
        assert asked(server, f"/api/slice?{query}")["values"]
        if how == "written anew":
            other = {"n_gpus": [128, 512], "gpu_mttf": ["1 h", "2 h"]}
            scenario = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g"}
            Sweep(scenario, other, ["job_time"]).to_zarr(stored, overwrite=True)
        else:
            shutil.rmtree(stored)
        for page in ("slice", "download.csv"):
            status, _, data = get(server, f"/api/{page}?{query}")
            assert status == 400
            assert "restart `fleetcube explore`" in json.loads(data)["error"]


def test_beyond_loopback_addresses_are_answered_and_foreign_names_are_not() -> None:
    with Server("a page", "0.0.0.0") as server:
        assert not server.local
        assert server.is_own("192.0.2.1:80")
        assert server.is_own(socket.gethostname())
        assert not server.is_own("evil.example")


# The command


def fleetcube_explore(*words: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fleetcube", "explore", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("_sigint")
@pytest.mark.parametrize(
    ("stop", "ignored"),
    [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGINT, True)],
)
def test_the_command_serves_until_it_is_stopped(
    spec: Path, stop: signal.Signals, ignored: bool
) -> None:
    """By Ctrl-C where it is not ignored, as by a script's background jobs."""
    if ignored:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = fleetcube_explore("spec.toml", "--no-browser", folder=spec.parent)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/ \((.*) stops it\)", line)
    assert found
    assert found[2] == (f"kill {process.pid}" if ignored else "Ctrl-C")
    if ignored and stop is signal.SIGINT:  # nothing happens
        process.send_signal(stop)
        stop = signal.SIGTERM
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=600)
    connection.request("GET", "/")
    assert b"<title>spec.toml</title>" in connection.getresponse().read()
    connection.close()
    process.send_signal(stop)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out, err) == (0, "ended\n", "")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("none.zarr",), 2, "there is no cube 'none.zarr'"),
        (("none.toml",), 2, "cannot read 'none.toml'"),
        (("spec.toml", "--port", "65536"), 2, "--port 65536 is not a port"),
        (("spec.toml", "--port", "{taken}"), 1, "choose another --port"),
        (("spec.toml", "--host", "192.0.2.1"), 1, "cannot listen on 192.0.2.1"),
    ],
)
def test_what_cannot_be_served_is_told_in_one_line(
    spec: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        filled = [word.replace("{taken}", port) for word in words]
        done = command.fleetcube("explore", *filled, "--no-browser", folder=spec.parent)
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    assert said in line


# The page in a browser


@pytest.mark.slow
def test_a_cube_in_a_browser(browser: Any, server: Server, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.support.select import Select

    def at(name: str) -> Any:
        return browser.find_element("id", name)

    def wait(name: str, text: str) -> None:
        until(lambda: text in at(name).text, lambda: f"{text!r} in {at(name).text!r}", 60)

    def hatched() -> int:
        return len(browser.find_elements("css selector", "#map-picture .hatched"))

    place = "n_gpus=64&gpu_mttf=3600000"
    browser.get(f"{server.url}#map=cluster_mtbf,gpu_mttf,n_gpus&{place}")
    wait("map-read", "cluster MTBF is 15.63 h at GPU MTTF 1,000 h, GPUs 64")  # 1000 / 64
    wait("map-read", "It is stored as float64; the formulas give 15.625, the same.")
    assert colours(browser, "map-picture") > 50
    assert at("map-title").text == "cluster MTBF over GPU MTTF and GPUs"
    # the pointer: the middle of the map is n_gpus = 256, near the middle of 1e3 to 1e5 h
    ActionChains(browser).move_to_element(at("map-picture")).perform()
    wait("map-hover", "Under the pointer: ")
    ActionChains(browser).click().perform()
    wait("map-read", "GPUs 256")
    told, mttf = (
        float(n.replace(",", "")) for n in re.findall(r"([\d.,]+) h", at("map-read").text)
    )
    assert told == pytest.approx(mttf / 256, rel=1e-3)
    assert 5_000 < mttf < 20_000
    until(lambda: "n_gpus=256" in browser.current_url, lambda: browser.current_url)
    # an axis of labels that are text and no markup; what cannot run is hatched, side by side
    Select(at("map-of")).select_by_value("job_time")
    wait("map-title", "job time over GPU MTTF and GPUs")
    (layout,) = browser.find_elements("css selector", "#map-others select")
    assert [option.text for option in Select(layout).options] == ["small", HOSTILE]
    Select(layout).select_by_visible_text("small")
    until(lambda: hatched() == 1, hatched)
    wait("map-key", "cannot run: out of memory")
    Select(at("map-beside")).select_by_visible_text(f"layout={HOSTILE}")
    until(lambda: at("map-other").is_displayed(), lambda: "one map")
    # values computed here, and how far the stored are from them
    Select(at("map-from")).select_by_value("difference")
    wait("map-read", "stored over computed less 1 is ")
    # curves of numbers and flags; every point, as a file
    Select(at("map-from")).select_by_value("stored")
    Select(at("map-beside")).select_by_value("")
    Select(at("map-x")).select_by_value("n_gpus")
    Select(at("map-y")).select_by_value("")
    Select(at("map-of")).select_by_value("dominant_overhead")
    wait("map-title", "dominant overhead over GPUs")
    Select(at("map-of")).select_by_value("cluster_mtbf")
    wait("map-title", "cluster MTBF over GPUs")
    until(lambda: not at("map-other").is_displayed(), lambda: "two maps of a curve")
    browser.find_element("link text", "all points, CSV").click()
    saved = tmp_path / "cluster_mtbf-n_gpus.csv"
    until(saved.exists, lambda: at("map-read").text, 60)
    assert saved.read_text(encoding="utf-8").count("\n") == 4
    for kind in ("svg", "csv"):
        browser.find_element(
            "css selector", f"[aria-label='Save the map as {kind.upper()}']"
        ).click()
    until((tmp_path / "map-picture.svg").exists, lambda: "no picture", 60)
    until((tmp_path / "map.csv").exists, lambda: "no table", 60)
    assert (
        (tmp_path / "map.csv").read_text("utf-8").startswith('"GPUs","cluster MTBF [h]","why not"')
    )
    assert browser.title == server.view.source  # type: ignore[union-attr]
    assert browser.get_log("browser") == []


@pytest.mark.slow
def test_a_cube_without_formulas_in_a_browser(browser: Any, spec: Path) -> None:
    with served(virtual(spec)) as server:
        assert "for a test" in server.page.data.decode()
        browser.get(f"{server.url}#map=cluster_mtbf,gpu_mttf,&n_gpus=1024&gpu_mttf=360000000")
        told = "cluster MTBF is 97.66 h at GPU MTTF 100,000 h"  # 1e5 / 1024
        until(lambda: told in browser.page_source, lambda: browser.page_source[-3000:], 60)
        from selenium.webdriver import Keys

        (size, *_) = browser.find_elements("css selector", "#map-others input")
        size.send_keys(Keys.ARROW_LEFT)
        told = "cluster MTBF is 390.6 h at GPU MTTF 100,000 h"
        until(lambda: told in browser.page_source, lambda: browser.page_source[-3000:], 60)
        assert "n_gpus=256 " in browser.find_element("id", "command").text
    with served(View(xarray.Dataset({"a": 1.0}), "a.zarr", None, "a point")) as server:
        browser.get(server.url)
        until(lambda: "a point" in browser.find_element("id", "about").text, lambda: "nothing", 60)
        assert not browser.find_element("id", "map").is_displayed()
        assert browser.get_log("browser") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("axes", "told"),
    [
        ({}, ""),  # of a point what is computed
        ({"n_gpus": [1024, 64, 256]}, "cluster MTBF is 15.63 h at GPUs 64"),  # as written
        ({"n_gpus": [64, 256], "gpu_mttf": ["1_000 h"]}, "cluster MTBF is 3.906 h at GPUs 256"),
        (
            {"n_gpus": [64], "nic_mttf": [np.inf, 3.6e6]},
            "cluster MTBF is 7.813 h at NIC MTTF",
        ),
    ],
    ids=["a point", "unsorted", "one of one", "infinite"],
)
def test_odd_cubes_in_a_browser(browser: Any, spec: Path, axes: Any, told: str) -> None:
    scenario = dict(Sweep.from_file(spec).spec["scenario"])
    scenario |= {"n_gpus": 64, "gpu_mttf": "1_000 h", "nics_per_node": 8}
    sweep = Sweep({k: v for k, v in scenario.items() if k not in axes}, axes, ["cluster_mtbf"])
    with served(View(sweep.virtual(), "odd", sweep.spec)) as server:
        browser.get(server.url)
        until(
            lambda: browser.execute_script("return at('said').textContent"), lambda: "nothing", 60
        )
        read = "return at('map').hidden ? '' : at('map-read').textContent"
        until(
            lambda: told in browser.execute_script(read), lambda: browser.execute_script(read), 60
        )
        assert not browser.execute_script("return at('map').hidden")
        assert browser.get_log("browser") == []


def colours(browser: Any, picture: str) -> int:
    """The number of colours of a map's pixels."""
    from PIL import Image

    find = f"return document.querySelector('#{picture} image').getAttribute('href')"
    cells = browser.execute_script(find)  # at once: a picture is drawn anew
    with Image.open(io.BytesIO(base64.b64decode(cells.partition(",")[2]))) as image:
        return len(image.getcolors(image.width * image.height) or ())
