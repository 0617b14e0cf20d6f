"""The place of an address; the only module that knows all kinds of places."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ....catalog.files import expanded
from ...errors import InputError, check_path
from .place import Folder, Place


def place_of(target: str | os.PathLike[str]) -> Place:
    """The place of a path or URL. Raises InputError."""
    text = os.fspath(target)
    if text.startswith("file://"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise InputError(f"{text!r} names no file here; write file:///folder/a.zarr")
        text = unquote(parts.path)
    if "://" not in text:
        check_path(text := expanded(text))
        return Folder(Path(text))
    if text.startswith("icechunk"):
        from .icechunk import Icechunk

        return Icechunk(text)
    from .objects import Objects

    return Objects(text)
