"""Memory of one GPU: weights, gradients, optimizer states and total; time of the optimizer step."""

import numpy as np

from ...alternatives import alternative, family, row
from ...ops import where
from ..precision.formats import lora_updated_weight_bytes

row("optimizer_time", 0.0, compute_model="mfu")


@alternative("optimizer_time", compute_model="roofline")
def roofline_optimizer_time(
    optimizer_parameters,
    kept_gradient_bytes,
    kept_optimizer_bytes,
    updated_weight_bytes,
    reached_hbm_bandwidth,
    orthogonalisation_time,
):
    """Time of the memory-bound optimizer step, not part of compute time.

    N_o (5 gradient + 2 x state + weight) / BW + Muon's products: gradients read for their norm,
    scaled (read, written), read and set to 0; states read and written, weights written. Of states
    that live elsewhere, gradients are read to leave, and weights written as they come back

    Returns: [s] time of one step
    Range: launches and waits of the host are in serial_time_per_step; of gradients, only the
        optimizer's share is set to 0
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1 (states of mixed-precision
        Adam); Megatron-LM, megatron/core/optimizer/clip_grads.py
    """
    states = 2 * kept_optimizer_bytes
    each = 5 * kept_gradient_bytes + states + updated_weight_bytes
    return optimizer_parameters * each / reached_hbm_bandwidth + orthogonalisation_time


@alternative("optimizer_bytes_per_parameter", optimizer="adam")
def adam_optimizer_bytes_per_parameter(master_weight_bytes, moment_bytes):
    """Bytes per parameter of the optimizer: its copy of the weights, and its moments.

    m + 2 v

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1 (12 bytes); DeepSeek-AI
        2024, arXiv:2412.19437, section 3.3.3 (moments in BF16: 8); Dettmers et al. 2022,
        arXiv:2110.02861, section 2 (8 bits)
    """
    return master_weight_bytes + 2 * moment_bytes


@alternative("optimizer_bytes_per_parameter", optimizer="muon")
def muon_optimizer_bytes_per_parameter(master_weight_bytes, moment_bytes, layer_matrix_share):
    """m + v (2 - share of parameters in the layers' matrices): one momentum for these, Adam's two
    moments for embedding, head and norms

    Range: mean over the model; stages with an embedding keep more where they have few layers
    Source: Liu et al. 2025 (Moonlight), arXiv:2502.16982, section 2.1
    """
    return master_weight_bytes + moment_bytes * (2 - layer_matrix_share)


row(
    "optimizer_bytes_per_parameter",
    "master_weight_bytes",
    "m: of second moments, row and column sums alone",
    holds="without first moments; the sums are less than 0.1 % of a matrix of 4096 rows",
    source="Shazeer & Stern 2018 (Adafactor), arXiv:1804.04235, section 3",
    optimizer="adafactor",
)
row(
    "optimizer_state_bytes",
    "optimizer_bytes_per_parameter",
    "master weight and moments",
    source=("Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1 (12 bytes)"),
    gradient_storage=(False, "bf16", "fp32"),
)


@alternative("optimizer_state_bytes", gradient_storage="bf16_and_fp32")
def copied_gradient_optimizer_state_bytes(optimizer_bytes_per_parameter):
    """Bytes per parameter that only the optimizer update uses.

    master weight and moments + 4 for the FP32 gradient

    Returns: [B] bytes of one parameter
    Source: Megatron-LM, docs of the distributed optimizer (4 + 16 / d); Rajbhandari et al. 2021
        (ZeRO-Infinity), arXiv:2104.07857 (16 bytes)
    """
    return optimizer_bytes_per_parameter + 4


for of_all, of_trained, what in (
    ("kept_gradient_bytes", "gradient_storage_bytes", "gradients"),
    ("updated_state_bytes", "optimizer_state_bytes", "optimizer states"),
    ("host_state_bytes", "optimizer_bytes_per_parameter", "states that the host updates"),
    ("host_gradient_bytes", "master_gradient_bytes", "gradients that go to the host"),
):
    row(of_all, of_trained, lora=False)
    names = {"updated_weight_bytes": of_all, "bytes_per_element": of_trained}
    family({**names, "trained weights": what}, lora_updated_weight_bytes)
row(
    "master_gradient_bytes",
    4.0,
    "FP32, cast before they leave, as the host's master weights",
    summary="Bytes of a gradient that goes to the host.",
    returns="[B] bytes of one gradient",
    source="DeepSpeed, deepspeed/runtime/zero/stage_1_and_2.py; Megatron-LM, "
    "megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py",
)


