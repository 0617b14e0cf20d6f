"""Roles of pipelines: inputs that a written-out layout sets, and kinds of schedules."""

from collections.abc import Mapping

# inputs that a written-out pipeline layout sets
SPLIT: Mapping[str, str] = {
    "all": "layers",
    "stages": "pipeline_parallel",
    "chunks": "virtual_stages",
    "schedule": "pipeline_schedule",
    "first": "first_stage_layers",
    "middle": "middle_stage_layers",
    "last": "last_stage_layers",
    "predicting": "prediction_layers",
    "first kept": "first_stage_kept_ratio",
    "middle kept": "middle_stage_kept_ratio",
    "last kept": "last_stage_kept_ratio",
}
FOLDED_SCHEDULES = ("zb_v", "dualpipev")  # schedules whose pieces come back to the first stage
UNCHUNKED_SCHEDULES = ("gpipe", "zb_h1", "dualpipe")  # schedules with one piece on each stage
PAIRED_SCHEDULES = ("combined_1f1b", "dualpipe", "dualpipev")  # passes hide each other's traffic
GROUP = "microbatch_group_size"
