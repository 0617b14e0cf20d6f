"""Evaluation rate of mlsysim 0.3.0 on the fleet question, in points per second.

The question: Llama-3-70B trained on DGX H100 nodes with tensor_parallel 8, pipeline_parallel p
and data_parallel n_gpus / (8 p), a fixed global batch and token budget. A point draws n_gpus
(8 to 16384), p, the fabric, the GPU MTTF and the checkpoint write bandwidth. Its outputs are the
step time, communication share, cluster MTBF, Young-Daly interval, checkpoint loss and job time.

What is measured: wall time of one pass over N points after a warm-up of 20, one point per call,
as the API takes one configuration at a time. Per point:

- ``DistributedModel.solve`` gives the step time and its communication part. It sees neither the
  MTTF nor the write bandwidth; points that agree on its inputs do not share a cached result.
- ``calc_mtbf_cluster``, ``calc_young_daly_interval`` and ``calc_checkpoint_waste`` give the
  reliability outputs. They are the public formulas behind ``ReliabilityModel`` and
  ``CheckpointIntervalModel`` and cost less than those; ``ReliabilityModel`` also reads the GPU
  MTTF from a registry, so it cannot vary it.
- The job time is float arithmetic: steps x step time / (1 - checkpoint loss).

Drawing the points, the workload, one ``Fleet`` per (node count, fabric), the checkpoint size and
the unit objects are all built outside the timed loop.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from importlib.metadata import version
from typing import NamedTuple

from mlsysim import Models, Systems
from mlsysim.core.units import ureg
from mlsysim.physics import (
    calc_checkpoint_size,
    calc_checkpoint_waste,
    calc_mtbf_cluster,
    calc_young_daly_interval,
)
from mlsysim.solvers import DistributedModel
from mlsysim.systems.types import Fleet

WARM_UP, TENSOR_PARALLEL = 20, 8
BATCH, SEQ_LEN, TOKENS = 2048, 8192, 15e12
OUTPUTS = ["step_s", "comm_share", "mtbf_s", "interval_s", "checkpoint_loss", "job_s"]

MODEL = Models.Language.Llama3_70B
NODE, NETS = Systems.Nodes.DGX_H100, Systems.Fabrics
FABRICS = (NETS.InfiniBand_HDR, NETS.InfiniBand_NDR, NETS.InfiniBand_XDR)
FLEETS = {
    (2**k, f): Fleet(name="fleet", node=NODE, count=2**k, fabric=fabric)
    for k in range(12)
    for f, fabric in enumerate(FABRICS)
}
SOLVER = DistributedModel()
SECOND = ureg.second
CHECKPOINT_BYTES: float = calc_checkpoint_size(MODEL.parameters).m_as(ureg.byte)
STEPS = TOKENS / (BATCH * SEQ_LEN)


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


def evaluate(point: Point) -> tuple[float, ...]:
    """The outputs at one point, in the order of OUTPUTS."""
    gpus = point.nodes * NODE.accelerators_per_node
    data = gpus // (TENSOR_PARALLEL * point.pipeline)
    result = SOLVER.solve(
        MODEL, FLEETS[point.nodes, point.fabric], batch_size=BATCH, seq_len=SEQ_LEN,
        precision="bf16", tp_size=TENSOR_PARALLEL, pp_size=point.pipeline,
        microbatch_count=BATCH // data, zero_stage=1,
    )  # fmt: skip
    step = result.step_latency_total.m_as(SECOND)
    share = result.communication_latency.m_as(SECOND) / step
    write = CHECKPOINT_BYTES / (point.write_gbs * 1e9)
    mtbf = calc_mtbf_cluster(point.mttf_h, gpus).m_as(SECOND)
    interval = calc_young_daly_interval(write, mtbf).m_as(SECOND)
    loss = calc_checkpoint_waste(write, interval, mtbf)
    return step, share, mtbf, interval, loss, STEPS * step / (1.0 - loss)


def main() -> None:
    parser = argparse.ArgumentParser(description="Points per second of mlsysim.")
    parser.add_argument("--points", type=int, default=300)
    count = max(1, min(parser.parse_args().points, 1_000_000))
    points = draw(count)
    for point in draw(WARM_UP):
        evaluate(point)
    start = time.perf_counter()
    rows = [evaluate(point) for point in points]
    seconds = time.perf_counter() - start
    checksum = math.fsum(math.log(value + 1.0) for row in rows for value in row)
    print(json.dumps({
        "package": "mlsysim", "version": version("mlsysim"), "points": count,
        "seconds": round(seconds, 6), "points_per_second": round(count / seconds, 2),
        "outputs": OUTPUTS, "checksum": round(checksum, 6),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
