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

import fleetcube
from fleetcube import Settings, Sweep
from fleetcube.explore import server as servers
from fleetcube.explore import view as views
from fleetcube.explore.server import PAGE, Server
from fleetcube.explore.view import View, number, spacing
from fleetcube.grid.errors import InputError
from fleetcube.kernels.calculus.derivatives import quantity
from fleetcube.kernels.physics.graph import PHYSICS
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
def server(spec: Path) -> Iterator[Server]:
    with served(View.open(str(spec))) as found:
        yield found


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


def numbers(found: Any) -> Any:
    sizes = [len(found[name]["picks"]) for name in ("y", "x") if found[name] is not None]
    return np.frombuffer(base64.b64decode(found["values"]), "<f8").reshape(sizes)


# Data for the page


def test_the_cube_is_described(server: Server) -> None:
    found = asked(server, "/api/cube")
    assert {axis["name"]: (axis["size"], axis["numeric"]) for axis in found["axes"]} == {
        "n_gpus": (3, True),
        "gpu_mttf": (1001, True),
        "provision_time": (5, True),
        "layout": (2, False),
    }
    assert found["axes"][3]["options"] == ["small", HOSTILE]
    about = {variable["name"]: variable for variable in found["variables"]}
    assert about["cluster_mtbf"]["dims"] == ["n_gpus", "gpu_mttf"]
    assert about["dominant_overhead"]["flag"]
    assert about["infeasible_reason"]["flag"]


def test_a_map_has_values_in_a_convenient_unit_and_its_axes(server: Server) -> None:
    found = asked(server, "/api/slice?variable=cluster_mtbf&x=gpu_mttf&y=n_gpus")
    x, y = found["x"], found["y"]
    assert (found["unit"], x["unit"], y["unit"]) == ("h", "h", "")
    assert (x["scale"], y["scale"]) == ("log", "log")
    assert y["labels"] == ["64", "256", "1,024"]
    assert (len(x["picks"]), x["picks"][0], x["picks"][-1]) == (views.MOST_ACROSS, 0, 1000)
    np.testing.assert_allclose(x["values"], MTTF[x["picks"]] / 3600, rtol=1e-12)
    expected = MTTF[x["picks"]] / 3600 / np.array([[64], [256], [1024]])
    np.testing.assert_allclose(numbers(found), expected, rtol=1e-12)


def test_a_curve_and_a_point_are_cut_where_they_are_asked_for(server: Server) -> None:
    path = "/api/slice?variable=recovery_time"
    curve = asked(server, f"{path}&x=provision_time")
    # two stages that take 30 s each by default
    np.testing.assert_allclose(numbers(curve) * 60, 90 + 30 + 50 + 30 + np.linspace(100, 300, 5))
    assert curve["x"]["scale"] == "linear"
    assert curve["x"]["labels"] == ["1.66667", "2.5", "3.33333", "4.16667", "5"]
    point = asked(server, f"{path}&at.provision_time=4")
    assert numbers(point).item() * 60 == pytest.approx(500)
    assert point["at"]["provision_time"] == "5 min"
    middle = asked(server, path)
    assert numbers(middle).item() * 60 == pytest.approx(400)


def test_flags_and_infeasible_points_come_with_their_meanings(server: Server) -> None:
    path = "x=n_gpus&y=layout&at.gpu_mttf=0&at.provision_time=0"
    found = asked(server, f"/api/slice?variable=job_time&{path}")
    reason = np.frombuffer(base64.b64decode(found["reason"]), "i1").reshape(2, 3)
    # the states of 70 billion parameters, some 16 bytes each, do not fit on one GPU
    meanings = [found["reasons"][str(code)] for code in reason[0].tolist()]
    assert meanings == ["out_of_memory"] * 3
    flags = asked(server, f"/api/slice?variable=infeasible_reason&{path.split('&at')[0]}")
    np.testing.assert_array_equal(numbers(flags), reason)
    assert flags["flags"]["0"] == "feasible"
    assert flags["reason"] is None


