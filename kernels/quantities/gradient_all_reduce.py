"""All-reduces of gradients: those of activations, in the group and on the links of data ranks."""

from ..alternatives import renaming
from . import tensor_all_reduce as activations

_of_gradients = renaming(
    __name__,
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
)

ring_data_parallel_all_reduce_time = _of_gradients(activations.ring_tensor_parallel_all_reduce_time)
tree_data_parallel_all_reduce_time = _of_gradients(activations.tree_tensor_parallel_all_reduce_time)
double_binary_tree_data_parallel_all_reduce_time = _of_gradients(
    activations.double_binary_tree_tensor_parallel_all_reduce_time
)
hierarchical_data_parallel_all_reduce_time = _of_gradients(
    activations.hierarchical_tensor_parallel_all_reduce_time
)
recursive_halving_doubling_data_parallel_all_reduce_time = _of_gradients(
    activations.recursive_halving_doubling_tensor_parallel_all_reduce_time
)
fitted_data_parallel_all_reduce_time = _of_gradients(
    activations.fitted_tensor_parallel_all_reduce_time
)
in_network_data_parallel_all_reduce_time = _of_gradients(
    activations.in_network_tensor_parallel_all_reduce_time
)
ring_data_parallel_in_node_time = _of_gradients(activations.ring_tensor_parallel_in_node_time)
nvls_data_parallel_in_node_time = _of_gradients(activations.nvls_tensor_parallel_in_node_time)
ring_data_parallel_between_nodes_time = _of_gradients(
    activations.ring_tensor_parallel_between_nodes_time
)
switch_data_parallel_between_nodes_time = _of_gradients(
    activations.switch_tensor_parallel_between_nodes_time
)
auto_data_parallel_all_reduce_time = _of_gradients(activations.auto_tensor_parallel_all_reduce_time)
