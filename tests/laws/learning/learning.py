"""Loss and tokens: simulated training, fits of other groups, and labs' choices."""

from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from fleetcube.kernels.laws import learning

from ...evaluated import values
from ..check import Pairs, check

CRITICAL = 2e7
RAMPS = (  # tokens with small batches, tokens of the ramp, first and last batch in sequences
    (1e12, 0.0, 1024, 4096),
    (1e12, 2e11, 256, 16384),
    (3e11, 1e11, 1000, 1000),
    (1e12, 3e11, 8192, 1024),  # a batch that shrinks
)
COEFFICIENTS = (
    "parameter_loss_scale",
    "parameter_loss_exponent",
    "token_loss_scale",
    "token_loss_exponent",
)
FITS = ("besiroglu", "hoffmann")


@check(
    "tokens_at_batch",
    by="simulator",
    source="gradient descent on a quadratic with gradients that are drawn, steps as long as the "
    "noise allows",
    tolerance=0.03,
)
def noisy_descent() -> Pairs:
    """batches from 1/16 of the critical one to 16 times as large"""
    rng = np.random.default_rng(19)
    noise, size, share = 64.0, 400, 0.005

    def samples(batch: float) -> float:
        at, steps = np.ones(size), 0
        start = at @ at
        rate = share / (1 + noise / batch)
        while at @ at > 0.1 * start:
            length = np.sqrt(at @ at * noise / batch / size)
            at = at - rate * (at + length * rng.standard_normal(size))
            steps += 1
        return steps * batch

    least = np.mean([samples(b) / (1 + b / noise) for b in (1.0, 2.0)])
    for batch in (4.0, 16.0, 64.0, 256.0, 1024.0):
        yield learning.tokens_at_batch(least, batch, noise), samples(batch)


@check(
    "critical_tokens_to_target ramp_spared_tokens linear_ramp_tokens_factor "
    "stepped_ramp_tokens_factor",
    by="simulator",
    source="runs played step by step: a batch learns what B / (1 + B / B_crit) tokens of small "
    "batches teach",
    tolerance=1e-3,
)
def batches_played() -> Pairs:
    """with and without a ramp, even and at once, a batch that shrinks"""
    length = 4096
    for least, ramp, first, last in RAMPS:
        for kind in ("linear", "step"):
            seen = learnt = 0.0
            while seen < ramp:
                batch = first + (last - first) * seen / ramp if kind == "linear" else first
                seen += batch * length
                learnt += batch * length / (1 + batch * length / CRITICAL)
            seen += (least - learnt) * (1 + last * length / CRITICAL)
            given: dict[str, Any] = {
                "training_tokens": least, "critical_batch_tokens": CRITICAL,
                "global_batch_size": last, "sequence_length": length, "ramp_tokens": ramp,
                "ramp_start_batch_size": first, "batch_ramp": kind,
            }  # fmt: skip
            yield values(["tokens_to_target"], **given)["tokens_to_target"], seen
            if not ramp:
                # Stated for a batch of 8M tokens, not for small ones
                stated = {"reference_batch_tokens": 8e6, "training_tokens": least * 1.4}
                yield values(["tokens_to_target"], **given | stated)["tokens_to_target"], seen


@check(
    "critical_batch_between bergsma_critical_batch_tokens zhang_critical_batch_tokens "
    "critical_tokens_to_target tokens_before trained_tokens",
    by="simulator",
    source="training played token by token: where a run to x tokens has the critical batch c x^p, "
    "the tokens around x have c x^p / (1 - p), whose sum of shares wasted is the run's",
    tolerance=1e-4,
)
def parts_of_a_run() -> Pairs:
    """from the start on, half of a run, its last hundredth; two laws"""
    batch = 1024 * 4096
    for law, power in (("bergsma", 0.462), ("zhang", 0.47)):
        one = values(["critical_batch_tokens"], training_tokens=1.0, critical_batch_law=law)
        for before, tokens in ((0.0, 2e12), (1e12, 1e12), (1.98e12, 2e10)):
            edges = before + tokens * np.linspace(0, 1, 100_001) ** 4  # steep at the start
            middle, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
            around = one["critical_batch_tokens"] * middle**power / (1 - power)
            given: dict[str, Any] = {"training_tokens": tokens, "earlier_tokens": before}
            given |= {"critical_batch_law": law, "global_batch_size": 1024}
            given |= {"sequence_length": 4096, "batch_quality": "critical"}
            taken = values(["tokens_to_target"], **given)["tokens_to_target"]
            yield taken - tokens, (width * batch / around).sum()


