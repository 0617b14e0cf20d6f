"""Commands in one process of bounded memory: `python -m tests.door.large_counts COMMANDS.json`."""

import contextlib
import io
import json
import os
import sys

MEMORY = 1 << 30  # bytes of private pages, without those of code and files
CORES = 2  # each thread reserves some


def bound() -> None:
    """Keep this process to a machine of that memory, where the system can."""
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": str(CORES)}
    if sys.platform == "linux":
        import resource  # Windows has none

        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def outcome(words: list[str]) -> tuple[int, str, str]:
    """Exit status and output of a command."""
    from fleetcube.__main__ import main

    sys.argv = ["fleetcube", *words]
    status = 0
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            status = int(stop.code or 0)
    return status, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    bound()
    print(json.dumps([outcome(words) for words in json.loads(sys.argv[1])]))
