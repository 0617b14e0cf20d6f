"""All-reduces of gradients: the formulas of activations, for data-parallel groups and links."""

from ...alternatives import family
from ..tensor import tensor_all_reduce as activations

family(
    {
        "tensor_parallel_all_reduce_time": "data_parallel_all_reduce_time",
        "tensor_parallel_in_node_time": "data_parallel_in_node_time",
        "tensor_parallel_between_nodes_time": "data_parallel_between_nodes_time",
        "tensor-parallel": "data-parallel",
        "activation_message": "bucket_message",
        "tensor_parallel": "gradient_ranks",
        "tensor_parallel_ranks_per_node": "data_parallel_ranks_per_node",
        "tensor_parallel_latency": "data_parallel_latency",
        "tensor_parallel_bandwidth": "data_parallel_bandwidth",
        "intra_node_bandwidth": "gradient_node_bandwidth",
        "tensor_rail_bandwidth": "gradient_rail_bandwidth",
    },
    activations.ring_tensor_parallel_all_reduce_time,
    activations.tree_tensor_parallel_all_reduce_time,
    activations.double_binary_tree_tensor_parallel_all_reduce_time,
    activations.hierarchical_tensor_parallel_all_reduce_time,
    activations.recursive_halving_doubling_tensor_parallel_all_reduce_time,
    activations.fitted_tensor_parallel_all_reduce_time,
    activations.in_network_tensor_parallel_all_reduce_time,
    activations.ring_tensor_parallel_in_node_time,
    activations.nvls_tensor_parallel_in_node_time,
    activations.ring_tensor_parallel_between_nodes_time,
    activations.switch_tensor_parallel_between_nodes_time,
    activations.auto_tensor_parallel_all_reduce_time,
)
