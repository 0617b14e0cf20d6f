"""Roles of learning laws: ranges of their fits, and effects that they ignore."""

from collections.abc import Mapping

# an input with an effect that only one formula counts, and the remark if that is not in use
UNCOUNTED: Mapping[str, tuple[str, str]] = {
    "global_batch_size": (
        "critical_tokens_to_target",
        "quality is not counted: tokens are taken to teach as much in a batch of any size; "
        "batch_quality = critical adds the tokens that larger batches need",
    ),
}
# quantities with formulas fitted to runs: by choice, the ranges of other quantities in those runs
_RUNS = {"active_parameters": (7e7, 1.6e10), "trained_tokens": (5e9, 5e11)}
FITTED: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "token_loss_exponent": {"besiroglu": _RUNS, "hoffmann": _RUNS},
    "critical_batch_tokens": {
        "bergsma": {"trained_tokens": (2.2e9, 1.4e11)},
        "zhang": {"trained_tokens": (1.7e9, 2.4e10)},
        "kaplan": {"loss": (3.0, 10.0)},
    },
}
