# ruff: noqa: E501  (a table)
"""Models read from config.json: counts as published, shapes as the catalog's, hostile files."""

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

import fleetcube
from fleetcube import InputError
from fleetcube.catalog import CatalogError, record
from fleetcube.catalog.user_records import LARGEST_FILE

from ..draws import generator, scaled

# What the files state: model_type, layers, width, heads, heads of keys (0: not stated), feed-forward
# width (0: not stated), vocabulary; other fields by name. Then the parameters, and where the fields
# and they were found: words of FIELDS and COUNTS, and after a colon what the number is of. All 80
# rows have both: 52 fields of config.json files, 23 of tables made from such files, 5 of other code;
# 75 exact numbers, 5 rounded ones.
Row = tuple[str, int, int, int, int, int, int, dict[str, Any], float, str]
TIED = {"tie_word_embeddings": True}
FIELDS = {
    "kvfit": "debaditc/kvfit, src/kvfit/data/models.json: config.json files, trimmed",
    "aic": "ai-dynamo/aiconfigurator, model_configs: config.json files",
    "veomni": "ByteDance-Seed/VeOmni, configs/model_configs: config.json files",
    "ktransformers": "kvcache-ai/ktransformers, configs/model_config/config.json",
    "hub": "pages of config.json on huggingface.co, of the model or of one derived from it",
    "tl": "TransformerLens, docs/source/_static/model_properties_table.jsonl, made from config.json",
    "litgpt": "Lightning-AI/litgpt, litgpt/config.py",
    "maxtext": "AI-Hypercomputer/maxtext, checkpoint_conversion/utils/hf_model_configs.py",
    "lla": "cli99/llm-analysis, model_configs",
    "code": "configurations in tests and configuration classes of several public repositories",
}
COUNTS = {
    "index": "exact: what huggingface.co counts in the files of weights, as kvfit and llmfit keep it",
    "bytes": "exact: total_size of the index, or bytes of weights, at two a parameter",
    "keras": "exact: presets of KerasHub",
    "gguf": "exact: n_params of llama.cpp",
    "printed": "exact: printed or kept by programs that load the model",
    "board": "of five digits: requests to leaderboards on huggingface.co",
    "card": "as the model's card says it, three digits at most but for GPT-NeoX",
    "paper": "Biderman et al. 2023, table 1, without embeddings; they are added",
}


def _moe(experts: int, of_each: int, width: int = 0, **others: Any) -> dict[str, Any]:
    return {
        "num_experts": experts,
        "num_experts_per_tok": of_each,
        **({"moe_intermediate_size": width} if width else {}),
        **others,
    }


def _deepseek(experts: int, per: int, width: int, shared: int, dense: int, q: int | None) -> Any:
    return {
        **dict(n_routed_experts=experts, num_experts_per_tok=per, moe_intermediate_size=width),
        **dict(n_shared_experts=shared, first_k_dense_replace=dense, q_lora_rank=q),
        **dict(kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128),
    }


def _local(experts: int, of_each: int, **others: Any) -> dict[str, Any]:
    return {"num_local_experts": experts, "num_experts_per_tok": of_each, **others}


