"""Memory of one GPU: weights, gradients, optimizer states, and the sum with activations."""

from typing import Any

import numpy as np

from ..alternatives import alternative
from ..ops import where


@alternative("gradient_storage_bytes", gradient_storage="none")
def no_gradient_storage_bytes() -> Any:
    """Bytes of the gradients that are kept for each parameter.

    0: what a checkpoint holds, 14 bytes a parameter with weights and optimizer states

    Parameters: none
    Returns: [B] bytes of one parameter's gradients
    Source: Fleet Foundations table 7
    """
    return 0.0


@alternative("gradient_storage_bytes", gradient_storage="bf16")
def bf16_gradient_storage_bytes() -> Any:
    """Bytes of the gradients that are kept for each parameter.

    2: 16 bytes a parameter with weights and optimizer states

    Parameters: none
    Returns: [B] bytes of one parameter's gradients
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1
    """
    return 2.0


@alternative("gradient_storage_bytes", gradient_storage="fp32")
def fp32_gradient_storage_bytes() -> Any:
    """Bytes of the gradients that are kept for each parameter.

    4: 18 bytes a parameter with weights and optimizer states

    Parameters: none
    Returns: [B] bytes of one parameter's gradients
    Source: Megatron-LM, docs of the distributed optimizer (BF16 weights, FP32 gradients)
    """
    return 4.0


@alternative("gradient_storage_bytes", gradient_storage="bf16_and_fp32")
def double_gradient_storage_bytes() -> Any:
    """Bytes of the gradients that are kept for each parameter.

    2, and 4 for an FP32 copy beside the optimizer states: 20 bytes a parameter in all

    Parameters: none
    Returns: [B] bytes of one parameter's gradients
    Source: Megatron-LM, docs of the distributed optimizer (FP16 weights and gradients: 20 bytes,
        4 + 16 / d where the optimizer is sharded)
    """
    return 2.0


@alternative("optimizer_state_bytes", gradient_storage=("none", "bf16", "fp32"))
def plain_optimizer_state_bytes(optimizer_bytes_per_parameter: Any) -> Any:
    """Bytes of one parameter that only the optimizer's update uses.

    master weight and moments

    Parameters: optimizer_bytes_per_parameter [B]
    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1 (12 bytes)
    """
    return 1.0 * optimizer_bytes_per_parameter


@alternative("optimizer_state_bytes", gradient_storage="bf16_and_fp32")
def copied_gradient_optimizer_state_bytes(optimizer_bytes_per_parameter: Any) -> Any:
    """Bytes of one parameter that only the optimizer's update uses.

    master weight and moments, and 4 for the gradient in FP32

    Parameters: optimizer_bytes_per_parameter [B]
    Returns: [B] bytes of one parameter
    Source: Megatron-LM, docs of the distributed optimizer (4 + 16 / d); Rajbhandari et al. 2021
        (ZeRO-Infinity), arXiv:2104.07857 (16 bytes)
    """
    return optimizer_bytes_per_parameter + 4


def state_bytes_per_parameter(
    bytes_per_element: Any, gradient_storage_bytes: Any, optimizer_state_bytes: Any
) -> Any:
    """Bytes of training state of one parameter, nothing shared out.

    weight + gradients + optimizer states

    Parameters: bytes_per_element [B], gradient_storage_bytes [B], optimizer_state_bytes [B]
    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1 (16 bytes)
    Example:
        >>> state_bytes_per_parameter(2, 2, 12)
        16
    """
    return bytes_per_element + gradient_storage_bytes + optimizer_state_bytes


def min_gpus_for_state(parameters: Any, state_bytes_per_parameter: Any, hbm_capacity: Any) -> Any:
    """GPUs whose memories together hold the training state and nothing else.

    N x bytes / capacity

    Parameters: parameters [1], state_bytes_per_parameter [B], hbm_capacity [B]
    Returns: [1] GPUs
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 1
    Example:
        >>> min_gpus_for_state(1e12, 16, 80e9)
        200.0
    """
    return parameters * state_bytes_per_parameter / hbm_capacity


@alternative("held_parameters", stage_split="alike")
def even_held_parameters(local_parameters: Any, parameter_copies: Any) -> Any:
    """Parameters of one GPU of a stage.

    those of the mean stage, of both in dualpipe

    Parameters: local_parameters [1], parameter_copies [1]
    Returns: [1] parameters
    Range: stages alike: right for one stage, a bound from below for several
    Source: Narayanan et al. 2021 (SC21), section 3.3
    """
    return parameter_copies * local_parameters


