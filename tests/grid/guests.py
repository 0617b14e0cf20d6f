"""Random sequences of what a cube's owner, other programs and killed runs do, against a model that
knows what must survive: `python -m tests.grid.guests SEQUENCES [SEED]` counts and compares."""

import contextlib
import functools
import json
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from fleetcube import Settings, Sweep, open_cube
from fleetcube.grid.errors import InputError
from fleetcube.grid.store.cube import stored_cube
from fleetcube.grid.store.names import LOCK
from fleetcube.grid.store.places import place as place_module
from fleetcube.grid.store.verify import verify

from ..engine import heat_pump
from .kill import contents

CHUNKS = {"outside_temperature": 2, "heating_hours": 1}
ARRAYS = ["yearly_cost", "performance", "heating_hours", ""]  # with the root
FILES = ["README.md", ".DS_Store", "._zarr.json", "desktop.ini", ".nfs0001", "results/a/b.csv"]
FILES += ["results/c.csv", "yearly_cost/.DS_Store", "yearly_cost/c/notes.txt", ".fleetcube/mine"]
NAMES = ["title", "history", "note", "scale_factor", "Author"]
STEPS = 100  # writing calls of a run, about


class Killed(BaseException):
    pass


@contextlib.contextmanager
def killed_after(count: int) -> Iterator[None]:
    """Let so many calls change files; from then on none does, as if the process were gone."""
    left = [count]

    def counted(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return call(*given, **named)

    def opened(path: Any, flags: int, *given: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            return int(counted(os_open, path, flags, *given, **named))
        return os_open(path, flags, *given, **named)

    os_open = os.open
    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "rename", "unlink", "rmdir", "mkdir", "link", "write"):
            patch.setattr(os, name, functools.partial(counted, getattr(os, name)))
        patch.setattr(os, "open", opened)
        patch.setattr(place_module, "check_system", lambda: None)  # which knows the real one
        exchange = functools.partial(counted, place_module.exchange)
        patch.setattr(place_module, "exchange", exchange)
        yield


@functools.cache
def sweep(level: int) -> Sweep:
    hours = [1000, 2000, 3000, 4000, 5000][:level]
    axes = {"outside_temperature": [250, 267, 281], "heating_hours": hours}
    outputs = ["yearly_cost", "performance"]
    return Sweep({"heat_loss": "250 W/K"}, axes, outputs, graph=heat_pump)


@functools.cache
def truth(level: int, compressor: Any = "lz4") -> tuple[xarray.Dataset, dict[str, bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        how: dict[str, Any] = dict(chunks=CHUNKS, settings=Settings("numpy"), compressor=compressor)
        path = sweep(level).to_zarr(f"{folder}/a.zarr", **how)
        return open_cube(path).load(), contents(Path(path))


class Owner:
    """A cube in a folder, what its owner put there, and the checks after each step."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.compressor = self.random.choice(["lz4", "zstd"])
        self.path, self.partial = folder / "a.zarr", folder / "a.zarr.partial"
        self.files: dict[str, bytes] = {}
        self.attributes: dict[tuple[str, str], Any] = {}
        self.counts: Counter[str] = Counter()
        self.rewritten = self.harmed = False
        self.refusal = ""

    @property
    def level(self) -> int:
        """Labels of the complete cube; 0 without one."""
        try:
            metadata = json.loads((self.path / "heating_hours/zarr.json").read_bytes())
            return int(metadata["shape"][0]) if (self.path / "zarr.json").exists() else 0
        except FileNotFoundError:
            return 0

    @property
    def in_cube(self) -> bool:
        return bool(self.attributes) or any((self.path / name).exists() for name in self.files)

    def store(self, level: int, kill: bool = False, **mode: bool) -> bool:
        """Run; whether it ended well. A refusal changes nothing that is not ours."""
        self.counts["runs"] += 1
        end = killed_after(self.random.randrange(STEPS)) if kill else contextlib.nullcontext()
        try:
            with end:
                how: dict[str, Any] = dict(chunks=CHUNKS, compressor=self.compressor, **mode)
                sweep(level).to_zarr(self.path, settings=Settings("numpy", threads=1), **how)
        except Killed:
            self.counts["killed"] += 1
            return False
        except InputError as error:
            self.counts["refused"] += 1
            self.refusal = str(error)
            return False
        return True

    def run(self) -> None:
        kill = self.random.random() < 0.6
        level, before = self.random.choice([1, 2, 3]), self.level
        mode = self.random.choice(["resume", "resume", "append", "append", "overwrite", ""])
        level = {"resume": before or level, "append": min(before + 1, 5) or level}.get(mode, level)
        named: dict[str, bool] = {mode: True} if mode else {}
        force = mode == "overwrite" and self.random.random() < 0.3
        in_cube = self.in_cube
        done = self.store(level, kill, **named, **({"force": True} if force else {}))
        if mode == "overwrite" and in_cube and before and not force:
            assert not done, "overwritten with what is not ours"
        if force and (done or self.level == level or kill):
            self.forget()
        if done:
            assert not (self.rewritten and mode in ("resume", "append")), "rewritten, and lost"
            self.rewritten = self.harmed = False
            self.check_whole(level)
        elif self.level != before or (mode == "overwrite" and kill and not self.wrong()):
            self.rewritten = self.harmed = False

    def wrong(self) -> bool:
        return not self.level or bool(verify(self.path, samples=0).problems)

    def forget(self) -> None:
        """After `force`, killed or not: what is gone is forgotten."""
        self.files = {name: data for name, data in self.files.items() if self.where(name)}
        kept = {at: value for at, value in self.attributes.items() if self.stored(at) == value}
        self.attributes = kept

    def where(self, name: str) -> list[Path]:
        places = (self.path / name, self.partial / name)
        return [place for place in places if os.path.lexists(place)]

    def stored(self, at: tuple[str, str]) -> Any:
        try:
            meta = json.loads((self.path / at[0] / "zarr.json").read_bytes())
        except FileNotFoundError:
            return None
        return meta["attributes"].get(at[1])

    def put_file(self) -> None:
        """Add a file, change it or remove it."""
        folders = [folder for folder in (self.path, self.partial) if folder.exists()]
        name = self.random.choice(FILES)
        if not folders:
            return
        if places := self.where(name):
            place = places[0]
            if self.random.random() < 0.3:
                place.unlink()
                del self.files[name]
                return
        else:
            place = self.random.choice(folders) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data := self.random.randbytes(8))
        self.files[name] = data

    def put_attribute(self) -> None:
        """Add an attribute, change it or remove it, as zarr-python writes metadata or in place."""
        at = self.random.choice(ARRAYS), self.random.choice(NAMES)
        file = self.path / at[0] / "zarr.json"
        if not self.level or not file.exists():
            return
        meta = json.loads(file.read_bytes())
        if at in self.attributes and self.random.random() < 0.4:
            del meta["attributes"][at[1]], self.attributes[at]
        else:
            self.attributes[at] = self.random.choice([1, "text", [1, 2], {"a": None}, 0.5])
            meta["attributes"][at[1]] = self.attributes[at]
        file.write_text(json.dumps(meta, indent=self.random.choice([None, 2])), encoding="utf-8")

    def harm(self) -> None:
        """Change a byte of a chunk."""
        chunks = sorted(self.path.glob("yearly_cost/c/[0-9]/[0-9]"))
        if chunks:
            chunk = self.random.choice(chunks)
            data = bytearray(chunk.read_bytes())
            data[self.random.randrange(len(data))] ^= 1
            chunk.write_bytes(data)
            self.harmed = True

    def copy(self) -> None:
        """Go on with a copy of the folder."""
        if self.path.exists():
            copy = self.path.with_name("b.zarr")
            shutil.copytree(self.path, copy, symlinks=True)
            shutil.rmtree(self.path)
            copy.rename(self.path)

    def write(self) -> None:
        """Have xarray write into the cube."""
        if not self.level or self.rewritten or self.wrong():
            return
        roots = {at: value for at, value in self.attributes.items() if at[0] == ""}
        how = self.random.choice(["attributes", "again", "values"])
        self.counts["xarray's writes"] += 1
        if how == "attributes":  # replaces those of the root
            xarray.Dataset(attrs={"title": "t"}).to_zarr(self.path, mode="a")
            self.attributes = {at: v for at, v in self.attributes.items() if at not in roots}
            self.attributes["", "title"] = "t"
            self.harmed = True
            return
        whole = xarray.open_zarr(self.path, consolidated=False, mask_and_scale=False).load()
        if how == "values":
            whole["yearly_cost"] = whole["yearly_cost"] * 2
            self.rewritten = True
        whole[["yearly_cost"]].drop_vars(["heating_hours", "outside_temperature"]).to_zarr(
            self.path, mode="r+"
        )
        for at in roots:
            if self.stored(at) != self.attributes[at]:  # xarray lost it
                del self.attributes[at]

    def step(self) -> None:
        ways = [self.run] * 5 + [self.put_file] * 3 + [self.put_attribute] * 3
        ways += [self.harm, self.copy]
        way = self.random.choice(ways) if self.random.random() > 0.03 else self.write
        way()
        self.counts["steps"] += 1
        self.check()

    def check(self) -> None:
        """Nothing of the owner's is lost or changed, at any time."""
        for name, data in self.files.items():
            places = self.where(name)
            assert len(places) == 1, (name, places)
            assert places[0].read_bytes() == data, name
        for at, value in self.attributes.items():
            assert self.stored(at) == value, (at, value, self.stored(at))

    def check_whole(self, level: int) -> None:
        """A complete cube has the bytes of an uninterrupted run, and what its owner added."""
        values, files = truth(level, self.compressor)
        cube = stored_cube(str(self.path)) if self.counts["runs"] % 5 else open_cube(self.path)
        for name, variable in values.variables.items():
            assert np.array_equal(cube[name].values, variable.values), name
        found = contents(self.path)
        found = {name: data for name, data in found.items() if name not in {*self.files, LOCK}}
        metas = {name for name in files if name.endswith("zarr.json")}
        assert found.keys() == files.keys(), found.keys() ^ files.keys()
        assert all(found[name] == files[name] for name in files.keys() - metas)
        report = verify(self.path, samples=1)
        assert report.problems == [], report.problems
        assert all(repr(key) in report.guests for _, key in self.attributes)
        assert all(name.split("/")[0] in report.guests for name in self.files)

    def end(self) -> None:
        """What a refusal advises makes the cube whole."""
        level = self.level or 1
        if self.rewritten:
            assert not self.store(level, resume=True), "rewritten, and lost"
        elif self.store(level, resume=True):
            return self.check_whole(level)
        if "move it away" in self.refusal:  # what a killed run left, with files of its owner
            self.partial.rename(self.partial.with_name("aside"))
            self.forget()
        if self.rewritten or not self.store(level, resume=True):  # another sweep was begun there
            self.counts["overwritten at the end"] += 1
            assert self.store(level, overwrite=True, force=self.in_cube), self.refusal
            self.forget()
        self.check()
        self.check_whole(level)


def sequence(folder: Path, seed: int, steps: int = 8) -> Counter[str]:
    """Steps at random; what is lost or wrong raises."""
    owner = Owner(folder, seed)
    for _ in range(steps):
        owner.step()
    owner.end()
    return owner.counts


def main(count: int, first: int) -> int:
    """Print each sequence that lost something, and the counts."""
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    wrong = 0
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                counts += sequence(Path(folder), seed)
            except Exception as error:
                wrong += 1
                print(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    told = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
    print(f"{count} tries, {wrong} wrong ({told})")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int((*sys.argv, 1)[2])))
