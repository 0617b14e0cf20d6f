"""Object servers from programs on PATH, each in a temporary folder with one copy and no TLS."""

import contextlib
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

KEY, SECRET = "test:tester", "testing"
SECONDS = 60.0  # limit for a server to answer


def free_port() -> int:
    """A free port below those that Linux gives to clients."""
    while True:
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", random.randrange(12_000, 32_000)))
            return int(found.getsockname()[1])


@contextmanager
def program(folder: Path, *words: str, **environment: str) -> Iterator[None]:
    """Run a program until the block ends; its output goes into a file."""
    with (folder / f"{Path(words[0]).name}-{uuid.uuid4().hex[:4]}.log").open("wb") as log:
        running = subprocess.Popen(
            words, cwd=folder, stdout=log, stderr=log, env={**os.environ, **environment}
        )
        try:
            yield
        finally:
            running.terminate()
            try:
                running.wait(20)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def answers(port: int) -> int:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
        except urllib.error.HTTPError as error:
            if error.code < 500:
                return port
        except OSError:
            pass
        else:
            return port
        time.sleep(0.2)
    raise TimeoutError(f"no answer on port {port}")


@contextmanager
def moto(_: Path) -> Iterator[int]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield server.get_host_and_port()[1]
    finally:
        server.stop()


@contextmanager
def rclone(folder: Path) -> Iterator[int]:
    port = free_port()
    (folder / "data").mkdir()
    address = ("--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}")
    words = ("serve", "s3", *address, "--vfs-cache-mode", "off", "data")
    with program(folder, "rclone", *words):
        yield answers(port)


@contextmanager
def seaweedfs(folder: Path) -> Iterator[int]:
    """SeaweedFS: master, volume server, filer and S3 gateway in one process."""
    port = free_port()
    (folder / "data").mkdir()
    ports = {"master.port": 0, "volume.port": 0, "filer.port": 0}
    words = ["server", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", "-filer"]
    words += [f"-{name}={free_port()}" for name in ports]
    words += [f"-{name}.grpc={free_port()}" for name in (*ports, "s3.port")]
    words += [f"-s3.port={port}", "-master.volumeSizeLimitMB=64", "-master.telemetry=false"]
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    with program(folder, "weed", *words, **keys):
        yield answers(port)


@contextmanager
def swift(folder: Path) -> Iterator[int]:
    """OpenStack Swift: a ring of one device, and the S3 middleware in its proxy."""
    ports = {name: free_port() for name in ("account", "container", "object")}
    port, cache = free_port(), free_port()
    (folder / "devices" / "disk").mkdir(parents=True)
    (folder / "swift.conf").write_text(
        "[swift-hash]\nswift_hash_path_suffix = a\nswift_hash_path_prefix = b\n"
        "[storage-policy:0]\nname = one\ndefault = yes\n",
        encoding="utf-8",
    )
    common = f"bind_ip = 127.0.0.1\nswift_dir = {folder}\nuser = {_user()}\nworkers = 0\n"
    for name, own in ports.items():
        ring = (f"{name}.builder",)
        for words in (
            ("create", "8", "1", "0"),
            ("add", f"r1z1-127.0.0.1:{own}/disk", "1"),
            ("rebalance",),
        ):
            _done(folder, "swift-ring-builder", *ring, *words)
        (folder / f"{name}.conf").write_text(
            f"[DEFAULT]\n{common}bind_port = {own}\ndevices = {folder}/devices\n"
            "mount_check = false\ndisable_fallocate = true\n"
            f"[pipeline:main]\npipeline = {name}-server\n"
            f"[app:{name}-server]\nuse = egg:swift#{name}\n",
            encoding="utf-8",
        )
    (folder / "proxy.conf").write_text(
        f"[DEFAULT]\n{common}bind_port = {port}\n"
        "[pipeline:main]\n"
        "pipeline = catch_errors cache s3api tempauth slo versioned_writes proxy-server\n"
        "[app:proxy-server]\nuse = egg:swift#proxy\nallow_account_management = true\n"
        "account_autocreate = true\n"
        f"[filter:tempauth]\nuse = egg:swift#tempauth\nuser_test_tester = {SECRET} .admin\n"
        f"[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:{cache}\n"
        "[filter:s3api]\nuse = egg:swift#s3api\n"
        + "".join(
            f"[filter:{name}]\nuse = egg:swift#{name}\n"
            for name in ("catch_errors", "slo", "versioned_writes")
        )
        + "allow_versioned_writes = true\n",
        encoding="utf-8",
    )
    with ExitStack() as stack:
        words = ("-l", "127.0.0.1", "-p", str(cache), "-u", _user())
        stack.enter_context(program(folder, "memcached", *words))
        for name in (*ports, "proxy"):
            config = str(folder / f"{name}.conf")
            stack.enter_context(program(folder, f"swift-{name}-server", config, "-v"))
        yield answers(port)


@contextmanager
def ceph(folder: Path) -> Iterator[int]:
    """Ceph: one monitor, one object daemon in memory, and its gateway, radosgw."""
    port, monitor, fsid = free_port(), free_port(), str(uuid.uuid4())
    (folder / "ceph.conf").write_text(
        f"""[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{monitor}
public addr = 127.0.0.1
keyring = {folder}/keyring
run dir = {folder}
admin socket = {folder}/$name.asok
pid file =
log file = {folder}/$name.log
crash dir = {folder}
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data = {folder}/mon
mon data avail crit = 1
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 2147483648
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw thread pool size = 32
""",
        encoding="utf-8",
    )
    conf = ("-c", str(folder / "ceph.conf"))
    for name in ("mon", "osd", "rgw"):
        (folder / name).mkdir()
    for name in ("mon.", "osd.0", "client.admin"):
        new = () if name != "mon." else ("--create-keyring",)
        may = ("--cap", "mon", "allow *", "--cap", "osd", "allow *")
        _done(folder, "ceph-authtool", *new, "keyring", "--gen-key", "-n", name, *may)
    _done(folder, "monmaptool", "--create", "--fsid", fsid, "--addv", "a",
          f"[v2:127.0.0.1:{monitor}]", "map")  # fmt: skip
    _done(folder, "ceph-mon", *conf, "--mkfs", "-i", "a", "--monmap", "map", "--keyring", "keyring")
    with ExitStack() as stack:
        stack.enter_context(program(folder, "ceph-mon", *conf, "-f", "-i", "a"))
        _done(folder, "ceph", *conf, "osd", "new", fsid)
        _done(folder, "ceph-osd", *conf, "--mkfs", "-i", "0", "--osd-uuid", fsid)
        _done(folder, "ceph", *conf, "osd", "crush", "add", "osd.0", "1", "root=default")
        stack.enter_context(program(folder, "ceph-osd", *conf, "-f", "-i", "0"))
        keys = ("--access-key", KEY, "--secret-key", SECRET)
        user = ("user", "create", "--uid=tester", "--display-name=tester", *keys)
        _done(folder, "radosgw-admin", *conf, *user)
        stack.enter_context(program(folder, "radosgw", *conf, "-f", "-n", "client.admin"))
        yield answers(port)


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def _done(folder: Path, *words: str) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr[-2000:]}")


SERVERS = {
    "moto": (moto, ()),
    "ceph": (ceph, ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "monmaptool")),
    "seaweedfs": (seaweedfs, ("weed",)),
    "swift": (swift, ("swift-proxy-server", "swift-ring-builder", "memcached")),
    "rclone": (rclone, ("rclone",)),
}


def installed() -> list[str]:
    return [name for name, (_, needs) in SERVERS.items() if all(map(shutil.which, needs))]
