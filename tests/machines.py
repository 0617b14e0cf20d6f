"""`python -m tests.machines [KIND ...] [-- ARGUMENT ...]`: pytest on other kinds of machine.

Libraries skip features that CPUs of the kind lack, and pytest starts as from a service's background
script: no terminal, SIGINT ignored, a read-only home, another locale, umask and time zone. Without
KIND, on each that this CPU can emulate; ARGUMENTs are pytest's.
"""

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding
from numpy._core import _multiarray_umath as numpy_cpu


@dataclass(frozen=True)
class Kind:
    """A kind of CPU, in the terms of each library with CPU-specific code."""

    needs: tuple[str, ...]  # in LLVM's terms: else its code does not run here
    xla: str
    numba: str
    openblas: str
    numpy: str  # a pattern of the features that NumPy must not use
    glibc: (
        str  # those that the C library must not use: its exp, log and pow have other bits with FMA
    )


_SSE = ("AVX|FMA|F16C|X86_V[34]", "-AVX2,-FMA,-FMA4,-AVX512F")
_AVX2 = ("AVX512|X86_V4", "-AVX512F")
KINDS = {
    "nehalem": Kind(("sse4.2",), "SSE4_2", "generic", "Nehalem", *_SSE),
    "sandybridge": Kind(("avx",), "AVX", "sandybridge", "Sandybridge", *_SSE),
    "haswell": Kind(("avx2", "fma"), "AVX2", "haswell", "Haswell", *_AVX2),
    "skylakex": Kind(("avx512f",), "AVX512", "skylake-avx512", "SkylakeX", "AVX512_[A-Z]{3}$", ""),
    # A distribution that builds some libraries for older CPUs
    "mixed": Kind(("avx2", "fma"), "AVX2", "generic", "Nehalem", _SSE[0], _AVX2[1]),
}
# Environment of a service's script; /sys is read-only, even for root
SURROUNDINGS = {
    "HOME": "/sys" if Path("/sys").is_dir() else "/",
    "LC_ALL": "C",
    "TZ": "Pacific/Kiritimati",  # a day ahead for most of the day
}
LEFT_OUT = ("COLUMNS", "TERM", "DISPLAY", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")


def here() -> list[str]:
    if platform.machine() not in ("x86_64", "AMD64"):
        return []
    has = llvmlite.binding.get_host_cpu_features()
    return [name for name, kind in KINDS.items() if all(has.get(need) for need in kind.needs)]


def environment(name: str) -> dict[str, str]:
    """This process's environment, with the variables that make a CPU one of a kind."""
    kind = KINDS[name]
    off = "NPY_DISABLE_CPU_FEATURES"
    unused = os.environ.get(off, "").split()
    # NumPy warns of features that it has no code for, or that are missing here
    can = [f for f in numpy_cpu.__cpu_dispatch__ if numpy_cpu.__cpu_features__[f] or f in unused]
    flags = re.sub(r"--xla_cpu_max_isa=\S+", "", os.environ.get("XLA_FLAGS", ""))
    return os.environ | {
        "XLA_FLAGS": f"{flags} --xla_cpu_max_isa={kind.xla}".strip(),
        "NUMBA_CPU_NAME": kind.numba,
        "NUMBA_CPU_FEATURES": "",  # else those of this CPU
        "OPENBLAS_CORETYPE": kind.openblas,
        off: " ".join(f for f in can if re.match(kind.numpy, f)),
        "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={kind.glibc}" if kind.glibc else "",
    }


def pytest(name: str, arguments: list[str]) -> int:
    env = environment(name) | SURROUNDINGS
    words = [sys.executable, "-m", "pytest", *arguments]
    with subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *words],
        env={key: value for key, value in env.items() if key not in LEFT_OUT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        umask=0o077,
    ) as child:
        assert child.stdout is not None
        try:
            while some := os.read(child.stdout.fileno(), 4096):
                os.write(1, some)
        except BaseException:
            os.killpg(child.pid, signal.SIGTERM)
            raise
    return child.returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    kinds = parser.parse_args(sys.argv[1:at]).kinds or list(KINDS)
    if unknown := [name for name in kinds if name not in KINDS]:
        parser.error(f"{unknown[0]!r} is not a kind; choose from {', '.join(KINDS)}")
    ended = {}
    for name in kinds:
        if name not in here():
            ended[name] = "cannot be emulated on this CPU"
            continue
        print(f"== {name} ==", flush=True)
        begun = time.monotonic()
        code = pytest(name, sys.argv[at + 1 :])
        how = f"failed ({code})" if code else "passed"
        ended[name] = f"{how}, {time.monotonic() - begun:.0f} s"
    print(*(f"{name}: {how}" for name, how in ended.items()), sep="\n")
    return int(any("failed" in how for how in ended.values()))


if __name__ == "__main__":
    sys.exit(main())