@check(
    "critical_batch_at_overhead",
    by="table",
    source="Zhang et al. 2024, arXiv:2410.21676, sections 3.2 and 3.3: 93.20 N^0.47 with 20 tokens "
    "a parameter, 621.341 N^0.087 with 3.072 billion tokens, N in millions, in sequences of 512",
    tolerance=0.03,
)
def by_size_not_by_tokens() -> Pairs:
    """five sizes from 85 million to 1.2 billion parameters, and 302 million"""
    for millions in (85, 151, 302, 604, 1200):
        yield learning.critical_batch_at_overhead(20e6 * millions) / 5 / 512, 93.2 * millions**0.47
    yield learning.critical_batch_at_overhead(3.072e9) / 5 / 512, 621.341 * 302**0.087


@check(
    "critical_batch_of_tokens",
    by="table",
    source="Zhang et al. 2024, arXiv:2410.21676, section 3.2, other models, text and method: 93.20 "
    "N^0.47 sequences of 512 take 20 % more tokens, five times as many twice the tokens",
    tolerance=0.13,
)
def two_groups() -> Pairs:
    """five sizes from 85 million to 1.2 billion parameters, 20 tokens a parameter"""
    for millions in (85, 151, 302, 604, 1200):
        theirs = 5 * 512 * 93.2 * millions**0.47
        yield learning.critical_batch_of_tokens(20e6 * millions), theirs


@check(
    "critical_batch_of_loss",
    by="table",
    source="Kaplan et al. 2020, arXiv:2001.08361, fig. 10: 2.1e8 L^-4.8",
    tolerance=0.05,
)
def by_the_loss() -> Pairs:
    """losses from 3 to 10"""
    for loss in (3.0, 4.0, 6.0, 10.0):
        yield learning.critical_batch_of_loss(loss), 2.1e8 * loss**-4.8


@check(
    "critical_batch_of_tokens critical_batch_at_overhead",
    by="table",
    source="batches that labs chose: Brown et al. 2020, arXiv:2005.14165, table 2.1; Hoffmann et "
    "al. 2022, arXiv:2203.15556, table 4; Touvron et al. 2023, arXiv:2307.09288, section 2.2; Bi "
    "et al. 2024, arXiv:2401.02954, table 2; Grattafiori et al. 2024, arXiv:2407.21783, section "
    "3.4.1; DeepSeek-AI 2024, arXiv:2412.19437, section 4.2; nothing is fitted to them",
    tolerance=14.2,
)
def batches_of_labs() -> Pairs:
    """GPT-3 to DeepSeek-V3: critical batches are 1.8 to 15 times those chosen, never below"""
    for tokens, batch in BATCHES.values():
        yield learning.critical_batch_of_tokens(tokens), batch
        yield learning.critical_batch_at_overhead(tokens), batch


BATCHES = {  # tokens of the run, of its largest batch
    "GPT-3 175B": (300e9, 3.2e6),
    "Chinchilla 70B": (1.4e12, 3e6),
    "Llama 2 70B": (2e12, 4e6),
    "DeepSeek 67B": (2e12, 4608 * 4096),
    "Llama 3 405B": (15.6e12, 16 * 2**20),
    "DeepSeek-V3": (14.8e12, 15360 * 4096),
}


def loss_at(
    log: float, pairs: float, floor: float, a: float, alpha: float, b: float, beta: float
) -> float:
    size = np.exp(log)
    return float(floor + a * size**-alpha + b * (pairs / size) ** -beta)


@check(
    "optimal_parameters optimal_tokens compute_optimal_loss",
    by="derivation",
    source="the least of eq. 2 of Hoffmann et al. 2022 along N D = C / 6, found by SciPy",
    tolerance=1e-6,
)
def least_loss() -> Pairs:
    """1e19 to 1e26 FLOP, both fits"""
    names = ["compute_optimal_parameters", "compute_optimal_loss", "irreducible_loss"]
    for fit in FITS:
        for flops in (1e19, 5.76e23, 1e26):
            size = flops**0.5 / 10
            given = {"parameters": size, "training_tokens": flops / 6 / size, "loss_fit": fit}
            got = values([*names, *COEFFICIENTS], **given)
            known = (flops / 6, got["irreducible_loss"], *(got[name] for name in COEFFICIENTS))
            found = minimize_scalar(
                loss_at, (np.log(size), np.log(size) + 1), args=known, tol=1e-10
            )
            yield got["compute_optimal_parameters"], np.exp(found.x)
            yield got["compute_optimal_loss"], found.fun
            tokens = values(["compute_optimal_tokens"], **given | {"parameters": np.exp(found.x)})
            yield tokens["compute_optimal_tokens"], flops / 6 / np.exp(found.x)


