"""Evaluation rate of llm-analysis 0.2.2 on the fleet question, in points per second.

The question: Llama-3-70B trained on DGX H100 nodes with tensor_parallel 8, pipeline_parallel p
and data_parallel n_gpus / (8 p), a fixed global batch and token budget. A point draws n_gpus
(8 to 16384), p, the fabric, the GPU MTTF and the checkpoint write bandwidth. The package has no
failure or checkpoint model, so its one output here is the training step time, and a point's MTTF
and write bandwidth are drawn (the points are those of the other peer script) but not used.

What is measured: wall time of one pass over N points after a warm-up of 20, one point per call,
as the API takes one configuration at a time. Per point:

- ``LLMAnalysis.update_gpu_config`` and ``update_parallelism_config`` set the fabric and the
  parallel degrees on one analysis object, which costs less than building one per point.
- ``LLMAnalysis.training`` is the documented entry point that gives the step time, as
  ``latency_per_iter``; it also works out memory and a full summary, and cannot be told not to.
  The public FLOP counters give the same number far faster, but only to a caller who writes out
  the latency formula (FLOPs / FLOP/s x accumulation steps), so they are not what is timed.

Drawing the points, the model config, one GPU config per fabric and one parallelism config per
(node count, p) are done outside the timed loop; the package's log is turned off. The step time
is FLOPs over achieved FLOP/s in this version: the fabric is set but changes nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import time
from dataclasses import replace
from importlib.metadata import version
from typing import NamedTuple

from llm_analysis.analysis import DSZeRO, LLMAnalysis
from llm_analysis.config import ModelConfig, ParallelismConfig, get_gpu_config_by_name
from llm_analysis.logger import logger

TENSOR_PARALLEL = 8
BATCH, SEQ_LEN = 2048, 8192
WARM_UP = 20
OUTPUTS = ["step_s"]
FABRIC_NODE_GBS = (200.0, 400.0, 800.0)  # InfiniBand HDR, NDR, XDR: eight links a node

MODEL = ModelConfig(
    name="llama-3-70b", num_layers=80, n_head=64, hidden_dim=8192, vocab_size=128256,
    max_seq_len=SEQ_LEN, num_key_value_heads=8, ffn_embed_dim=28672, expansion_ratio=3.5,
    model_type="llama",
)  # fmt: skip
GPU = get_gpu_config_by_name("h100-sxm-80gb")
GPUS = [replace(GPU, inter_node_bandwidth_in_GB_per_sec=rate) for rate in FABRIC_NODE_GBS]
PARALLELISM = {
    (2**k, 2**j): ParallelismConfig(tp_size=TENSOR_PARALLEL, pp_size=2**j, dp_size=2 ** (k - j))
    for k in range(12)
    for j in range(min(k, 3) + 1)
}


class Point(NamedTuple):
    nodes: int
    pipeline: int
    fabric: int
    mttf_h: float
    write_gbs: float


def draw(count: int) -> list[Point]:
    """The same points in every peer script: powers of two, and log-uniform reals."""
    rng = random.Random(70)
    points = []
    for _ in range(count):
        k = rng.randrange(12)
        pipeline = 2 ** rng.randrange(min(k, 3) + 1)
        mttf_h, write_gbs = 10 ** rng.uniform(4.0, 5.0), 10 ** rng.uniform(1.5, 3.0)
        points.append(Point(2**k, pipeline, rng.randrange(3), mttf_h, write_gbs))
    return points


def evaluate(analysis: LLMAnalysis, point: Point) -> float:
    """The training step time at one point, in seconds."""
    analysis.update_gpu_config(GPUS[point.fabric])
    analysis.update_parallelism_config(PARALLELISM[point.nodes, point.pipeline])
    summary = analysis.training(
        batch_size_per_gpu=1, global_batch_size=BATCH, seq_len=SEQ_LEN, ds_zero=DSZeRO.STAGE_1
    )
    step: float = summary["latency_per_iter"]
    return step


def main() -> None:
    parser = argparse.ArgumentParser(description="Points per second of llm-analysis.")
    parser.add_argument("--points", type=int, default=300)
    count = max(1, min(parser.parse_args().points, 1_000_000))
    logger.setLevel(logging.CRITICAL)
    first = PARALLELISM[1, 1]
    analysis = LLMAnalysis(MODEL, GPU, parallelism_config=first, flops_efficiency=0.5)
    points = draw(count)
    for point in draw(WARM_UP):
        evaluate(analysis, point)
    start = time.perf_counter()
    rows = [evaluate(analysis, point) for point in points]
    seconds = time.perf_counter() - start
    checksum = math.fsum(math.log(value + 1.0) for value in rows)
    print(json.dumps({
        "package": "llm-analysis", "version": version("llm-analysis"), "points": count,
        "seconds": round(seconds, 6), "points_per_second": round(count / seconds, 2),
        "outputs": OUTPUTS, "checksum": round(checksum, 6),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
