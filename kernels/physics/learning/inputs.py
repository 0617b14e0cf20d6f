"""Inputs of training tokens, loss and batch size."""

from ...declare import count, declared, option, real

INPUTS = declared(
    "job",
    option(
        "training_stages",
        False,
        (False, "several"),
        "whether job_time counts a ramp of the batch and a stage of long sequences",
        implied="several",
        implied_by=("ramp_tokens", "long_context_tokens"),
    ),
    option(
        "batch_ramp",
        "linear",
        ("linear", "step"),
        "whether the batch grows evenly over ramp_tokens, or at once after them",
    ),
    real("ramp_tokens", "1", 0.0, "tokens seen with a smaller batch", positive=False),
    count("ramp_start_batch_size", 1024, "sequences of the first step"),
    real(
        "earlier_tokens",
        "1",
        0.0,
        "tokens that the model has seen before the job; phases count those of the ones before",
        positive=False,
    ),
    real(
        "lifetime_inference_tokens",
        "1",
        0.0,
        "tokens that the model reads and writes when it is used, over its life",
        positive=False,
    ),
    "model",
    option(
        "batch_quality",
        False,
        (False, "critical"),
        "whether a larger batch takes more tokens to the same loss, by the critical batch size",
        implied="critical",
        implied_by=("critical_batch_tokens", "reference_batch_tokens"),
    ),
    option(
        "critical_batch_law",
        "bergsma",
        ("bergsma", "zhang", "kaplan"),
        "how the critical batch size grows: with tokens (Bergsma et al. 2025, Zhang et al. 2024), "
        "or as the loss falls (Kaplan et al. 2020)",
    ),
    real(
        "reference_batch_tokens",
        "1",
        0.0,
        "batch, in tokens, that training_tokens are stated for (0: far below the critical one)",
        positive=False,
    ),
    option(
        "loss_fit",
        "besiroglu",
        ("besiroglu", "hoffmann"),
        "fit of the loss to sizes and tokens: as corrected by Besiroglu et al. 2024, or as "
        "published by Hoffmann et al. 2022",
    ),
)
