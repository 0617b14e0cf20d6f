"""A bucket for tests, on an object server of this machine."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from .servers import KEY, SECRET, SERVERS

BUCKET = "bucket"


@contextmanager
def object_store() -> Iterator[str]:
    """Serve a bucket with moto and set the environment for it; yields its URL."""
    with served("moto") as port, reached(port) as url:
        yield url


@contextmanager
def served(name: str) -> Iterator[int]:
    """Serve an empty bucket with a server; yields its port."""
    with tempfile.TemporaryDirectory() as folder, SERVERS[name][0](Path(folder)) as port:
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )
        client.create_bucket(Bucket=BUCKET)
        yield port


@contextmanager
def reached(port: int) -> Iterator[str]:
    """Set the environment for the bucket at a port; yields its URL."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        patch.setenv("AWS_ALLOW_HTTP", "true")
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_REGION", "us-east-1")
        yield f"s3://{BUCKET}"
