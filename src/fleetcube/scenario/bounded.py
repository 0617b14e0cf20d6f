"""Read whole files, refusing those that are too large."""

from pathlib import Path

from fleetcube.catalog.files import read_some
from fleetcube.grid.errors import InputError


def read_bytes(path: str | Path, largest: int, give: str, less: str) -> bytes:
    """The bytes of a file. Raises InputError; `give` and `less` suggest alternatives."""
    name = str(path)
    try:
        data = read_some(path, largest)
    except OSError as error:
        raise InputError(f"cannot read {name!r}: {error.strerror}; give {give}") from None
    except ValueError:
        raise InputError(f"{name!r} is not the name of a file; give {give}") from None
    if len(data) > largest:
        raise InputError(f"{name!r} has more than {largest:,} bytes; {less}")
    return data


def read_text(path: str | Path, largest: int, give: str, less: str) -> str:
    """The text of a file that a program printed. Raises InputError."""
    return decoded(read_bytes(path, largest, give, less))


def decoded(data: bytes) -> str:
    """Text in UTF-8 or UTF-16."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return data.decode(encoding, errors="replace")