@alternative("held_parameters", stage_split="whole_layers")
def staged_held_parameters(
    stage_shared_parameters: Any,
    stage_routed_parameters: Any,
    tensor_parallel: Any,
    expert_tensor_parallel: Any,
    expert_parallel: Any,
) -> Any:
    """Parameters of one GPU of a stage; routed experts are also shared over their group.

    N_stage / t + N_routed / (t_e e)

    Parameters: stage_shared_parameters [1], stage_routed_parameters [1], tensor_parallel [1],
        expert_tensor_parallel [1], expert_parallel [1]
    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), section 3.3; Lepikhin et al. 2020 (GShard),
        arXiv:2006.16668, section 3.1
    """
    own = stage_routed_parameters / expert_parallel * (tensor_parallel / expert_tensor_parallel)
    return (stage_shared_parameters + own) / tensor_parallel


@alternative("sharded_parameters", stage_split="alike")
def even_sharded_parameters(
    parameters: Any,
    tensor_parallel: Any,
    pipeline_parallel: Any,
    gradient_ranks: Any,
    parameter_copies: Any,
) -> Any:
    """Parameters of one GPU of a stage where data ranks share them out.

    N / (t p d c); routed experts too: their smaller group holds fewer copies

    Parameters: parameters [1], tensor_parallel [1], pipeline_parallel [1], gradient_ranks [1],
        parameter_copies [1]
    Returns: [1] parameters
    Range: stages alike: right for one stage, a bound from below for several
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    stage = parameters / (tensor_parallel * pipeline_parallel * gradient_ranks)
    return parameter_copies * stage


@alternative("sharded_parameters", stage_split="whole_layers")
def staged_sharded_parameters(
    stage_shared_parameters: Any,
    stage_routed_parameters: Any,
    tensor_parallel: Any,
    gradient_ranks: Any,
) -> Any:
    """Parameters of one GPU of a stage where data ranks share them out.

    (N_stage + N_routed) / (t d c); routed experts too: their smaller group holds fewer copies

    Parameters: stage_shared_parameters [1], stage_routed_parameters [1], tensor_parallel [1],
        gradient_ranks [1]
    Returns: [1] parameters
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    stage = stage_shared_parameters + stage_routed_parameters
    return stage / (tensor_parallel * gradient_ranks)


@alternative("optimizer_parameters", zero_stage=0)
def replicated_optimizer_parameters(held_parameters: Any) -> Any:
    """Parameters whose optimizer states one GPU holds: all that it computes with.

    N_stage / t

    Parameters: held_parameters [1]
    Returns: [1] parameters
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1
    """
    return 1.0 * held_parameters


@alternative("optimizer_parameters", zero_stage=(1, 2, 3))
def sharded_optimizer_parameters(sharded_parameters: Any) -> Any:
    """Parameters whose optimizer states one GPU holds: its share.

    N_stage / (t d c)

    Parameters: sharded_parameters [1]
    Returns: [1] parameters
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.1
    """
    return 1.0 * sharded_parameters


