"""An object store on this machine, for tests: moto behind a free port."""

import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from moto.server import ThreadedMotoServer

BUCKET = "bucket"


@contextmanager
def object_store() -> Iterator[str]:
    """Serve a bucket, with the environment that reaches it; gives its URL."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("AWS_")]:
                patch.delenv(name)
            patch.setenv("AWS_ENDPOINT_URL", endpoint)
            patch.setenv("AWS_ALLOW_HTTP", "true")
            patch.setenv("AWS_ACCESS_KEY_ID", "a")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "b")
            patch.setenv("AWS_REGION", "us-east-1")
            create = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
            urllib.request.urlopen(create, timeout=10).close()
            yield f"s3://{BUCKET}"
    finally:
        server.stop()
