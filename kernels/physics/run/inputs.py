"""Inputs of the whole run."""

from ...declare import Input, count, declared, option, real


def _budget(name: str, default: float, loss: str) -> Input:
    description = f"share of wall time lost to {loss} (goodput_model = additive)"
    return real(name, "1", default, description, positive=False, high=1.0)


INPUTS = declared(
    "hardware",
    real("storage_rent", "USD/B/s", None, "price of space on storage for some time"),
    "operations",
    count("checkpoint_steps", None, "steps between checkpoints (checkpoint_policy = steps)"),
    count("drive_tier_steps", None, "steps between checkpoints on local drives (tiered)"),
    count("storage_tier_steps", None, "steps between checkpoints on storage (tiered)"),
    count("kept_checkpoints", None, "checkpoints that storage keeps, besides one being written"),
    real(
        "transition_time",
        "s",
        0.0,
        "making a phase ready: starting the job, re-sharding a checkpoint; GPUs wait meanwhile",
        positive=False,
    ),
    option(
        "transitions",
        False,
        (False, "counted"),
        "whether job_time counts the time that it takes to make a job, or a phase of it, ready",
        implied="counted",
        implied_by=("transition_time",),
    ),
    _budget("bubble_budget", 0.05, "pipeline bubbles; 0 where step_time counts them"),
    _budget("checkpoint_budget", 0.03, "checkpoints"),
    _budget("recovery_budget", 0.10, "failures, rework included"),
    _budget("maintenance_budget", 0.05, "maintenance windows"),
    "software",
    real(
        "serial_fraction",
        "1",
        0.0,
        "part of the work that no GPU shares (speed-up laws, not step_time)",
        positive=False,
        high=1.0,
    ),
    "job",
    real("long_context_tokens", "1", 0.0, "last tokens, in longer sequences", positive=False),
    real(
        "long_context_length",
        "1",
        131072,
        "tokens of those sequences (of several stages, the mean over their tokens)",
        low=1.0,
    ),
    "model",
    option(
        "job_end",
        False,
        (False, "saved", "unsaved"),
        "whether job_time counts that the job ends: with a save after its last step, or without",
    ),
    option("goodput_model", "exact", ("exact", "first_order", "additive"), "how losses combine"),
    option(
        "mfu_scope",
        "step",
        ("step", "node"),
        "what mfu was measured on: whole steps, or one node without the fabric",
        implied="node",
        implied_by=("scaling_efficiency",),
    ),
)
