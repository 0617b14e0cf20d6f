"""Inputs of training on several sites."""

from ...declare import count, declared, option, real, share

INPUTS = declared(
    "fabric",
    real("site_bandwidth", "B/s", None, "of all links that leave one site, per direction"),
    real("site_latency", "s", 10e-3, "one message between sites", positive=False),
    "software",
    option(
        "site_sync",
        "every_step",
        ("every_step", "local_steps"),
        "when sites exchange: gradients at each step, or what weights have moved by in inner_steps "
        "steps of their own (DiLoCo)",
        implied="local_steps",
        implied_by=("inner_steps",),
    ),
    count("inner_steps", 500, "steps of a site between exchanges of the same weights (H)"),
    real(
        "outer_bytes_per_element",
        "B",
        4,
        "size of a weight's change on the wire between sites (0.5 for 4 bits)",
    ),
    count("model_fragments", 1, "parts of the model that sites exchange one after the other"),
    real(
        "outer_state_bytes",
        "B",
        8,
        "kept for each parameter on each site: the weights last agreed on, and their momentum",
        positive=False,
    ),
    share("site_overlap", "share of its window that hides traffic between sites"),
    "job",
    "model",
    real(
        "tokens_factor",
        "1",
        1.0,
        "tokens for the same loss with inner steps over those without (published: about 1, either "
        "way; nothing for large models: measure it)",
    ),
)