H8B = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
SUPER = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
GRANITE = ["attention" if k in (5, 15, 25, 35) else "mamba" for k in range(40)]
GATED_DELTA = {
    **dict(head_dim=256, full_attention_interval=4, linear_num_value_heads=32),
    **dict(linear_num_key_heads=16, linear_key_head_dim=128, linear_value_head_dim=128),
    **dict(linear_conv_kernel_dim=4, shared_expert_intermediate_size=512),
}
MODELS: dict[str, Row] = {
    # Touvron et al. 2023, arXiv:2302.13971 and 2307.09288; Llama Team 2024, arXiv:2407.21783
    "llama-7b": ("llama", 32, 4096, 32, 0, 11008, 32000, {}, 6_738_415_616, "tl, printed"),
    "llama-65b": ("llama", 80, 8192, 64, 0, 22016, 32000, {}, 65_285_660_672, "tl, printed"),
    "llama-2-70b": ("llama", 80, 8192, 64, 8, 28672, 32000, {}, 68_976_648_192, "litgpt, index: less 80 x 64 of inv_freq"),
    "llama-3-8b": ("llama", 32, 4096, 32, 8, 14336, 128256, {}, 8_030_261_248, "kvfit, index"),
    "llama-3-70b": ("llama", 80, 8192, 64, 8, 28672, 128256, {}, 70_553_706_496, "kvfit, index"),
    "llama-3-405b": ("llama", 126, 16384, 128, 8, 53248, 128256, {}, 405_853_388_800, "aic, index"),
    "llama-3.2-1b": ("llama", 16, 2048, 32, 8, 8192, 128256, {**TIED, "head_dim": 64}, 1_235_814_400, "litgpt, index"),
    "llama-3.2-3b": ("llama", 28, 3072, 24, 8, 8192, 128256, {**TIED, "head_dim": 128}, 3_212_749_824, "kvfit, index"),
    "llama-4-maverick": (
        *("llama4_text", 48, 5120, 40, 8, 8192, 202048),
        {"num_local_experts": 128, "num_experts_per_tok": 1, "intermediate_size_mlp": 16384,
         "interleave_moe_layer_step": 2, "head_dim": 128, "attention_chunk_size": 8192},
        401_583_781_376 - 871_932_416, "aic, index: less the encoder of images",
    ),
    "llama-4-scout": (
        *("llama4_text", 48, 5120, 40, 8, 8192, 202048),
        {"num_local_experts": 16, "num_experts_per_tok": 1, "intermediate_size_mlp": 16384,
         "interleave_moe_layer_step": 1, "head_dim": 128, "attention_chunk_size": 8192},
        108_641_793_536 - 871_932_416, "kvfit, index: less the encoder of images",
    ),
    # Jiang et al. 2023 and 2024, arXiv:2310.06825 and 2401.04088
    "mistral-7b": ("mistral", 32, 4096, 32, 8, 14336, 32000, {"sliding_window": 4096, "max_position_embeddings": 32768}, 7_241_732_096, "kvfit, index"),
    "mistral-nemo": ("mistral", 40, 5120, 32, 8, 14336, 131072, {"head_dim": 128}, 12_247_782_400, "kvfit, index"),
    "mistral-small-24b": ("mistral", 40, 5120, 32, 8, 32768, 131072, {"head_dim": 128}, 23_572_403_200, "kvfit, keras"),
    "mistral-large-2": ("mistral", 88, 12288, 96, 8, 28672, 32768, {}, 122_610_069_504, "litgpt, index"),
    "mixtral-8x7b": ("mixtral", 32, 4096, 32, 8, 14336, 32000, _local(8, 2), 46_702_792_704, "aic, index"),
    "mixtral-8x22b": ("mixtral", 56, 6144, 48, 8, 16384, 32768, _local(8, 2), 140_630_071_296, "maxtext, index"),
    # Qwen Team 2024 and 2025, arXiv:2412.15115 and 2505.09388
    "qwen2.5-0.5b": ("qwen2", 24, 896, 14, 2, 4864, 151936, TIED, 494_032_768, "veomni, index"),
    "qwen-2-5-7b": ("qwen2", 28, 3584, 28, 4, 18944, 152064, {}, 7_615_616_512, "kvfit, index"),
    "qwen-2-5-72b": ("qwen2", 80, 8192, 64, 8, 29568, 152064, {}, 72_706_203_648, "kvfit, index"),
    "qwen1.5-moe": (
        *("qwen2_moe", 24, 2048, 16, 16, 5632, 151936),
        _moe(60, 4, 1408, shared_expert_intermediate_size=5632, decoder_sparse_step=1),
        14_315_784_192, "hub, index",
    ),
    "qwen2-57b-a14b": (
        *("qwen2_moe", 28, 3584, 28, 4, 18944, 151936),
        _moe(64, 8, 2560, shared_expert_intermediate_size=20480),
        57.409e9, "hub, board",
    ),
    "qwen-3-4b": ("qwen3", 36, 2560, 32, 8, 9728, 151936, {**TIED, "head_dim": 128}, 4_022_468_096, "litgpt, index"),
    "qwen-3-8b": ("qwen3", 36, 4096, 32, 8, 12288, 151936, {"head_dim": 128}, 8_190_735_360, "kvfit, index"),
    "qwen-3-32b": ("qwen3", 64, 5120, 64, 8, 25600, 151936, {"head_dim": 128}, 32_762_123_264, "kvfit, index"),
    "qwen-3-30b-a3b": ("qwen3_moe", 48, 2048, 32, 4, 6144, 151936, _moe(128, 8, 768, head_dim=128), 30_532_122_624, "kvfit, index"),
    "qwen-3-235b-a22b": ("qwen3_moe", 94, 4096, 64, 4, 12288, 151936, _moe(128, 8, 1536, head_dim=128), 235_093_634_560, "kvfit, index"),
    "qwen3-coder-480b": ("qwen3_moe", 62, 6144, 96, 8, 8192, 151936, _moe(160, 8, 2560, head_dim=128), 480_154_875_392, "aic, index"),
    "qwen-3-next-80b-a3b": ("qwen3_next", 48, 2048, 16, 2, 5120, 151936, _moe(512, 10, 512, **GATED_DELTA), 79_674_391_296, "kvfit, index: of Coder-Next, the same without prediction"),
    # DeepSeek-AI 2024, arXiv:2405.04434 and 2412.19437
    "deepseek-v2": ("deepseek_v2", 60, 5120, 128, 128, 12288, 102400, _deepseek(160, 6, 1536, 2, 1, 1536), 235_741_434_880, "veomni, index"),
    "deepseek-v2-lite": ("deepseek_v2", 27, 2048, 16, 16, 10944, 102400, _deepseek(64, 6, 1408, 2, 1, None), 15_706_484_224, "ktransformers, index"),
    "deepseek-v3": ("deepseek_v3", 61, 7168, 128, 128, 18432, 129280, _deepseek(256, 8, 2048, 1, 3, 1536), 671_026_419_200, "kvfit, index: of MAI-DS-R1, the same without prediction"),
    "kimi-k2": ("kimi_k2", 61, 7168, 64, 64, 18432, 163840, _deepseek(384, 8, 2048, 1, 1, 1536), 1_026_408_235_864, "kvfit, index"),
    "moonlight-16b-a3b": ("deepseek_v3", 27, 2048, 16, 16, 11264, 163840, _deepseek(64, 6, 1408, 2, 1, None), 15_960_111_936, "veomni, index"),
    # Gemma Team, arXiv:2403.08295, 2408.00118 and 2503.19786
    "gemma-2b": ("gemma", 18, 2048, 8, 1, 16384, 256000, {"head_dim": 256}, 2_506_172_416, "tl, index"),
    "gemma-7b": ("gemma", 28, 3072, 16, 16, 24576, 256000, {"head_dim": 256}, 8_537_680_896, "tl, keras"),
    "gemma-2-2b": ("gemma2", 26, 2304, 8, 4, 9216, 256000, {"head_dim": 256, "sliding_window": 4096}, 2_614_341_888, "tl, index"),
    "gemma-2-9b": ("gemma2", 42, 3584, 16, 8, 14336, 256000, {"head_dim": 256, "sliding_window": 4096}, 9_241_705_984, "kvfit, index"),
    "gemma-2-27b": ("gemma2", 46, 4608, 32, 16, 36864, 256000, {"head_dim": 128, "sliding_window": 4096}, 27_227_128_320, "kvfit, index"),
    "gemma-3-1b": ("gemma3_text", 26, 1152, 4, 1, 6912, 262144, {"head_dim": 256, "sliding_window": 512}, 999_885_952, "tl, index"),
    "gemma-3-27b": ("gemma3_text", 62, 5376, 32, 16, 21504, 262208, {"head_dim": 128, "sliding_window": 1024}, 27_009_346_304, "kvfit, gguf"),
    # OpenAI 2025, arXiv:2508.10925; then models without a paper, or of several
    "gpt-oss-120b": ("gpt_oss", 36, 2880, 64, 8, 2880, 201088, _local(128, 4, head_dim=64, sliding_window=128), 116_829_156_672, "kvfit, index"),
    "gpt-oss-20b": ("gpt_oss", 24, 2880, 64, 8, 2880, 201088, _local(32, 4, head_dim=64, sliding_window=128), 20_914_757_184, "kvfit, index"),
    "glm-4-9b-0414": ("glm4", 40, 4096, 32, 2, 13696, 151552, {"head_dim": 128}, 9_400_279_040, "hub, gguf: of glm-4-9b, its kin, and GLM-4.1V, built on it"),
    "glm-4-5-air": ("glm4_moe", 46, 4096, 96, 8, 10944, 151552, {
        "head_dim": 128, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8,
        "moe_intermediate_size": 1408, "first_k_dense_replace": 1}, 106_852_251_264, "kvfit, index: of INTELLECT-3, the same without prediction"),
    "phi-2": ("phi", 32, 2560, 32, 32, 10240, 51200, {}, 2_779_683_840, "tl, index"),
    "phi-3-mini": ("phi3", 32, 3072, 32, 32, 8192, 32064, {"sliding_window": 2047}, 3_821_079_552, "kvfit, index"),
    "phi-3-medium": ("phi3", 40, 5120, 40, 10, 17920, 32064, {"sliding_window": 2047}, 13_960_238_080, "hub, printed"),
    "phi-4": ("phi3", 40, 5120, 40, 10, 17920, 100352, {}, 14_659_507_200, "kvfit, index"),
    "phi-4-mini": ("phi3", 32, 3072, 24, 8, 8192, 200064, {**TIED, "sliding_window": 262144, "max_position_embeddings": 131072}, 3_836_021_760, "kvfit, index"),
    "phi-3.5-moe": ("phimoe", 32, 4096, 32, 8, 6400, 32064, _local(16, 2), 41.873e9, "code, board"),
    "olmo-2-7b": ("olmo2", 32, 4096, 32, 32, 11008, 100352, {}, 7_298_617_344, "litgpt, index"),
    "olmo-2-32b": ("olmo2", 64, 5120, 40, 8, 27648, 100352, {}, 32_234_279_936, "hub, index"),
    "olmo-3-7b": ("olmo3", 32, 4096, 32, 32, 11008, 100278, {"sliding_window": 4096, "max_position_embeddings": 65536}, 7_298_011_136, "hub, index"),
    "olmoe-1b-7b": ("olmoe", 16, 2048, 16, 16, 1024, 50304, _moe(64, 8), 6_919_161_856, "tl, index"),
    "command-r": ("cohere", 40, 8192, 64, 64, 22528, 256000, {}, 35e9, "hub, card"),
    "command-r-plus": ("cohere", 64, 12288, 96, 8, 33792, 256000, {}, 104e9, "hub, card"),
    "command-r7b": ("cohere2", 32, 4096, 32, 8, 14336, 256000, {"sliding_window": 4096}, 8_028_033_024, "hub, printed: of aya-expanse-8b, the same"),
    "granite-3.0-8b": ("granite", 40, 4096, 32, 8, 12800, 49155, TIED, 8_170_864_640 - 4 * 4096, "code, index: of 3.3, of 4 tokens more; no page shows its heads"),
    "smollm3-3b": ("smollm3", 36, 2048, 16, 4, 11008, 128256, {}, 3_075_098_624, "hub, index: no page shows its heads"),
    "dbrx": ("dbrx", 0, 0, 0, 0, 0, 100352, {
        "n_layers": 40, "d_model": 6144, "n_heads": 48, "attn_config": {"kv_n_heads": 8},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}}, 132e9, "code, card"),
    # Radford et al. 2019; Black et al. 2022, arXiv:2204.06745; Biderman et al. 2023,
    # arXiv:2304.01373; BigScience 2022, arXiv:2211.05100; Zhang et al. 2022, arXiv:2205.01068
    "gpt-2-124m": ("gpt2", 0, 0, 0, 0, 0, 50257, {"n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024}, 124_439_808, "tl, printed"),
    "gpt-2": ("gpt2", 0, 0, 0, 0, 0, 50257, {"n_layer": 48, "n_embd": 1600, "n_head": 25, "n_positions": 1024}, 1_557_611_200, "tl, keras"),
    "gpt-neox-20b": ("gpt_neox", 44, 6144, 64, 0, 24576, 50432, {"max_position_embeddings": 2048}, 20_554_567_680, "tl, card"),
    "pythia-12b": ("gpt_neox", 36, 5120, 40, 0, 20480, 50688, {"max_position_embeddings": 2048}, 11_327_027_200 + 2 * 50688 * 5120, "litgpt, paper"),
    "gpt-j-6b": ("gptj", 0, 0, 0, 0, 0, 50400, {"n_layer": 28, "n_embd": 4096, "n_head": 16, "n_positions": 2048}, 6_050_882_784, "lla, printed"),
    "bloom-7b1": ("bloom", 0, 0, 0, 0, 0, 250880, {"n_layer": 30, "hidden_size": 4096, "n_head": 32}, 7_069_016_064, "hub, printed"),
    "bloom-176b": ("bloom", 0, 0, 0, 0, 0, 250880, {"n_layer": 70, "n_embed": 14336, "num_attention_heads": 112, "seq_length": 2048}, 176_247_271_424, "hub, index"),
    "opt-6.7b": ("opt", 32, 4096, 32, 0, 0, 50272, {"ffn_dim": 16384, "max_position_embeddings": 2048}, 13_316_947_968 / 2, "tl, bytes"),
    "falcon-7b": ("falcon", 32, 4544, 71, 0, 0, 65024, {"num_kv_heads": 71, "multi_query": True}, 7_217_189_760 - 65024 * 4544, "litgpt, index: less the second of a tied table"),
    "falcon-40b": ("falcon", 60, 8192, 128, 0, 0, 65024, {"num_kv_heads": 8, "multi_query": True, "new_decoder_architecture": True}, 83_671_941_120 / 2 - 65024 * 8192, "litgpt, bytes: less the second of a tied table"),
    "falcon-180b": ("falcon", 80, 14848, 232, 0, 0, 65024, {"num_kv_heads": 8, "multi_query": True, "new_decoder_architecture": True}, 179_522_565_120 - 65024 * 14848, "litgpt, index: less the second of a tied table"),
    "starcoder2-7b": ("starcoder2", 32, 4608, 36, 4, 18432, 49152, {"sliding_window": 4096}, 7_173_923_840, "hub, index"),
    # NVIDIA 2025, arXiv:2504.03624; Dao & Gu 2024; MiniMax 2025, arXiv:2501.08313; Kimi Team 2025
    "nemotron-h-8b": ("nemotron_h", 52, 4096, 32, 8, 21504, 131072, {
        "hybrid_override_pattern": H8B, "head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 64,
        "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "chunk_size": 128}, 8_100_852_736, "code, index"),
    "nemotron-3-nano": ("nemotron_h", 52, 2688, 32, 2, 1856, 131072, {
        "hybrid_override_pattern": NANO, "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64,
        "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "chunk_size": 128,
        "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 6,
        "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712}, 31_577_937_344, "aic, index"),
    # less a layer of prediction: what joins its inputs, attention, experts, the shared one, the latent
    # width in and out, the router and five norms
    "nemotron-3-super": ("nemotron_h", 88, 4096, 32, 2, 2688, 131072, {
        "hybrid_override_pattern": SUPER, "head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 64,
        "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4, "chunk_size": 128, "moe_latent_size": 1024,
        "n_routed_experts": 512, "n_shared_experts": 1, "num_experts_per_tok": 22,
        "moe_intermediate_size": 2688, "moe_shared_expert_intermediate_size": 5376},
        123_611_012_096 - 4096 * (2 * 4096 + 2 * 4096 + 2 * 256 + 2 * 5376 + 2 * 1024 + 512 + 5) - 512 * 2 * 1024 * 2688,
        "aic, index: less prediction"),
    "codestral-mamba-7b": ("mamba2", 64, 4096, 0, 0, 0, 32768, {
        "num_heads": 128, "head_dim": 64, "state_size": 128, "n_groups": 8, "conv_kernel": 4, "expand": 2,
        "chunk_size": 256, "time_step_limit": [0.0, math.inf]}, 14_570_807_296 / 2, "hub, bytes"),
    "granite-4.0-h-small": ("granitemoehybrid", 40, 4096, 32, 8, 768, 100352, {
        **TIED, "layer_types": GRANITE, "num_local_experts": 72, "num_experts_per_tok": 10,
        "shared_intermediate_size": 1536, "mamba_n_heads": 128, "mamba_d_head": 64,
        "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 2}, 32_207_337_984, "kvfit, index"),
    "minimax-01": ("minimax_text_01", 80, 6144, 64, 8, 9216, 200064, {
        "head_dim": 128, "num_local_experts": 32, "num_experts_per_tok": 2, "shared_intermediate_size": 0,
        "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10}, 456_089_655_296, "hub, index: of M1, built on it"),
    "minimax-m2": ("minimax_m2", 62, 3072, 48, 8, 1536, 200064, _local(256, 8, head_dim=128), 228_689_764_864, "aic, index"),
    "kimi-linear-48b-a3b": ("kimi_linear", 27, 2304, 32, 32, 9216, 163840, {
        "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1, "moe_intermediate_size": 1024,
        "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "head_dim": 72,
        "linear_attn_config": {"full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128,
         "kda_layers": [k for k in range(1, 27) if k % 4], "num_heads": 32, "short_conv_kernel_size": 4}}, 49_122_681_728, "code, index"),
}  # fmt: skip


# Records whose stated count is not that of their shape within 0.5 %: rounded by the paper, a name,
# or a count of encoders or without embeddings
ROUNDED = (
    *("llama-2-70b", "mistral-7b", "kimi-k2", "gpt-2", "falcon-40b", "falcon-180b"),
    *("llama-4-scout", "glm-4-5-air", "minimax-m2"),
)


def config_of(name: str) -> dict[str, Any]:
    """A configuration with the fields that the table states."""
    of, layers, width, heads, kv, ffn, vocabulary, others, _, _ = MODELS[name]
    stated = {
        **dict(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads),
        **dict(num_key_value_heads=kv, intermediate_size=ffn, vocab_size=vocabulary),
    }
    return {"model_type": of, **{key: value for key, value in stated.items() if value}, **others}


def parameters(config: Any) -> float:
    return float(fleetcube.evaluate("parameters", model=config))


def test_counts_agree_with_those_published() -> None:
    wrong = {}
    for name, (*_, published, source) in MODELS.items():
        found = parameters(config_of(name))
        fields, _, count = source.partition(":")[0].partition(", ")
        assert fields in FIELDS, name
        assert count in COUNTS, name
        if abs(found / published - 1) > 0.005:
            wrong[name] = found
    assert not wrong


def test_shapes_are_those_of_the_catalog() -> None:
    shape = (
        *("layers", "hidden_size", "attention_heads", "kv_heads", "head_size", "ffn_matrices"),
        *("attention_parameters_per_layer", "kv_elements_per_layer", "query_latent_size"),
        *("expert_ffn_hidden_size", "experts", "experts_per_token", "shared_experts"),
        *("dense_layers", "embedding_tables", "windowed_layers", "attention_window"),
        *("linear_layers", "attention_layers", "ffn_layers", "linear_heads", "linear_head_size"),
        *("linear_key_heads", "linear_state_size", "linear_chunk_size", "value_head_size"),
    )
    known = fleetcube.catalog.kind("model")
    both = [name for name in MODELS if name in known]
    assert len(both) >= 25
    wrong = []
    for name in both:
        config, own = config_of(name), dict(known[name].values)
        moe = bool(own.get("mixture_of_experts"))
        for part in shape:
            values = []
            for model in (name, config):
                try:
                    values.append(float(fleetcube.evaluate(part, model=model)))
                except InputError as error:  # not of this model: the same on both sides
                    values.append(str(error).partition(" ")[0])
            if values[0] != values[1] and (moe or "expert" not in part):
                wrong.append((name, part, *values))
        off = abs(parameters(config) / own["parameters"] - 1)
        if (off > 0.005) != (name in ROUNDED):
            wrong.append((name, "parameters", own["parameters"], parameters(config)))
    assert not wrong


def test_a_model_is_a_path_a_folder_a_mapping_or_text(tmp_path: Path) -> None:
    config = config_of("qwen-3-8b")
    folder = tmp_path / "qwen"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    forms = [str(folder), str(folder / "config.json"), folder, config, json.dumps(config)]
    assert {parameters(form) for form in forms} == {parameters(config)}
    (tmp_path / "spec.toml").write_text(
        'outputs = ["parameters"]\n[scenario]\nmodel = "qwen/config.json"\n', encoding="utf-8"
    )
    sweep = fleetcube.Sweep.from_file(tmp_path / "spec.toml")  # from the spec's folder
    assert float(sweep.evaluate()["parameters"]) == parameters(config)
    axis = fleetcube.evaluate("parameters", model=[str(folder), "llama-3-8b", "./qwen"][:2])
    assert float(axis[0]) == parameters(config)
    cited = fleetcube.citations(fleetcube.evaluate(["parameters"], model=str(folder)))
    assert "Model file qwen" in cited
    copy = pickle.loads(pickle.dumps(sweep))
    (folder / "config.json").unlink()
    assert float(copy.evaluate()["parameters"]) == parameters(config)  # carries what it read


def test_what_is_assumed_and_what_is_not_understood_is_named() -> None:
    plain = config_of("llama-3-8b")

    def note(**others: Any) -> str:
        return record("model", json.dumps(plain | others)).note

    assert "not understood, not counted: n_loops, odd.width" in note(n_loops=2, odd={"width": 3})
    assert "n_loops" not in note(n_loops=0)  # off
    assert "'odd' is not in the table: read as Llama's" in note(model_type="odd")
    assert "at most 131,072): 4096" in note(max_position_embeddings=131072)
    assert "prediction_layers" in note(num_nextn_predict_layers=1)
    result = fleetcube.evaluate(["parameters"], model=plain | {"n_loops": 2})
    assert "n_loops" in result.attrs["fleetcube_remarks"]


def test_text_parts_of_models_of_several_modes_are_read() -> None:
    inner = config_of("gemma-3-27b") | {"num_key_value_heads": 16}
    whole = {"model_type": "gemma3", "text_config": inner, "vision_config": {"hidden_size": 1152}}
    assert parameters(whole) == parameters(inner)
    assert "its encoder is not counted" in record("model", json.dumps(whole)).note


def test_latent_experts_and_sparse_attention_are_read() -> None:
    # ai-dynamo/aiconfigurator, Kimi-K3's config.json; 2.8e12 by its card, in two digits
    full = [*range(4, 93, 4), 93]
    attention = {"full_attn_layers": full, "kda_layers": [*{*range(1, 94)} - {*full}]}
    others = {"q_lora_rank": 1536, "num_experts_per_token": 16, "num_shared_experts": 2}
    kimi = (
        config_of("kimi-linear-48b-a3b")
        | others
        | {
            **dict(
                num_hidden_layers=93, hidden_size=7168, intermediate_size=33792, num_experts=896
            ),
            **dict(
                num_attention_heads=96, moe_intermediate_size=3072, routed_expert_hidden_size=3584
            ),
            "linear_attn_config": {"head_dim": 128, "num_heads": 96, **attention},
        }
    )
    assert parameters(kimi) == pytest.approx(2.8e12, rel=0.02)
    glm = config_of("glm-4-5-air")
    kinds = {"layer_types": ["deepseek_sparse_attention"] * 46}
    assert parameters(glm | kinds) == parameters(glm)


def test_windows_and_contexts() -> None:
    def read(name: str, **others: Any) -> Any:
        return record("model", json.dumps(config_of(name) | others)).values

    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    rows: list[tuple[Any, Any]] = [
        (read("gemma-2-27b"), 23),  # Gemma 2, section 2: every other layer
        (read("gemma-3-27b"), 52),  # Gemma 3, section 2: five of six
        (read("gpt-oss-20b"), 12),
        (read("command-r7b"), 24),
        (read("olmo-3-7b"), 24),  # three of four
        (read("phi-4-mini"), None),  # wider than the context
        (read("gemma-3-1b", layer_types=kinds * 6 + kinds[:2]), 20),
        (read("mistral-7b"), 32),
        (read("qwen-2-5-7b", sliding_window=4096), None),
        (
            read("qwen-2-5-7b", sliding_window=4096, use_sliding_window=True, max_window_layers=21),
            7,
        ),
        (read("phi-3-mini", sliding_window=262144, max_position_embeddings=131072), None),
    ]
    assert [values.get("windowed_layers") for values, _ in rows] == [number for _, number in rows]
    original = {"rope_scaling": {"original_max_position_embeddings": 8192}}
    assert read("llama-3-8b", max_position_embeddings=131072, **original)["sequence_length"] == 8192


BAD: list[tuple[str, str]] = [
    ("", "is not JSON"),
    ("[1]", "is not a JSON object"),
    ('{"a": NaN}', "it holds NaN"),
    ('{"a": -Infinity}', "it holds -Infinity"),
    ("[" * 100_000, "nested"),
    ('{"a": ' * 20 + "1" + "}" * 20, "nested more than 16"),
    ("{}", "has no num_hidden_layers"),
    ('{"model_type": "jamba"}', "layers of Mamba-1"),
    ('{"model_type": "t5", "is_encoder_decoder": true}', "an encoder and a decoder"),
]
WRONG = [
    ("num_hidden_layers", -3, "is not a whole number"),
    ("num_hidden_layers", 10**8, "to 10,000"),
    ("hidden_size", "4096", "is not a whole number"),
    ("hidden_size", 1.5, "is not a whole number"),
    ("hidden_size", math.inf, "is not a whole number"),
    ("num_attention_heads", True, "is not a whole number"),
    ("tie_word_embeddings", 1, "is not true or false"),
    ("layer_types", ["full_attention"], "1 kinds for 32 layers"),
    ("layer_types", ["odd"] * 32, "which no input counts"),
    ("layer_types", ["mamba"] * 32, "states that no input counts"),
    ("layer_types", 3, "is not a list of texts"),
    ("kv_lora_rank", 512, "and not qk_nope_head_dim"),
    ("num_experts", 8, "and no num_experts_per_tok"),
    ("hybrid_override_pattern", "M?", "is not of"),
]


def test_bad_files_are_refused_in_one_line(tmp_path: Path) -> None:
    plain = config_of("llama-3-8b")
    rows = [*BAD, *((json.dumps(plain | {key: value}), rule) for key, value, rule in WRONG)]
    path = tmp_path / "config.json"
    for text, rule in rows:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(CatalogError, match=rule) as error:
            record("model", str(path))
        assert "\n" not in str(error.value)
        assert "config.json" in str(error.value)
    path.write_text(" " * (LARGEST_FILE + 1), encoding="utf-8")
    with pytest.raises(CatalogError, match="more than 1,048,576 bytes"):
        record("model", str(path))
    for missing in ("meta-llama/Llama-3-8B", str(tmp_path / "none.json")):
        with pytest.raises(CatalogError, match="cannot be read"):
            record("model", missing)


def test_mutated_files_are_read_or_refused_in_one_line() -> None:
    draw = generator(41)
    odd = [None, True, -1, 0, 1, 3, 10**30, 1e308, 0.5, "", "x", "\ud800\n", [], [0], ["a"], {}]
    odd += [{"a": 1}, [[[]]], ["mamba"] * 3, "M-*E"]
    names = list(MODELS)
    every = sorted({key for name in names for key in config_of(name)})
    read, refused = 0, []
    for _ in range(scaled(100, 80)):
        config = config_of(names[draw.integers(len(names))])
        for _ in range(draw.integers(1, 4)):
            pool = every if draw.random() < 0.5 else list(config)
            config[pool[draw.integers(len(pool))]] = odd[draw.integers(len(odd))]
        text = json.dumps(config)
        if draw.random() < 0.3:
            at = int(draw.integers(len(text)))
            text = "{" + text[1:at] + chr(draw.integers(32, 300)) + text[at + 1 :]
        try:
            entry = record("model", text)
            assert entry.note.isprintable()
            parameters(text)
        except (CatalogError, InputError) as error:
            refused.append(str(error))
        else:
            read += 1
    assert read > 5
    assert len(refused) > 12
    assert not [message for message in refused if "\n" in message]
