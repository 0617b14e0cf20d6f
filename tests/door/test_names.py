"""The public names that users and other tools rely on."""

import subprocess
import sys

import numpy as np


def test_laws_are_reached_by_name() -> None:
    script = (
        "import fleetcube\n"
        "k = fleetcube.laws\n"
        "print(k.collectives.ring_all_reduce_time(14e9, 256, 5e-6, 50e9))\n"
        "print(k.pipeline.bubble_fraction(16, 1, 1))\n"
        "print(k.reliability.failure_probability(24.0, 195.3125))\n"
        "print(k.checkpoint.young_interval(30.0, 86400.0))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Fleet Foundations tables 11 and 6; 15 of 16 slots idle; Young for 30 s and 24 h
    np.testing.assert_allclose(
        [float(line) for line in done.stdout.split()],
        [0.5603625, 0.9375, 0.11563021943, 2276.839915],
        rtol=1e-9,
    )


def test_the_facade_says_what_it_has() -> None:
    import fleetcube

    for name in fleetcube.__all__:
        assert getattr(fleetcube, name) is not None
    assert set(fleetcube.__all__) <= set(dir(fleetcube))
    assert fleetcube.__version__
