"""A cube is examined once: how often an operation reads a place, of which each is a request."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

from fleetcube import Settings, Sweep, open_cube
from fleetcube.grid.store.names import JOURNAL, PLAN, ROOT, SEAL
from fleetcube.grid.store.places import objects
from fleetcube.grid.store.places.place import Folder
from fleetcube.grid.store.verify import verify

from .common import Patch, cases
from .test_append import GROWN
from .test_resume import AXES, CHUNKS, OUTPUTS, SCENARIO, disk_full, stop_after

REQUESTS = ("get", "put", "head", "list", "delete")
READS = ("read", "sizes", "exists")
ONE: dict[str, Any] = {"settings": Settings(threads=1)}
NEW: dict[str, Any] = {"chunks": CHUNKS, **ONE}


def written(place: str, axes: dict[str, Any] = AXES, **how: Any) -> None:
    Sweep(SCENARIO, axes, OUTPUTS).to_zarr(place, **how)


def begun(place: str, **how: Any) -> None:
    """A cube of which five blocks are written."""
    with pytest.MonkeyPatch.context() as patch:
        stop_after(5, disk_full, patch)
        with pytest.raises(OSError, match="No space left"):
            written(place, **how)


def counting(home: type, name: str, seen: Counter[tuple[str, str]]) -> Callable[..., Any]:
    plain = getattr(home, name)

    def counted(self: Any, *given: Any, **keywords: Any) -> Any:
        file = given[0] if given and isinstance(given[0], str) else ""
        seen[name, file] += 1
        return plain(self, *given, **keywords)

    return counted


# what is there before, the operation, reads of the plan in objects and in folders (also of the
# unfinished cube's), and of all requests to a store: 33 chunks of outputs, 60 of the grown cube, 10
# for samples. Once before the lock, and under it as another run may have finished meanwhile: the
# record and the list of files, whose sizes tell that no metadata have attributes of others. An
# append also reads the 14 chunks that it replaces: another program may have written them
OPERATIONS: dict[str, tuple[Any, ...]] = {
    "new": (None, lambda place: written(place, **NEW), 2, 4, 77),
    "resume of nothing": (None, lambda place: written(place, **NEW, resume=True), 2, 4, 77),
    "resume of a part": (begun, lambda place: written(place, **NEW, resume=True), 2, 4, 78),
    "resume of a whole": (written, lambda place: written(place, **ONE, resume=True), 1, 2, 52),
    "append": (written, lambda place: written(place, GROWN, **ONE, append=True), 2, 4, 154),
    "overwrite": (written, lambda place: written(place, **NEW, overwrite=True), 2, 4, 80),
    "verify": (written, lambda place: verify(place, samples=2), 1, 1, 62),
    "open": (written, open_cube, 1, 1, 24),
}


@cases("name", *OPERATIONS)
def test_objects_are_read_once(name: str, monkeypatch: Patch) -> None:
    """Once before the lock and once under it."""
    before, operation, plans, _, requests = OPERATIONS[name]
    seen: Counter[tuple[str, str]] = Counter()
    methods = {each: counting(MemoryStore, each, seen) for each in REQUESTS}
    store = type("Store", (MemoryStore,), {**methods, "__module__": "obstore.store"})
    url = f"memory://requests/{name.replace(' ', '-')}.zarr"
    monkeypatch.setitem(objects._memory, url, store())
    # no request depends on how long a run takes
    monkeypatch.setattr(objects, "BATCH_SECONDS", 1e9)
    monkeypatch.setattr(objects, "RENEW_SECONDS", 1e9)
    if before is not None:
        before(url, **NEW)
    seen.clear()
    operation(url)
    assert seen["get", PLAN] <= plans
    assert max(seen["get", file] for file in (ROOT, SEAL, JOURNAL)) <= min(plans, 2)
    assert sum(seen.values()) <= requests, seen


@cases("name", *OPERATIONS)
def test_folders_are_read_once(name: str, tmp_path: Path, monkeypatch: Patch) -> None:
    before, operation, _, plans, _ = OPERATIONS[name]
    seen: Counter[tuple[str, str]] = Counter()
    path = str(tmp_path / "a.zarr")
    if before is not None:
        before(path, **NEW)
    for each in READS:
        monkeypatch.setattr(Folder, each, counting(Folder, each, seen))
    operation(path)
    assert seen["read", PLAN] <= plans
    assert max(seen["read", file] for file in (ROOT, SEAL, JOURNAL)) <= min(plans, 4)
