"""Compiled kernels outlive the process that compiled them."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
from fleetcube import Sweep
axes = {"n_gpus": [8, 16], "gpu_mttf": [1e8, 2e8, 3e8]}
result = Sweep({}, axes, ["cluster_mtbf"]).evaluate("numba")
print(result["cluster_mtbf"].values.sum())
"""


def run(cache: Path) -> tuple[str, str]:
    environment = {**os.environ, "FLEETCUBE_CACHE": str(cache), "NUMBA_DEBUG_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return lines[-1], "\n".join(lines[:-1])


def test_a_second_process_loads_what_the_first_compiled(tmp_path: Path) -> None:
    first, compiled = run(tmp_path)
    second, loaded = run(tmp_path)
    assert first == second
    assert "data saved" in compiled
    assert "data loaded" in loaded
    assert "saved" not in loaded


def test_an_unwritable_cache_is_done_without(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    result, told = run(blocked)
    assert float(result) > 0
    assert "saved" not in told