@alternative("weights_memory", zero_stage=(0, 1, 2))
def replicated_weights_memory(held_parameters: Any, bytes_per_element: Any) -> Any:
    """Memory of one GPU's weights.

    N_stage / t x bytes

    Parameters: held_parameters [1], bytes_per_element [B]
    Returns: [B] weights
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    return held_parameters * bytes_per_element


@alternative("weights_memory", zero_stage=3)
def sharded_weights_memory(sharded_parameters: Any, bytes_per_element: Any) -> Any:
    """Memory of one GPU's weights, without those gathered for the layer at work.

    N_stage / (t d c) x bytes

    Parameters: sharded_parameters [1], bytes_per_element [B]
    Returns: [B] weights
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.3
    """
    return sharded_parameters * bytes_per_element


@alternative("gradients_memory", zero_stage=(0, 1))
def replicated_gradients_memory(held_parameters: Any, gradient_storage_bytes: Any) -> Any:
    """Memory of one GPU's gradients.

    N_stage / t x bytes

    Parameters: held_parameters [1], gradient_storage_bytes [B]
    Returns: [B] gradients
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5
    """
    return held_parameters * gradient_storage_bytes


@alternative("gradients_memory", zero_stage=(2, 3))
def sharded_gradients_memory(accumulated_parameters: Any, gradient_storage_bytes: Any) -> Any:
    """Memory of one GPU's gradients.

    those added up x bytes: N_stage / (t d c), unless gradients are reduced once a step

    Parameters: accumulated_parameters [1], gradient_storage_bytes [B]
    Returns: [B] gradients
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.2
    """
    return accumulated_parameters * gradient_storage_bytes


@alternative("accumulated_parameters", gradient_sync=("microbatch", "two_hop"))
def sharded_accumulated_parameters(sharded_parameters: Any) -> Any:
    """Parameters whose gradients one GPU adds up over micro-batches under ZeRO-2 and 3.

    its share

    Parameters: sharded_parameters [1]
    Returns: [1] parameters
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.2
    """
    return 1.0 * sharded_parameters


@alternative("accumulated_parameters", gradient_sync="step")
def held_accumulated_parameters(held_parameters: Any) -> Any:
    """Parameters whose gradients one GPU adds up over micro-batches under ZeRO-2 and 3.

    all that it computes with, until they are reduced

    Parameters: held_parameters [1]
    Returns: [1] parameters
    Source: PyTorch fully_shard (set_requires_gradient_sync); Zhao et al. 2023 (PyTorch FSDP),
        arXiv:2304.11277, section 3.3.4 (accumulation without communication)
    """
    return 1.0 * held_parameters


@alternative("kept_optimizer_bytes", offload="none")
def held_kept_optimizer_bytes(optimizer_state_bytes: Any) -> Any:
    """Bytes of one parameter that only the optimizer's update uses, as a GPU keeps them.

    all

    Parameters: optimizer_state_bytes [B]
    Returns: [B] bytes of one parameter
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.1
    """
    return 1.0 * optimizer_state_bytes


@alternative("kept_optimizer_bytes", offload=("cpu", "nvme"))
def offloaded_kept_optimizer_bytes() -> Any:
    """Bytes of one parameter that only the optimizer's update uses: they live elsewhere.

    0

    Parameters: none
    Returns: [B] bytes of one parameter
    Source: Ren et al. 2021 (ZeRO-Offload), arXiv:2101.06840, section 3.2
    """
    return 0.0


def optimizer_memory(optimizer_parameters: Any, kept_optimizer_bytes: Any) -> Any:
    """Memory of one GPU's optimizer states.

    N_o x bytes

    Parameters: optimizer_parameters [1], kept_optimizer_bytes [B]
    Returns: [B] optimizer states
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 5.1
    """
    return optimizer_parameters * kept_optimizer_bytes


@alternative("memory_per_gpu", multi_site=False)
def one_site_memory_per_gpu(
    weights_memory: Any,
    gradients_memory: Any,
    optimizer_memory: Any,
    activation_memory: Any,
    working_memory: Any,
    reserved_memory: Any,
) -> Any:
    """Memory that one GPU needs: of the fullest stage, or of the `pipeline_stage` given.

    weights + gradients + optimizer states + activations + layer at work + reserved

    Parameters: weights_memory [B], gradients_memory [B], optimizer_memory [B],
        activation_memory [B], working_memory [B], reserved_memory [B]
    Returns: [B] memory
    Range: what a framework allocates; the context and buffers of the network are
        `reserved_memory`. Published memories are within `memory_error_factor`
    Source: Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3
    """
    states = weights_memory + gradients_memory + optimizer_memory
    return states + activation_memory + working_memory + reserved_memory


def memory_per_gpu_low(memory_per_gpu: Any, memory_error_factor: Any) -> Any:
    """Lower end of the interval in which 90 of 100 measured memories are.

    memory / f

    Parameters: memory_per_gpu [B], memory_error_factor [1]
    Returns: [B] memory
    Source: by definition; factor: docs/accuracy.md (SimuMax's and Korthikanti's tables of memory)
    """
    return memory_per_gpu / memory_error_factor


def memory_per_gpu_high(memory_per_gpu: Any, memory_error_factor: Any) -> Any:
    """Upper end of the interval in which 90 of 100 measured memories are.

    memory x f

    Parameters: memory_per_gpu [B], memory_error_factor [1]
    Returns: [B] memory
    Source: by definition; factor: docs/accuracy.md (SimuMax's and Korthikanti's tables of memory)
    """
    return memory_per_gpu * memory_error_factor


def memory_margin(memory_per_gpu: Any, hbm_capacity: Any) -> Any:
    """Share of a GPU's memory that is left; below 0 where more is needed than there is.

    1 - memory needed / capacity

    Parameters: memory_per_gpu [B], hbm_capacity [B]
    Returns: [1] share
    Source: by definition
    """
    return 1 - memory_per_gpu / hbm_capacity


def near_memory_limit(memory_per_gpu: Any, memory_error_factor: Any, hbm_capacity: Any) -> Any:
    """Whether the model's own error decides whether a job fits into memory.

    memory needed / f <= capacity < f x memory needed, either side of the limit

    Parameters: memory_per_gpu [B], memory_error_factor [1], hbm_capacity [B]
    Returns: [flag] verdict
    Flags: 0 no, 1 yes
    Source: by definition; factor: docs/accuracy.md (SimuMax's and Korthikanti's tables of memory)
    """
    least = memory_per_gpu / memory_error_factor
    most = memory_per_gpu * memory_error_factor
    near = where((least <= hbm_capacity) & (hbm_capacity < most), 1.0, 0.0)
    known = memory_per_gpu + hbm_capacity
    return where(known == known, near, np.nan)
