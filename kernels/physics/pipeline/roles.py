"""What others ask of a pipeline: what a layout written out sets, and kinds of schedules."""

from collections.abc import Mapping

# A pipeline's layout, written out: what it sets
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
UNCHUNKED_SCHEDULES = ("gpipe", "zb_h1", "dualpipe")  # those with one piece on each stage
SCHEDULES_AHEAD = ("combined_1f1b",)  # those that run further ahead than interleaved passes
GROUP = "microbatch_group_size"
