"""Inputs of tori."""

import math

from ...declare import count, declared, real, switch

INPUTS = declared(
    "hardware",
    count(
        "torus_x",
        1,
        "accelerators along the first dimension of a node, or domain, that is a torus",
    ),
    count("torus_y", 1, "accelerators along the second dimension; the third is the rest"),
    count("torus_dimensions", 3, "dimensions of the torus: an accelerator has two links in each"),
    count(
        "torus_ring_multiple",
        4,
        "sizes that close into rings are multiples of this (else lines)",
    ),
    switch(
        "twisted_torus",
        (
            "rings of the short dimensions come back shifted along the long ones (n x n x 2n, "
            "n x 2n x 2n)"
        ),
    ),
    real(
        "largest_slice",
        "1",
        math.inf,
        "accelerators of the largest torus that a pod gives to a job (infinite: not checked)",
        low=1.0,
        may_be_infinite=True,
    ),
)
