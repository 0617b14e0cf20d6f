"""What others ask of laws of learning: what they were fitted to, and what they leave out."""

from collections.abc import Mapping

# An input with an effect that only one formula counts, and what is said where this is not in use
UNCOUNTED: Mapping[str, tuple[str, str]] = {
    "global_batch_size": (
        "critical_tokens_to_target",
        "quality is not counted: each token is taken to teach as much in a batch of any size; "
        "batch_quality = critical counts the tokens that larger ones take",
    ),
}
# Quantities whose formulas are fitted to runs: by choice, the values that others had in these
_RUNS = {"active_parameters": (7e7, 1.6e10), "trained_tokens": (5e9, 5e11)}
FITTED: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "token_loss_exponent": {"besiroglu": _RUNS, "hoffmann": _RUNS},
    "critical_batch_tokens": {
        "bergsma": {"trained_tokens": (2.2e9, 1.4e11)},
        "zhang": {"trained_tokens": (1.7e9, 2.4e10)},
        "kaplan": {"loss": (3.0, 10.0)},
    },
}
