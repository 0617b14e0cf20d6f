"""The numbers printed by the two documents with tables, each recomputed by hand beside the API."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from . import foundations, tutorial
from .claim import Claim


class Number(NamedTuple):
    """One printed number: where the claims compute it, and the same by plain arithmetic."""

    document: str
    what: str
    printed: str
    by_hand: float
    claim: str
    figure: int
    position: int = 0
    agrees: bool = True


def tutorial_numbers() -> Iterator[Number]:
    name = tutorial.DOCUMENT.name
    node = 1 / (8 / 50e3 + 8 / 150e3 + 2 / 100e3)
    yield Number(name, "node MTTF, h", "4285.7", node, "0.15", 0)
    printed = {
        8: ("4285.7", "0.2", "12.0"),
        32: ("1071.4", "0.7", "6.0"),
        64: ("535.7", "1.3", "4.2"),
        128: ("267.9", "2.7", "3.0"),
        256: ("133.9", "5.4", "2.1"),
        512: ("67.0", "10.8", "1.5"),
        1024: ("33.5", "21.5", "1.1"),
    }
    for k, (n, (hours, failures, interval)) in enumerate(printed.items()):
        mtbf = 8 * node / n
        best = math.sqrt(2 * 60 / 3600 * mtbf)
        yield Number(name, f"MTBF of {n:,} GPUs, h", hours, mtbf, "0.2", 0, k)
        yield Number(name, f"failures in 30 days, {n:,} GPUs", failures, 720 / mtbf, "0.3", 0, k)
        yield Number(name, f"interval for 60 s, {n:,} GPUs, h", interval, best, "0.4", 0, k)
    weights = 141.2e9
    step = 3 * weights / 64e9 + 1e-5 + 80 * 3e-4
    tensor = weights / 8 / 900e9
    yield Number(name, "step, ms", "6642.8", 1e3 * step, "0.5", 0)
    yield Number(name, "communication on 8 GPUs, ms", "19.61", 1e3 * tensor, "0.6", 1)
    yield Number(name, "efficiency on 8 GPUs, %", "99.7", 100 * step / (step + tensor), "0.5", 1)
    compared = {
        64: ("5.8", "9.5", "1.6"),
        256: ("61.3", "19.0", "0.3"),
        512: ("69.2", "26.9", "0.4"),
        1024: ("73.1", "38.1", "0.5"),
    }
    inside = 2 * 7 * (0.5e-6 + weights / 8 / 8 / 900e9)
    for k, (n, (waiting, lost, ratio)) in enumerate(compared.items()):
        groups = n // 64
        between = 2 * (groups - 1) * (5e-6 + weights / 8 / groups / 50e9)
        wait = tensor + inside * (2 if groups > 1 else 1) + between
        waited = 720 * wait / (step + wait)
        mtbf = 8 * node / n
        interval = math.sqrt(2 * 60 / 3600 * mtbf)
        stopped = 720 / interval * (14 * 70.6e9 / 7e9) / 3600 + 720 / mtbf * interval / 2
        yield Number(name, f"communication, {n:,} GPUs, h", waiting, waited, "0.7", 1, k)
        yield Number(name, f"checkpoints, {n:,} GPUs, h", lost, stopped, "0.8", 0, k)
        yield Number(name, f"ratio of both, {n:,} GPUs", ratio, stopped / waited, "0.8", 1, k)


def foundations_numbers() -> Iterator[Number]:
    name = foundations.DOCUMENT.name
    failing = {
        256: ("195.3", "11718.8", "11.6"),
        2048: ("24.4", "1464.8", "62.6"),
        8192: ("6.1", "366.2", "98"),
    }
    for k, (n, (hours, minutes, percent)) in enumerate(failing.items()):
        mtbf = 50_000 / n
        chance = 100 * (1 - math.exp(-24 / mtbf))
        yield Number(name, f"MTBF of {n:,} GPUs, h", hours, mtbf, "3.2", 0, k)
        yield Number(name, f"MTBF of {n:,} GPUs, min", minutes, 60 * mtbf, "3.2", 1, k)
        yield Number(name, f"failure of {n:,} GPUs in 24 h, %", percent, chance, "3.3", 0, k)
    chance = 100 * (1 - math.exp(-24 * 8192 / 50_000))
    yield Number(name, "the same for 8,192, in the summary", "98.04", chance, "3.3", 1)
    written = {7: ("98", "0.98"), 70: ("980", "9.8"), 175: ("2450", "24.5")}
    for k, (billions, (size, seconds)) in enumerate(written.items()):
        by_hand = 14.0 * billions
        yield Number(name, f"checkpoint of {billions}B, GB", size, by_hand, "3.1", 0, k)
        yield Number(name, f"write of {billions}B, s", seconds, by_hand / 100, "3.1", 1, k)
    yield Number(name, "write of 1T, min", "2.3", 14e12 / 100e9 / 60, "3.1", 2)
    yield Number(name, "ridge point of an H100, FLOP/B", "295.2", 989 / 3.35, "3.6", 0)
    yield Number(name, "8B decode, tokens/s", "208.6", 3350 / 16.06, "3.7", 2)

    def ring(gigabytes: float) -> float:
        return 1e3 * 2 * 255 * (5e-6 + gigabytes / 256 / 50)

    yield Number(name, "all-reduce of 7B, ms", "560.4", ring(14), "3.11", 0)
    yield Number(name, "rho of 7B", "0.112", ring(14) / 5e3, "3.11", 1)
    yield Number(name, "all-reduce of 340M, ms", "29.6", ring(0.68), "3.12", 1)
    yield Number(name, "all-reduce of 350M, ms", "29.6", ring(0.70), "3.12", 0, agrees=False)
    speeds = {32: "7.8", 256: "9.7", 1024: "9.9", 8192: "10.0"}
    for k, (n, speed) in enumerate(speeds.items()):
        yield Number(name, f"Amdahl, {n:,} GPUs", speed, 1 / (0.1 + 0.9 / n), "3.10", 0, k)
    useful = 1024 * 989 * 0.5 * 0.5 * 0.77
    yield Number(name, "useful TFLOP/s of 1,024 H100", "194951.7", useful, "3.4", 0)
    yield Number(name, "scaling of 4,096 GPUs, %", "31.2", 100 * 2.5 / 4 * 0.5, "3.9", 1)
    yield Number(name, "goodput, %", "77", 100 * (1 - 0.05 - 0.03 - 0.10 - 0.05), "3.5", 1)
    yield Number(name, "saved by cooling, MW", "5.2", 10 * (1.58 - 1.06), "3.21", 2)


NUMBERS = (*tutorial_numbers(), *foundations_numbers())
_CLAIMS: dict[str, Claim] = {
    claim.number: claim for claim in (*tutorial.CLAIMS, *foundations.CLAIMS)
}


def computed(number: Number) -> float:
    """The same number through the public API."""
    return float(_CLAIMS[number.claim].figures[number.figure].ours[number.position])