def test_a_link_holds_values_and_says_what_it_does_not_understand(server: Server) -> None:
    # 500 GPUs are not a point of the spec, 100,000 h is the last of its axis
    found = asked(
        server,
        "/api/view?variable=cluster_mtbf&x=gpu_mttf&y=nothing&at.gpu_mttf=100,000+h&at.n_gpus=500"
        "&at.layout=big&at.nonsense=1&more=1",
    )
    assert found["state"]["at"] == {"gpu_mttf": 1000, "n_gpus": 1}
    said = " ".join(found["notes"])
    assert "n_gpus = '500' is not a point; 256 is the nearest" in said
    assert all(name in said for name in ("'nothing'", "'big'", "nonsense", "'more'"))


def test_an_example_opens_by_its_name() -> None:
    assert View.open("example:h100").sweep is not None
    with pytest.raises(InputError, match="'example:h10' is no example; did you mean 'h100'"):
        View.open("example:h10")


def test_the_first_point_is_feasible() -> None:
    reason = np.ones((5, 3), int)
    reason[0, 0] = reason[1, 1] = 0
    cube = xarray.Dataset(
        {"a": (("b", "c"), reason * 1.0)}, {"infeasible_reason": (("b", "c"), reason)}
    )
    assert View(cube, "a.zarr", None).start == {"b": 1, "c": 1}


def test_a_slice_as_python_gives_the_same(server: Server) -> None:
    query = "variable=cluster_mtbf&at.n_gpus=2&at.gpu_mttf=1000"
    found = server.view.code(query)
    names: dict[str, Any] = {}
    exec(
        found["python"].rsplit("print(", 1)[0] + "got = " + found["python"].rsplit("print", 1)[1],
        names,
    )
    assert names["got"].item() == pytest.approx(MTTF[-1] / 1024)
    assert found["command"].startswith("fleetcube run ")


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
    spec: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cube = fleetcube.Sweep.from_file(spec).to_zarr(
        str(tmp_path / "a.zarr"), settings=Settings("numpy")
    )
    stored = View.open(str(cube))
    virtual = server.view
    ask = "variable=job_time&x=gpu_mttf&y=layout&at.n_gpus=2"
    for query in (ask, "variable=cluster_mtbf&x=n_gpus", "variable=infeasible_reason"):
        found, expected = stored.slice(query), virtual.slice(query)
        assert found | {"seconds": 0} == expected | {"seconds": 0}
    assert stored.decision.count("const PROGRAMS") == 1
    assert stored.saved(ask, ".csv")[1].count(b"\n") == 2003
    told = stored.description()
    assert [v["name"] for v in told["variables"]] == [
        v["name"] for v in virtual.description()["variables"]
    ]
    monkeypatch.setattr(views, "MOST_READ", 10)
    with pytest.raises(InputError, match=r"reads .* GB of the cube"):
        stored.slice(ask)
    with pytest.raises(InputError, match=r"reads .* GB of the cube"):
        stored.saved(ask, ".csv")


def test_a_cube_whose_spec_is_not_known_has_no_page_of_it() -> None:
    cube = xarray.Dataset({"a": ("b", [1.0, 2.0])})
    view = View(cube, "a.zarr", None, "it has no <spec>")
    found = view.slice("variable=a&x=b")
    assert found["x"]["labels"] == ["0", "1"]
    assert not view.description()["decides"]
    assert "<p>it has no &lt;spec&gt;</p>" in view.decision


