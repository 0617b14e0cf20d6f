"""calculon's numbers at six configurations, where it agrees with published laws.

The benchmark of that name runs it at random configurations, and explains the differences. Both
assume one machine limited by its peaks, without latency.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

from ...evaluated import ENDS, computed
from ..check import Pairs, check

against_calculon = partial(check, by="peer", source="calculon (Isaev et al. 2023, SC23)")
PEAK, INSIDE, RAIL = 1e15, 1e11, 1e10
# Six configurations, each chunk of two layers. Operations and activations are of a layer and
# micro-batch (`sequence`: with sequence parallelism; `selective`: with selective recompute too),
# times and states of a step and a GPU (`shared`: by data or tensor ranks).
TABLE = """
heads                       32             96            128            40           16           24
head_size                  128            128            160            96           64           80
hidden                    4096          12288          20480          3840         2048         1920
ffn                      16384          49152          81920         10240         8192         7680
sequence_length           2048           2048           2048          4096         1024         1024
micro_batch                  1              1              1             2            4            4
tensor                       8              8              8             4            2            1
pipeline                     4              8             35            16           12            8
chunks                       1              3              3             8            4            1
micro_batches                8             64            280             8            5            3
replicas                     2              4              1             7           16            3
weight_flops      103079215104   927712935936  2576980377600  563714457600 171798691840 362387865600
forward_flops     111669149696   953482739712  2619930050560  692563476480 180388626432 394600120320
backward_flops    223338299392  1906965479424  5239860101120 1385126952960 360777252864 789200240640
repeated_flops    111669149696   953482739712  2619930050560  692563476480 180388626432 394600120320
whole                192937984      578813952      880803840    2139095040    335544320    770703360
sequence             119537664      358612992      513802240    1903165440    293601280    770703360
selective             35651584      106954752      178257920     225443840    125829120    251658240
flight                       4   10.333333333   46.333333333        8.9375 6.1458333333            3
bubble                   0.375 0.036458333333 0.040476190476      1.109375          1.6 2.3333333333
send                  16777216       50331648       83886080      62914560     16777216     15728640
scattered_send         2097152        6291456       10485760      15728640      8388608     15728640
sends_time        0.0268435456   1.9327352832    14.09286144   0.805306368  0.067108864  0.009437184
weights              100728832     2718498816     7550730240    1101496320    335675392    176977920
optimizer            604372992    16310992896    45304381440    6608977920   2014052352   1061867520
shared_optimizer     302186496     4077748224    45304381440  944139702.86    125878272    353955840
gradients_time    0.0100728832   0.4077748224              0 0.18882794057  0.062939136  0.023597056
tensor_time      0.01879048192   1.3529146982    9.865003008  0.4831838208 0.0268435456            0
shared_tensor     0.0234881024   1.6911433728    12.33125376   0.603979776  0.033554432            0
"""


class Told(SimpleNamespace):
    """A configuration, and calculon's numbers for it."""

    def ours(self, *outputs: str, **more: Any) -> list[float]:
        shards = self.tensor * self.pipeline
        given: dict[str, Any] = {
            "layers": 2 * self.chunks * self.pipeline, "hidden_size": self.hidden,
            "attention_heads": self.heads, "head_size": self.head_size,
            "ffn_hidden_size": self.ffn, "gated_ffn": False,
            "sequence_length": self.sequence_length, "parameters": self.weights / 2 * shards,
            "n_gpus": shards * self.replicas, "gpus_per_node": self.tensor,
            "tensor_parallel": self.tensor, "pipeline_parallel": self.pipeline,
            "stage_split": False, "virtual_stages": self.chunks,
            "micro_batch_size": self.micro_batch,
            "global_batch_size": self.micro_batch * self.micro_batches * self.replicas,
            "attention_kernel": "standard", "recompute": False, "zero_stage": 0,
            "all_reduce": "ring", "compute_model": "roofline", "gemm_efficiency": 1.0,
            "gemm_half_depth": 0.0, "attention_efficiency": 1.0, "peak_flops_bf16": PEAK,
            "hbm_bandwidth": 1e40, "intra_node_bandwidth": INSIDE, "inter_node_bandwidth": RAIL,
            "intra_node_latency": 0.0, "inter_node_latency": 0.0,
        }  # fmt: skip
        return computed(given | more, *outputs)


