"""`python -m tests.door.fuzz FILES`: exit 0 if edited files are read or refused within SECONDS."""

import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from fleetcube import InputError, Sweep
from fleetcube.catalog import CatalogError
from fleetcube.catalog.units import UnitError

from .test_fuzz import PIECES, READERS

SECONDS = 5.0  # of CPU time: waits on a busy machine do not count
PLANNED = 25  # one spec in this many (of five kinds of files) is also planned


def edited(chosen: random.Random, text: str, pieces: list[str]) -> bytes:
    """The text with spans replaced by pieces of it or others, or by noise."""
    for _ in range(chosen.randint(1, 4)):
        place = chosen.randrange(len(text) + 1)
        start = chosen.randrange(len(text) + 1)
        noise = "".join(chr(chosen.randrange(256)) for _ in range(chosen.randint(0, 4)))
        piece = chosen.choice([chosen.choice(pieces), text[start : start + 9], noise])
        text = text[:place] + piece + text[place + chosen.randint(0, 12) :]
    return text.encode("utf-8", errors="surrogatepass")


def main(files: int) -> None:
    chosen = random.Random(files)
    pieces = list(PIECES.elements)
    wrong = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        for count in range(files):
            name = list(READERS)[count % len(READERS)]
            text, read = READERS[name]
            if name == "spec.toml" and count % PLANNED:
                read = Sweep.from_file
            path = Path(folder) / name
            path.write_bytes(held := edited(chosen, text, pieces))
            began = time.process_time()
            try:
                read(path)
                fine = True
            except (InputError, CatalogError, UnitError) as error:
                refused += 1
                fine = "\n" not in str(error) and 0 < len(str(error)) < 1000
            except Exception:
                fine = False
                traceback.print_exc()
            if not fine or time.process_time() - began > SECONDS:
                wrong += 1
                print(f"{name}: {held!r}")
    print(f"{files} tries, {wrong} wrong ({refused:,} refused, in one line)")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(int(sys.argv[1]))
