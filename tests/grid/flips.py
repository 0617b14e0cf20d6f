"""`python -m tests.grid.flips FLIPS`: exit 0 if no flipped bit alters reads or passes `verify`."""

import random
import sys
import tempfile
from pathlib import Path

import xarray

from fleetcube import InputError, Settings, Sweep, open_cube
from fleetcube.grid.store.verify import verify

SCENARIO = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g"}
AXES = {"n_gpus": [8, 64], "layout": {"tensor_parallel": [1, 8]}}
OUTPUTS = ["goodput", "dominant_overhead"]


def wrong(path: Path, sound: xarray.Dataset) -> str:
    """What a reader or `verify` missed; empty if nothing."""
    try:
        if open_cube(path).load().identical(sound):
            return "opened as if it were sound"
        return "read as other values"
    except ValueError as error:  # an InputError, or a chunk that fails Zarr's crc32c
        if "\n" in str(error):
            return "refused in more than one line"
    try:
        return "" if verify(path, samples=0).problems else "not found by verify"
    except InputError:
        return ""


def main(flips: int) -> None:
    """Flip a bit at a random place of a random file, check, and restore it."""
    chosen = random.Random(flips)
    outcomes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.zarr"
        Sweep(SCENARIO, AXES, OUTPUTS).to_zarr(path, settings=Settings("numpy"))
        sound = open_cube(path).load()
        assert not verify(path).problems
        files = sorted(file for file in path.rglob("*") if file.is_file())
        for _ in range(flips):
            file = chosen.choice(files)
            held = file.read_bytes()
            at = chosen.randrange(len(held))
            bit = 1 << chosen.randrange(8)
            file.write_bytes(held[:at] + bytes([held[at] ^ bit]) + held[at + 1 :])
            if found := wrong(path, sound):
                outcomes[found] = outcomes.get(found, 0) + 1
                print(f"{file.relative_to(path)}, byte {at}, bit {bit}: {found}")
            file.write_bytes(held)
        assert not verify(path).problems
    print(f"{flips} tries, {sum(outcomes.values())} wrong ({len(files)} files)")
    sys.exit(bool(outcomes))


if __name__ == "__main__":
    main(int(sys.argv[1]))
