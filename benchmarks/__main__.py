"""`python -m benchmarks [NAME ...] [--quick] [--write]`."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from . import dask, gpu, memory, peers, simulate, speed, startup, tables
from .measure import ROOT, machine, preamble
from .tables import Table

BENCHMARKS: dict[str, Callable[[bool], Table]] = {
    "speed": speed.run,
    "peers": peers.run,
    "startup": startup.run,
    "memory": memory.run,
    "dask": dask.run,
    "simulate": simulate.run,
    "gpu": gpu.run,
}
README = ROOT / "README.md"
RESULTS = Path(__file__).with_name("results.json")


def main() -> int:
    """Run the benchmarks, print their tables, and write them where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--write", action="store_true", help="write README.md and results.json")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"{unknown[0]!r} is not a benchmark; choose from {', '.join(BENCHMARKS)}")
    if given.write and given.names:
        parser.error("--write writes all tables; leave out the names")
    if given.write and not tables.has_markers(README):
        print(f"README.md lacks {tables.BEGIN} and {tables.END}; put them in", file=sys.stderr)
        return 2
    found: dict[str, Table] = {}
    for name in given.names or BENCHMARKS:
        found[name] = BENCHMARKS[name](given.quick)
        print(found[name].text(), end="\n\n", flush=True)
    if given.write:
        facts = machine()
        tables.write(README, preamble(facts, given.quick), found.values())
        tables.write_json(RESULTS, facts, found)
        print(f"wrote {README.name} and benchmarks/{RESULTS.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