@check(
    *(f"hoffmann_{name}" for name in COEFFICIENTS),
    by="table",
    source="Hoffmann et al. 2022, arXiv:2203.15556, fig. 4: 40 billion parameters for Gopher's "
    "5.76e23 FLOP",
    tolerance=0.01,
)
def of_gopher_as_published() -> Pairs:
    """one budget"""
    given = {"parameters": 5.76e23 / 6 / 300e9, "training_tokens": 300e9, "loss_fit": "hoffmann"}
    yield values(["compute_optimal_parameters"], **given)["compute_optimal_parameters"], 40e9


@check(
    *(f"besiroglu_{name}" for name in COEFFICIENTS),
    by="table",
    source="Hoffmann et al. 2022, arXiv:2203.15556, table 3 and section 3: 67 and 63 billion "
    "parameters for Gopher's 5.76e23 FLOP by approaches 1 and 2, which the correction restores",
    tolerance=0.15,
)
def of_gopher_by_other_approaches() -> Pairs:
    """one budget, two approaches"""
    given = {"parameters": 5.76e23 / 6 / 300e9, "training_tokens": 300e9}
    ours = values(["compute_optimal_parameters"], **given)["compute_optimal_parameters"]
    for theirs in (67e9, 63e9):
        yield ours, theirs


@check(
    "optimal_tokens",
    by="table",
    source="tokens that labs found best: Hoffmann et al. 2022, arXiv:2203.15556, table 4 "
    "(Chinchilla, 1.4e12 for 70e9); Grattafiori et al. 2024, arXiv:2407.21783, section 3.2.1 "
    "(16.55e12 for 402e9); nothing is fitted to them",
    tolerance=0.6,
)
def tokens_of_labs() -> Pairs:
    """Chinchilla: 8 % below; Llama 3: 59 % below, 25 times beyond the sizes of the fit"""
    for size, tokens in ((70e9, 1.4e12), (402e9, 16.55e12)):
        given = {"parameters": size}
        yield values(["compute_optimal_tokens"], **given)["compute_optimal_tokens"], tokens


@check(
    "power_law_loss besiroglu_irreducible_loss hoffmann_irreducible_loss",
    by="table",
    source="two fits to the same runs: Besiroglu et al. 2024, arXiv:2404.10102, table 1, and "
    "Hoffmann et al. 2022, arXiv:2203.15556, eq. 10 as printed, 1.69 + 406.4 / "
    "N^0.34 + 410.7 / D^0.28",
    tolerance=0.02,
)
def two_fits() -> Pairs:
    """70 million to 16 billion parameters, 20 tokens a parameter and 1e11 tokens"""
    for size in (7e7, 1e9, 1.6e10):
        for tokens in (max(20 * size, 5e9), 1e11):
            printed = 1.69 + 406.4 / size**0.34 + 410.7 / tokens**0.28
            for fit in FITS:
                given = {"parameters": size, "training_tokens": tokens, "loss_fit": fit}
                yield values(["loss"], **given)["loss"], printed


@check(
    "lifetime_flops power_law_loss optimal_tokens",
    by="table",
    source="Sardana et al. 2024, arXiv:2401.00448, fig. 1: 1.7e22 FLOP (17 %) less with 7 in place "
    "of 13 billion parameters for 2e12 tokens of inference, the loss the same; with their powers, "
    "0.336 and 0.283",
    tolerance=0.03,
)
def smaller_and_longer() -> Pairs:
    """one pair of models"""
    theirs = {
        "irreducible_loss": 1.69,
        **dict(zip(COEFFICIENTS, (406.4, 0.336, 410.7, 0.283), strict=True)),
        "lifetime_inference_tokens": 2e12,
    }
    large = {"parameters": 13e9, **theirs}
    large["training_tokens"] = values(["compute_optimal_tokens"], **large)["compute_optimal_tokens"]
    small = {"parameters": 7e9, **theirs}

    def excess(tokens: float) -> float:
        return float(values(["loss"], **small, training_tokens=tokens)["loss"] - aim)

    aim = values(["loss"], **large)["loss"]
    small["training_tokens"] = brentq(excess, 5e11, 5e12, rtol=1e-6)
    before, after = (values(["lifetime_flops"], **g)["lifetime_flops"] for g in (large, small))
    yield before - after, 1.7e22
    yield 1 - after / before, 0.17