row(
    "trained_weight_bytes",
    "primary_weight_bytes",
    "quantised copies are made of what is gathered",
    source="Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.2.1",
    zero_stage=3,
)


row(
    "trained_weight_bytes",
    "whole_weight_bytes",
    summary="Bytes of one weight in training, as it is kept between micro-batches.",
    returns="[B] bytes of one weight",
    source="Megatron-LM, docs of the distributed optimizer; TransformerEngine, "
    "transformer_engine/pytorch/module/base.py",
    zero_stage=(0, 1, 2),
)


@alternative("kept_weight_bytes", lora=True, off="trained_weight_bytes")
def lora_kept_weight_bytes(frozen_weight_bytes, trained_share, trained_weight_bytes):
    """Bytes of weights that are kept for each parameter of the model.

    frozen + share of adapters x trained

    Returns: [B] bytes of one parameter
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.2 (adapters next to the model)
    """
    return frozen_weight_bytes + trained_share * trained_weight_bytes


def state_bytes_per_parameter(kept_weight_bytes, kept_gradient_bytes, updated_state_bytes):
    """Training state per parameter, unsharded.

    weight + gradients + optimizer states

    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1 (16 bytes)
    Example:
        >>> state_bytes_per_parameter(2, 2, 12)
        16
    """
    return kept_weight_bytes + kept_gradient_bytes + updated_state_bytes


def min_gpus_for_state(parameters, state_bytes_per_parameter, hbm_capacity):
    """Minimum GPUs whose memory together holds the training state alone.

    N x bytes / capacity

    Returns: [1] GPUs
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 1
    Example:
        >>> min_gpus_for_state(1e12, 16, 80e9)
        200.0
    """
    return parameters * state_bytes_per_parameter / hbm_capacity


@alternative("held_parameters", stage_split=False)
def even_held_parameters(local_parameters, parameter_copies):
    """Parameters of one GPU of a stage.

    those of the mean stage; dualpipe counts both stages

    Returns: [1] parameters
    Range: identical stages: exact for one stage, a lower bound for several
    Source: Narayanan et al. 2021 (SC21), section 3.3
    """
    return parameter_copies * local_parameters


@alternative("held_parameters", stage_split="whole_layers")
def staged_held_parameters(
    stage_shared_parameters,
    stage_routed_parameters,
    tensor_parallel,
    expert_tensor_parallel,
    expert_parallel,
):
    """Parameters of one GPU of a stage, with routed experts sharded over their own group, too.

    N_stage / t + N_routed / (t_e e)

    Source: Narayanan et al. 2021 (SC21), section 3.3; Lepikhin et al. 2020 (GShard),
        arXiv:2006.16668, section 3.1
    """
    routed_shard = (
        stage_routed_parameters / expert_parallel * (tensor_parallel / expert_tensor_parallel)
    )
    return (stage_shared_parameters + routed_shard) / tensor_parallel


@alternative("sharded_parameters", stage_split=False)
def even_sharded_parameters(
    parameters, tensor_parallel, pipeline_parallel, gradient_ranks, parameter_copies
):
    """Parameters of one GPU of a stage when sharded over data-parallel ranks.

    N / (t p d c), routed experts included: their smaller group holds fewer copies

    Returns: [1] parameters
    Range: identical stages: exact for one stage, a lower bound for several
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    stage = parameters / (tensor_parallel * pipeline_parallel * gradient_ranks)
    return parameter_copies * stage


@alternative("sharded_parameters", stage_split="whole_layers")
def staged_sharded_parameters(
    stage_shared_parameters, stage_routed_parameters, tensor_parallel, gradient_ranks
):
    """(N_stage + N_routed) / (t d c): routed experts' smaller group holds fewer copies"""
    stage = stage_shared_parameters + stage_routed_parameters
    return stage / (tensor_parallel * gradient_ranks)


row(
    "optimizer_parameters",
    "held_parameters",
    "N_stage / t",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1",
    zero_stage=0,
)
row(
    "optimizer_parameters",
    "sharded_parameters",
    "N_stage / (t d c)",
    summary="Parameters whose optimizer states one GPU holds: its share.",
    returns="[1] parameters",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.1",
    zero_stage=(1, 2, 3),
)


@alternative("weights_memory", zero_stage=(0, 1, 2))
def replicated_weights_memory(held_parameters, kept_weight_bytes):
    """Weight memory of one GPU.

    N_stage / t x bytes

    Returns: [B] weights
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    return held_parameters * kept_weight_bytes


@alternative("weights_memory", zero_stage=3)
def sharded_weights_memory(sharded_parameters, kept_weight_bytes):
    """Weight memory of one GPU, without the weights gathered for the current layer.

    N_stage / (t d c) x bytes

    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.3
    """
    return sharded_parameters * kept_weight_bytes


@alternative("gradients_memory", zero_stage=(0, 1))
def replicated_gradients_memory(held_parameters, kept_gradient_bytes):
    """Gradient memory of one GPU.

    N_stage / t x bytes

    Returns: [B] gradients
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    return held_parameters * kept_gradient_bytes


