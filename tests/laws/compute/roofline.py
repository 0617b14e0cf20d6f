"""Rooflines: the slowest of independent workers sets the rate."""

import math

from fleetcube.kernels.laws import roofline

from ... import formulas
from ..check import Pairs, check
from ..network.collectives import ring

H100 = (989e12, 3.35e12)


@check(
    "roofline_flops network_roofline_flops",
    by="derivation",
    source="one unit of work through arithmetic, memory and network: the last to finish counts",
)
def ceilings() -> Pairs:
    """intensities of 0.01 to 1e5, without and with a network, nothing sent"""
    for intensity in (0.01, 1.0, 295.0, 296.0, 1e5):
        times = [1 / H100[0], 1 / intensity / H100[1]]
        yield roofline.roofline_flops(intensity, *H100), 1 / max(times)
        for sent in (0.0, 1e-6, 1e-2):
            ours = roofline.network_roofline_flops(
                intensity, *H100, 1 / sent if sent else math.inf, 50e9
            )
            yield ours, 1 / max([*times, sent / 50e9])


@check(
    "roofline_flops",
    by="table",
    source="data sheet of NVIDIA H100 SXM: 989 TFLOP/s in BF16, 3.35 TB/s",
    tolerance=5e-3,
)
def ridge_of_the_h100() -> Pairs:
    """one token at a time: 3.35 TFLOP/s; from 295 operations a byte on, the peak"""
    yield roofline.roofline_flops(1.0, *H100), 3.35e12
    yield roofline.roofline_flops(295.3, *H100), 989e12


@check(
    "roofline.iron_law_time scale_out.iron_law_time",
    by="simulator",
    source="move, compute, wait: one after the other, gradients through the played ring",
)
def iron_law() -> Pairs:
    """1 to 31 ranks"""
    yield roofline.iron_law_time(2e9, 1e9, 3e12, 4e12, 0.5, 0.25), 2 + 1.5 + 0.25
    for ranks in (1, 2, 8, 31):
        sent = ring(ranks, 14e9, 0.0, 1.0)
        clock = ring(ranks, 14e9, 5e-6, 50e9)  # bytes and latency
        clock += 6e17 / ranks / (989e12 * 40 / 100)
        ours = formulas.iron_law_time(sent, 50e9, 6e17, ranks, 989e12, 0.4, ranks, 5e-6)
        yield ours, clock
