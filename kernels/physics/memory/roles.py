"""Roles of memory: the parts of a GPU's memory, and the inputs that make each smaller."""

# memory of a GPU, its activations, of which logits; activations of a layer that stay, and are
# moved; tokens of a micro-batch; a tensor that latent attention alone has
ACCOUNT = (
    *("memory_per_gpu", "activation_memory", "logits_memory"),
    *("resident_activations_per_layer", "offloaded_activations_per_layer"),
    *("microbatch_tokens", "latents_per_token"),
)
# Components other than activations
PARTS: dict[str, tuple[str, str]] = {
    "weights_memory": ("weights", "zero_stage = 3, tensor_parallel, pipeline_parallel"),
    "gradients_memory": ("gradients", "zero_stage = 2, gradient_storage = bf16"),
    "optimizer_memory": ("optimizer states", "zero_stage = 1, moment_bytes = 2, offload = cpu"),
    "logits_memory": ("logits", "tensor_parallel, micro_batch_size, logit_bytes"),
    "transient_memory": ("the layer at work", "micro_batch_size, tensor_parallel"),
}
RESERVED = ("context, buffers, fragments", "reserved_memory")
# Tensors of a layer that modules free or move, per token
TENSORS: dict[str, tuple[str, str]] = {
    "norm_inputs_per_token": ("inputs of norms", "recompute = full, sequence_parallel"),
    "mixer_norm_output_per_token": ("outputs of norms before attention", "recompute = layernorm"),
    "attention_inputs_per_token": (
        "queries, keys, values",
        "recompute = mla_up_proj, offload_core_attn",
    ),
    "attention_output_per_token": ("attention's output", "offload_attn_proj"),
    "latents_per_token": ("latents", "offload_qkv_linear"),
    "ffn_norm_output_per_token": (
        "outputs of norms before feed-forward",
        "recompute = layernorm (experts) or mlp",
    ),
    "dense_ffn_activations_per_token": ("inside dense feed-forward", "recompute = mlp"),
    "routed_ffn_activations_per_token": (
        "routed experts",
        "recompute = moe_act or moe, offload_expert_fc1, offload_moe_act",
    ),
    "shared_ffn_activations_per_token": ("shared experts", "recompute = shared_experts"),
    "score_activations_per_token": ("attention's scores", "attention_kernel = flash"),
}
# Without latent attention norms are fused to matrices, and nothing is projected up
WITHOUT_LATENTS = {
    "mixer_norm_output_per_token": "sequence_parallel",
    "attention_inputs_per_token": "offload_core_attn, tensor_parallel",
}