@alternative("gradients_memory", zero_stage=(2, 3))
def sharded_gradients_memory(accumulated_parameters, kept_gradient_bytes):
    """accumulated parameters x bytes: N_stage / (t d c), unless gradients are reduced once a step

    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.2
    """
    return accumulated_parameters * kept_gradient_bytes


row(
    "accumulated_parameters",
    "sharded_parameters",
    summary=("Parameters whose gradients one GPU adds up over micro-batches under ZeRO-2 and 3."),
    returns="[1] parameters",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.2",
    gradient_sync=("microbatch", "two_hop"),
)


@alternative("accumulated_parameters", gradient_sync="step")
def summed_accumulated_parameters(held_parameters, sharded_parameters, num_microbatches):
    """all that it computes with, until they are reduced; with one micro-batch none wait: its shard

    Source: PyTorch fully_shard (set_requires_gradient_sync); Zhao et al. 2023 (PyTorch FSDP),
        arXiv:2304.11277, section 3.3.4 (accumulation without communication)
    """
    return where(num_microbatches > 1, held_parameters, sharded_parameters)


row(
    "kept_optimizer_bytes",
    "updated_state_bytes",
    summary=("Bytes of one parameter that only the optimizer's update uses, as a GPU keeps them."),
    returns="[B] bytes of one parameter",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.1",
    offload=False,
)
row(
    "kept_optimizer_bytes",
    0.0,
    "they live elsewhere",
    source="Ren et al. 2021 (ZeRO-Offload), arXiv:2101.06840, section 3.2",
    offload=("cpu", "nvme"),
)


def optimizer_memory(optimizer_parameters, kept_optimizer_bytes):
    """Optimizer-state memory of one GPU.

    N_o x bytes

    Returns: [B] optimizer states
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.1
    """
    return optimizer_parameters * kept_optimizer_bytes


row(
    "transient_memory",
    "working_memory",
    "an allocator keeps the blocks of freed logits",
    source="Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.4 (caching allocator)",
    whole_program=False,
)


@alternative("transient_memory", whole_program=True)
def planned_transient_memory(
    layer_tensor_memory, planned_state_memory, loss_weights_memory, logits_memory
):
    """Memory of the layer at work beyond states and kept activations with logits.

    max(activations and their gradients + matrices at work - logits, weights with the logits):
    logits are gone when layers run backward

    Returns: [B] memory
    Source: Xu et al. 2021 (GSPMD), arXiv:2105.04663, section 3; OpenXLA, xla/hlo/analysis (buffers
        of disjoint live ranges share memory)
    """
    layer = layer_tensor_memory + planned_state_memory - logits_memory
    return np.maximum(layer, loss_weights_memory)


def widest_matrix_parameters(
    layer_parameters, attention_parameters_per_layer, tensor_parallel, ffn_matrices
):
    """Weights of one matrix of a layer's feed-forward block, on one GPU.

    (layer - attention / t) / (2 or 3)

    Returns: [1] parameters
    Range: shared experts count as one matrix more of their size
    Source: Shazeer 2020, arXiv:2002.05202 (gates: three matrices)
    """
    return (layer_parameters - attention_parameters_per_layer / tensor_parallel) / ffn_matrices


@alternative("planned_state_memory", zero_stage=(0, 1, 2))
def unsharded_planned_state_memory(
    widest_matrix_parameters, updated_weight_bytes, layer_state_memory
):
    """3 e x matrix, at most weights and gradients of a layer"""
    return np.minimum(3 * updated_weight_bytes * widest_matrix_parameters, layer_state_memory)


@alternative("planned_state_memory", zero_stage=3)
def sharded_planned_state_memory(
    planned_weights_memory, widest_matrix_parameters, updated_weight_bytes
):
    """Memory of the gathered weights and new gradients that a compiled step holds at once.

    gathered + e x matrix

    Returns: [B] weights and gradients
    Source: Xu et al. 2021 (GSPMD), arXiv:2105.04663, section 3 (operands are gathered for their
        product)
    """
    return planned_weights_memory + updated_weight_bytes * widest_matrix_parameters


row("planned_weights_memory", "gathered_weights_memory", reshard_after_forward=False)


