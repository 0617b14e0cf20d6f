"""`python -m benchmarks [NAME ...] [--quick] [--write]`."""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import (
    by_hand,
    calculon,
    check,
    cluster,
    dask,
    features,
    gpu,
    gradients,
    kept,
    layouts,
    lookup,
    memory,
    peers,
    plan_page,
    repeated,
    simulate,
    speed,
    startup,
    storage,
    tables,
    threads,
    virtual,
    waits,
    workers,
)
from .measure import ROOT, machine, preamble, say
from .tables import Table

# By page, and section of it
PAGES: dict[str, dict[str, Callable[[bool], Table]]] = {
    "README.md": {"peers": peers.run},
    "docs/benchmarks.md": {
        "features": features.run,
        "speed": speed.run,
        "startup": startup.run,
        "memory": memory.run,
        "layouts": layouts.run,
        "simulate": simulate.run,
        "gpu": gpu.run,
    },
    "docs/benchmarks.md#cubes": {
        "writing": storage.run_write,
        "slices": storage.run_slices,
        "virtual": virtual.run,
        "chunks": storage.run_chunks,
    },
    "docs/benchmarks.md#waits": {"waits": waits.run, "calls": waits.run_calls},
    "docs/benchmarks.md#page": {"page": plan_page.run},
    "docs/benchmarks.md#by_hand": {"by_hand": by_hand.run},
    "docs/benchmarks.md#check": {"check": check.run},
    "docs/benchmarks.md#threads": {"threads": threads.run},
    "docs/benchmarks.md#dask": {"dask": dask.run},
    "docs/benchmarks.md#workers": {"cluster": cluster.run, "objects": cluster.run_objects},
    "docs/benchmarks.md#simulated": {"workers": workers.run},
    "docs/lookup.md": {"lookup": lookup.run},
    "docs/benchmarks.md#repeated": {"repeated": repeated.run},
    "docs/benchmarks.md#kept": {"kept": kept.run},
    "docs/peers.md": {"calculon": calculon.run, "published": calculon.published},
    "docs/gradients.md": {"gradients": gradients.run, "solving": gradients.run_solving},
}
BENCHMARKS = {name: run for page in PAGES.values() for name, run in page.items()}
PICTURES = {"repeated": repeated.draw}
JUDGES = PAGES["docs/peers.md"].keys()  # run only with a checkout
RESULTS = Path(__file__).with_name("results.json")


def main() -> int:
    """Run the benchmarks, print their tables, and write them if asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--write", action="store_true", help="write the tables into their pages")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"{unknown[0]!r} is not a benchmark; choose from {', '.join(BENCHMARKS)}")
    usual = set(BENCHMARKS) if calculon.CHECKOUT in os.environ else BENCHMARKS.keys() - JUDGES
    names = options.names or [name for name in BENCHMARKS if name in usual]
    pages = [page for page, runs in PAGES.items() if options.write and runs.keys() & set(names)]
    for page in pages:
        left = PAGES[page].keys() - set(names)
        if left:
            parser.error(f"--write writes all tables of {page}; add {', '.join(sorted(left))}")
        file, _, section = page.partition("#")
        if not tables.has_markers(ROOT / file, section):
            lacking = " and ".join(tables.markers(section))
            print(f"{file} lacks {lacking}; put them in", file=sys.stderr)
            return 2
    results: dict[str, Table] = {}
    for name in names:
        say(name)
        begun = time.monotonic()
        results[name] = BENCHMARKS[name](options.quick)
        say(f"{name}: took {time.monotonic() - begun:.0f} s")
        print(results[name].text(), end="\n\n", flush=True)
    if any(table.failed for table in results.values()):
        return 1
    facts = machine()
    for page in pages:
        written = {name: results[name] for name in PAGES[page]}
        command = " ".join(["python -m benchmarks", *written])
        head = preamble(facts, command, options.quick, timed=not written.keys() & JUDGES)
        file, _, section = page.partition("#")
        tables.write(ROOT / file, head, written.values(), section)
        for name in written.keys() & PICTURES.keys():
            PICTURES[name](written[name].rows)
        print(f"wrote {page}")
    if pages:
        tables.write_json(RESULTS, facts, {name: results[name] for name in names})
    return 0


if __name__ == "__main__":
    sys.exit(main())
