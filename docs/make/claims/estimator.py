"""The guide of the AI job completion estimator: "Scaling Distributed Training"."""

from . import estimator_failures, estimator_traffic
from .claim import Document

DOCUMENT = Document(
    "AI job completion",
    'guide of an estimator of training time, "Scaling Distributed Training: The Physics of '
    'Large-Scale AI Workloads"',
    tuple(
        sorted(
            (*estimator_traffic.CLAIMS, *estimator_failures.CLAIMS),
            key=lambda claim: int(claim.number.partition(".")[2]),
        )
    ),
)