@alternative("planned_weights_memory", reshard_after_forward=True)
def resharded_planned_weights_memory(widest_matrix_parameters, layer_weight_bytes):
    """Memory of the weights that a compiled step holds gathered at once.

    2 bytes x matrix: the one at work, and the next

    Returns: [B] weights
    Source: Xu et al. 2021 (GSPMD), arXiv:2105.04663, section 3 (operands are gathered for their
        product)
    """
    return 2 * layer_weight_bytes * widest_matrix_parameters


row(
    "loss_weights_memory",
    0.0,
    "they are no copies",
    summary="Memory of the gathered weights that a compiled step holds next to its logits.",
    returns="[B] weights",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.2",
    zero_stage=(0, 1, 2),
)
row("loss_weights_memory", "planned_head_memory", zero_stage=3)
row("planned_head_memory", "gathered_weights_memory", reshard_after_forward=False)


@alternative("planned_head_memory", reshard_after_forward=True)
def resharded_planned_head_memory(table_memory, logits_memory):
    """Memory of the gathered weights that a compiled step holds next to its logits.

    V h e / t: the head, where it has logits

    Returns: [B] weights
    Source: Xu et al. 2021 (GSPMD), arXiv:2105.04663, section 3 (operands are gathered for their
        product)
    """
    return where(logits_memory > 0, table_memory, 0.0)


@alternative("memory_per_gpu", multi_site=False)
def one_site_memory_per_gpu(
    weights_memory,
    gradients_memory,
    optimizer_memory,
    activation_memory,
    transient_memory,
    reserved_memory,
):
    """Memory needed by one GPU of the fullest stage, or of the `pipeline_stage` given.

    weights + gradients + optimizer states + activations + working memory + reserved

    Returns: [B] memory
    Range: 3.5 GB of `reserved_memory`: 2.5 to 3.9 in four published failures; a job of many groups
        holds more, 7 GB in NCCL alone with t 2, p 2, d 2 on H100, 9.5 with experts; 0 gives what a
        framework counts as allocated
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3; messages of PyTorch at the
        failure, capacity - free - allocated: Megatron-LM issue 525, DeepSpeed issue 3312,
        LLaMA-Factory issue 7532, compressed-tensors pull request 587; NCCL issues 864 and 964, verl
        pull request 6408
    """
    states = weights_memory + gradients_memory + optimizer_memory
    return states + activation_memory + transient_memory + reserved_memory


def memory_per_gpu_low(memory_per_gpu, memory_error_factor):
    """Lower end of the interval that contains 90 of 100 measured values.

    memory / f

    Returns: [B] memory
    Source: by definition; factor: docs/accuracy.md (runs of Llama 2 7B in Megatron-LM)
    """
    return memory_per_gpu / memory_error_factor


def memory_per_gpu_high(memory_per_gpu, memory_error_factor):
    """Upper end of the interval that contains 90 of 100 measured values.

    memory x f

    Returns: [B] memory
    Source: by definition; factor: docs/accuracy.md (runs of Llama 2 7B in Megatron-LM)
    """
    return memory_per_gpu * memory_error_factor


@alternative("memory_limit", memory_headroom=False)
def possible_memory_limit(hbm_capacity, memory_error_factor):
    """Memory of a GPU above which a job is refused, by the model's prediction.

    capacity x f: what may fit runs, within the error of the model

    Returns: [B] memory
    Source: by definition; factor: docs/accuracy.md (runs of Llama 2 7B in Megatron-LM)
    """
    return hbm_capacity * memory_error_factor


@alternative("memory_limit", memory_headroom=True)
def sure_memory_limit(hbm_capacity, memory_error_factor):
    """capacity / f: what runs fits, even if the model is wrong by its error"""
    return hbm_capacity / memory_error_factor


def memory_margin(memory_per_gpu, hbm_capacity):
    """Free share of a GPU's memory; negative if the job does not fit.

    1 - memory needed / capacity

    Returns: [1] share
    Source: by definition
    """
    return 1 - memory_per_gpu / hbm_capacity


def near_memory_limit(memory_per_gpu, memory_error_factor, hbm_capacity):
    """Whether a job is so close to the memory limit that the model's error decides if it fits.

    memory needed / f <= capacity < f x memory needed

    Returns: [flag] verdict
    Flags: 0 no, 1 yes
    Source: by definition; factor: docs/accuracy.md (runs of Llama 2 7B in Megatron-LM)
    """
    least = memory_per_gpu / memory_error_factor
    most = memory_per_gpu * memory_error_factor
    near = where((least <= hbm_capacity) & (hbm_capacity < most), 1.0, 0.0)
    operands = memory_per_gpu + hbm_capacity
    return where(operands == operands, near, np.nan)