def test_the_page_of_the_spec_is_served_with_its_policy(server: Server) -> None:
    status, headers, data = get(server, "/decide")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    text = data.decode()
    assert HOSTILE not in text
    (stated,) = re.findall('Content-Security-Policy" content="([^"]*)"', text)
    assert headers["Content-Security-Policy"] == f"{stated}; frame-ancestors 'none'"
    assert "unsafe" not in stated
    assert server.start == f"{server.url}decide"


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
    assert spacing(np.asarray(values)) == scale


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.98765, "0.9877"),
        (1024.0, "1,024"),
        (50_000.000_000_1, "50,000"),
        (12.5, "12.5"),
        (-1234.56, "-1,235"),
        (7.06e10, "7.06e+10"),
        (np.inf, "inf"),
        (np.nan, "nan"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


# Refusals and robustness

BAD = [
    ("", "variable = '' is not in the cube"),
    ("variable=job_tim", "did you mean 'job_time'?"),
    ("variable=job_time&x=fabric", "'fabric' is not an axis of job_time"),
    ("variable=cluster_mtbf&x=layout", "its axes: n_gpus, gpu_mttf"),
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


@pytest.mark.parametrize("page", ["slice", "band", "code", "download.csv", "download.nc"])
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
        "/page.py",
        "/server.py",
        "/../server.py",
        "/page.js/../server.py",
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
    for path, (name, kind) in PAGE.items():
        status, headers, data = get(server, path)
        assert (status, headers["Content-Type"]) == (200, kind)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        text = data.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|url\(|import\s|[\"'`]//", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
        head = get(server, path, "HEAD")
        assert (head[0], head[1]["Content-Length"], head[2]) == (200, str(len(data)), b"")


PATHS = ("/", "/page.js", "/api/cube", "/api/slice?variable=job_time", "/api/download.csv")


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
    assert get(server, "/api/cube", Host=host)[0] == 200
    assert get(server, "/api/cube", Host=host, Origin=f"http://{host}")[0] == 200


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
    for path in PATHS[2:]:
        assert get(server, path, **headers)[0] == 403


def test_two_hosts_are_refused(server: Server) -> None:
    hosts = b"Host: localhost\r\nHost: evil.example\r\nConnection: close\r\n"
    answer = raw_answer(server, b"GET / HTTP/1.1\r\n" + hosts + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"POST /api/cube HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", b" 501 "),
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
    old = raw_answer(server, b"GET /api/cube\r\n\r\n")  # HTTP 0.9: Python 3.14 does not answer
    assert b"does not name this machine" in old or not old
    assert b"does not name" in raw_answer(server, b"GET /api/cube HTTP/1.0\r\n\r\n")


def test_a_body_is_not_taken_for_the_next_request(server: Server) -> None:
    hidden = b"GET /api/cube HTTP/1.1\r\nHost: localhost\r\n\r\n"
    raw = b"GET /page.css HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(hidden)
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
    assert asked(server, "/api/cube")["source"]  # still serving


# Concurrency


@pytest.fixture
def scarce(spec: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(servers, "MOST_CONNECTIONS", 64)
    with served(View.open(str(spec))) as found:
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
    cube = scarce.view.description()
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
            wire.sendall(b"GET /api/cube HTTP/1.1\r\nHost: loc")
        assert asked(scarce, "/api/cube")["source"]
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


def test_slices_are_answered_before_bands(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    go, queries = held_up(server, monkeypatch)
    monkeypatch.setattr(server.view, "band", lambda _: queries.append("band") or {})
    kinds = ("slice", "band", "slice")
    with contextlib.ExitStack() as stack:
        for k, kind in enumerate(kinds):
            query = f"variable=job_time&at.gpu_mttf={k}"
            stack.enter_context(begun(server, f"/api/{kind}?{query}"))
            until(lambda: queries, lambda: "nothing is asked")
            time.sleep(0.1)
        go.set()
        until(lambda: len(queries) == len(kinds), lambda: queries)
    assert queries[-1] == "band"


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
        assert asked(server, "/api/cube")["source"]
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


def test_beyond_loopback_addresses_are_answered_and_foreign_names_are_not(spec: Path) -> None:
    with Server(View.open(str(spec)), "0.0.0.0") as server:
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
    found = re.search(r"http://127\.0\.0\.1:(\d+)/decide \((.*) stops it\)", line)
    assert found
    assert found[2] == (f"kill {process.pid}" if ignored else "Ctrl-C")
    if ignored and stop is signal.SIGINT:  # nothing happens
        process.send_signal(stop)
        stop = signal.SIGTERM
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=600)
    connection.request("GET", "/api/cube")
    assert json.loads(connection.getresponse().read())["source"] == "spec.toml"
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
def test_the_page_in_a_browser(browser: Any, server: Server, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains, Keys
    from selenium.webdriver.support.select import Select

    def at(name: str) -> Any:
        return browser.find_element("id", name)

    def wait(name: str, text: str) -> None:
        until(lambda: text in at(name).text, lambda: f"{text!r} in {at(name).text!r}")

    browser.get(
        f"{server.url}#variable=cluster_mtbf&x=gpu_mttf&y=n_gpus&at.gpu_mttf=1000+h&at.n_gpus=64"
    )
    wait("point", "cluster MTBF = 15.63 h at GPU MTTF = 1,000 h, GPUs = 64")  # 1000 / 64
    wait("size", "1,200 points")
    assert colours(browser, "map") > 50
    # keys: up to 256 GPUs
    at("map").send_keys(Keys.ARROW_UP)
    wait("point", "cluster MTBF = 3.906 h at GPU MTTF = 1,000 h, GPUs = 256")
    # the pointer: the middle of the map is n_gpus = 256, near the middle of 1e3 to 1e5 h
    ActionChains(browser).move_to_element(at("map")).click().perform()
    until(lambda: not at("tip").get_attribute("hidden"), lambda: "no tip")
    tip = at("tip").text
    assert "GPUs = 256" in tip
    told, mttf = (float(found.replace(",", "")) for found in re.findall(r"= ([\d.,]+) h", tip))
    assert told == pytest.approx(mttf / 256, rel=1e-3)
    assert 5_000 < mttf < 20_000
    wait("point", "GPUs = 256")
    assert "at.n_gpus=256" in browser.current_url
    # another variable, an axis of labels that are text and no markup, sliders
    Select(at("variable")).select_by_value("job_time")
    wait("title", "job time")
    layout = browser.find_element("css selector", "#others select")
    assert [option.text for option in Select(layout).options] == ["small", HOSTILE]
    Select(layout).select_by_visible_text(HOSTILE)
    wait("fixed", f"layout {HOSTILE}")
    slider = browser.find_element("css selector", "#others input[type=range]")
    slider.send_keys(Keys.ARROW_RIGHT)
    wait("fixed", "provision time 4.16667 min")
    assert slider.get_attribute("aria-valuetext") == "4.16667 min"
    # curves, flags, downloads
    Select(at("y")).select_by_value("")
    until(lambda: not at("cuts").is_displayed(), lambda: "the cuts of a curve are shown")
    Select(at("variable")).select_by_value("dominant_overhead")
    wait("title", "dominant overhead")
    Select(at("variable")).select_by_value("cluster_mtbf")
    Select(at("x")).select_by_value("n_gpus")
    assert Select(at("y")).first_selected_option.text == "none: a curve"
    wait("title", "cluster MTBF [h]")
    at("csv").click()
    saved = tmp_path / "cluster_mtbf-n_gpus.csv"
    until(saved.exists, lambda: at("status").text)
    assert saved.read_text(encoding="utf-8").count("\n") == 4
    # a link in use: values, and what is not understood
    browser.execute_script(
        "location.hash = arguments[0]",
        "variable=cluster_mtbf&x=gpu_mttf&at.n_gpus=500&at.nothing=1",
    )
    wait("status", "'nothing' is not an axis here")
    wait("title", "cluster MTBF [h]")
    assert "at.n_gpus=256" in browser.current_url  # the nearest
    at("svg").click()
    until((tmp_path / "cluster_mtbf.svg").exists, lambda: at("status").text)
    at("pin").click()
    wait("pins-table", "GPUs 256")
    # the page of the spec at the point
    assert browser.title.endswith("fleetcube explore")
    at("decide").click()
    until(lambda: "/decide" in browser.current_url, lambda: browser.current_url)
    until(lambda: "out of memory" in at("sentence").text, lambda: at("sentence").text)
    assert "n_gpus=256" in browser.current_url
    size = "return controls.get(SIZE).typed.value"
    until(lambda: browser.execute_script(size) == "256", lambda: browser.execute_script(size))
    at("maps").click()
    until(lambda: at("title").text, lambda: "nothing is drawn")
    assert browser.get_log("browser") == []


def colours(browser: Any, picture: str) -> int:
    """The number of colours of a map's pixels."""
    from PIL import Image

    find = f"return document.querySelector('#{picture} image').getAttribute('href')"
    cells = browser.execute_script(find)  # at once: a picture is drawn anew
    with Image.open(io.BytesIO(base64.b64decode(cells.partition(",")[2]))) as image:
        return len(image.getcolors(image.width * image.height) or ())