NAMES, *COLUMNS = zip(*(line.split() for line in TABLE.strip().splitlines()), strict=True)
TOLD = [
    Told(**dict(zip(NAMES, (float(text) for text in column), strict=True))) for column in COLUMNS
]


@against_calculon("attention_projection_time dense_ffn_time attention_parameters_per_layer")
def weights_products() -> Pairs:
    """operations of a layer's forward products with weights, at six shapes"""
    for told in TOLD:
        attention, ffn = told.ours("attention_projection_time", "ffn_time")
        yield (attention + ffn) * PEAK, told.weight_flops


@against_calculon(
    "attention_score_flops standard_attention_core_time layer_time layer_recompute_time"
)
def layer_products() -> Pairs:
    """operations of a layer: attention, both passes, and with full recompute, at six shapes"""
    for told in TOLD:
        scores, layer = told.ours("attention_score_flops", "layer_time")
        yield scores, told.forward_flops - told.weight_flops
        yield layer * PEAK, told.forward_flops + told.backward_flops
        (again,) = told.ours("layer_recompute_time", recompute="full")
        yield again * PEAK, told.repeated_flops


@against_calculon(
    "mixer_activations_per_token ffn_activations_per_token "
    "standard_score_activations_per_token whole_layer_activation_memory "
    "selective_activation_memory_per_layer"
)
def activations() -> Pairs:
    """a layer's activations, whole, with sequence parallelism and selective recompute; one rank"""
    for told in TOLD:
        kept = "activation_memory_per_layer"
        yield told.ours(kept)[0], told.whole
        if told.tensor > 1:
            yield told.ours(kept, sequence_parallel=True)[0], told.sequence
            shared = {"sequence_parallel": True, "recompute": "selective"}
            yield told.ours(kept, **shared)[0], told.selective


@against_calculon("bubble_ratio flushed_bubble_ratio")
def bubbles() -> Pairs:
    """six pipelines of 4 to 35 stages, three of them with fewer micro-batches than stages"""
    for told in TOLD:
        yield told.ours("bubble_ratio")[0], told.bubble


@against_calculon("one_forward_one_backward_microbatches_in_flight")
def in_flight() -> Pairs:
    """micro-batches in flight in the pipelines that have as many"""
    for told in TOLD:
        if told.flight <= told.micro_batches:
            yield told.ours("microbatches_in_flight")[0], told.flight


@against_calculon(
    "activation_message whole_pipeline_message scattered_pipeline_message pipeline_send_time "
    "pipeline_parallel_time"
)
def sends() -> Pairs:
    """bytes of a send between stages, whole and scattered, and the time of all sends of a step"""
    for told in TOLD:
        whole, time = told.ours("pipeline_message", "pipeline_parallel_time")
        yield whole, told.send
        yield time, told.sends_time
        yield told.ours("pipeline_message", scatter_gather=True)[0], told.scattered_send


@against_calculon(
    "replicated_weights_memory optimizer_memory dense_local_parameters even_sharded_parameters"
)
def states() -> Pairs:
    """weights, and optimizer states whole and sharded, of a GPU of six clusters"""
    for told in TOLD:
        weights, optimizer = told.ours("weights_memory", "optimizer_memory")
        yield weights, told.weights
        yield optimizer, told.optimizer
        yield told.ours("optimizer_memory", zero_stage=1)[0], told.shared_optimizer


@against_calculon("gradient_message weight_message replicated_data_parallel_time")
def gradients() -> Pairs:
    """time of a step's gradients, reduced at once or around ZeRO-1's update, of six clusters"""
    for told in TOLD:
        for stage in (0, 1):
            yield told.ours("data_parallel_time", zero_stage=stage)[0], told.gradients_time


@against_calculon("tensor_parallel_time_mixture_of_experts_false sequence_regather_time")
def tensor_traffic() -> Pairs:
    """time of a step's tensor traffic, with sequence parallelism too, in six layouts"""
    for told in TOLD:
        yield told.ours("tensor_parallel_time", **ENDS)[0], told.tensor_time
        (sharded,) = told.ours("tensor_parallel_time", sequence_parallel=True, **ENDS)
        yield sharded, told.shared_tensor
