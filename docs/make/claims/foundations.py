"""The appendix "Fleet Foundations": reference numbers of fleet-scale training."""

from typing import Any

import numpy as np

import fleetcube

from .claim import (
    HOUR,
    Claim,
    Document,
    Verdict,
    cited,
    convention,
    evidence,
    get,
    origin,
    other,
    plain,
    record,
)
from .cluster import ratio

SIZES = [256, 2048, 8192, 100_000]
MODELS = [7e9, 70e9, 175e9, 1e12]
BUDGETS = ("bubble", "checkpoint", "recovery", "maintenance")


def reliability(name: str, scale: float = 1.0) -> Any:
    """Table 6: GPUs alone, a day."""
    return get(name, scale, n_gpus=SIZES, nics_per_node=0, job_duration="24 h")


def effective(eta: float = 0.5, goodput: float = 0.77, mfu: float = 0.5) -> float:
    """FLOP/s that 1,024 H100 do of use."""
    return float(
        get(
            "effective_flops",
            n_gpus=1024,
            gpu="h100-sxm",
            mfu=mfu,
            scaling_efficiency=eta,
            goodput=goodput,
        )
    )


def peak() -> float:
    return float(get("peak_flops", gpu="h100-sxm"))


def multiplied_budgets() -> float:
    """What is left where each budget takes its share of what the others leave."""
    kept = 1.0
    for budget in BUDGETS:
        others = {f"{name}_budget": 0 for name in BUDGETS if name != budget}
        kept *= float(get("goodput", goodput_model="additive", **others))
    return 100 * kept


def all_reduce(parameters: float) -> float:
    """Ring all-reduce of BF16 gradients over 256 lone GPUs on InfiniBand NDR, in seconds."""
    return float(
        get(
            "data_parallel_all_reduce_time",
            parameters=parameters,
            n_gpus=256,
            gpus_per_node=1,
            all_reduce="ring",
            fabric="infiniband-ndr",
            intra_node_bandwidth=450e9,
        )
    )


def rho(communication: float, compute: float) -> float:
    return float(get("rho", communication_time=communication, compute_time=compute))


def _decoding() -> float:
    cube = fleetcube.evaluate(
        ["attainable_flops", "active_parameters"],
        gpu="h100-sxm",
        model="llama-3-8b",
        micro_batch_size=1,
        sequence_length=1,
    )
    return float(cube.attainable_flops / (2 * cube.active_parameters))


def _megawatts(pue: Any) -> Any:
    return get("facility_power", 1e6, it_power="10 MW", pue=pue)


CLAIMS = (
    Claim(
        "3.1",
        "Checkpoints of 7B, 70B, 175B, 1T parameters; written at 100 GB/s",
        Verdict.REPRODUCES,
        (
            plain(
                "98 980 2450 14000", "GB", lambda: get("checkpoint_size", 1e9, parameters=MODELS)
            ),
            plain(
                "0.98 9.8 24.5",
                "s",
                lambda: get(
                    "checkpoint_write_time", parameters=MODELS[:3], storage="reference-100gbs"
                ),
            ),
            plain(
                "2.3",
                "min",
                lambda: get(
                    "checkpoint_write_time", 60, parameters=1e12, storage="reference-100gbs"
                ),
                label="1T",
            ),
        ),
    ),
    Claim(
        "3.2",
        "MTBF of 256, 2,048, 8,192, 100,000 GPUs of 50,000 h",
        Verdict.REPRODUCES,
        (
            plain("195.3 24.4 6.1 0.50", "h", lambda: reliability("cluster_mtbf", HOUR)),
            plain("11718.8 1464.8 366.2 30", "min", lambda: reliability("cluster_mtbf", 60)),
        ),
    ),
    Claim(
        "3.3",
        "Probability of a failure in 24 h",
        Verdict.REPRODUCES,
        (
            plain("11.6 62.6 98 100", "%", lambda: reliability("failure_probability", 0.01)),
            plain(
                "98.04",
                "%",
                lambda: reliability("failure_probability", 0.01)[2],
                label="8,192, in the summary",
            ),
        ),
    ),
    Claim(
        "3.4",
        "1,024 GPUs at MFU 50 %, scaling 50 %, goodput 77 %",
        Verdict.REPRODUCES,
        (
            plain("194951.7", "TFLOP/s", lambda: effective() / 1e12),
            plain("19.2", "% of peak", lambda: 100 * effective() / (1024 * peak())),
        ),
    ),
    Claim(
        "3.5",
        "Goodput after 5 + 3 + 10 + 5 %",
        Verdict.CONVENTION,
        (
            plain(
                "77",
                "%",
                multiplied_budgets,
                right="78.8",  # 0.95 x 0.97 x 0.90 x 0.95
                label="each of what is left",
            ),
            convention(
                "goodput_model = additive",
                "77",
                "%",
                lambda: 100 * get("goodput", goodput_model="additive"),
            ),
        ),
        "Shares of the whole add up. Bubbles appear here and in the MFU of 3.4: count them once.",
    ),
    Claim(
        "3.6",
        "Ridge point of an H100",
        Verdict.REPRODUCES,
        (plain("295.2", "FLOP/B", lambda: get("ridge_point", gpu="h100-sxm")),),
    ),
    Claim(
        "3.7",
        "An 8B model decodes: weights, intensity, tokens a second",
        Verdict.REPRODUCES,
        (
            plain("16.1", "GB", lambda: get("weights_bytes", 1e9, model="llama-3-8b")),
            plain(
                "1",
                "FLOP/B",
                lambda: get("arithmetic_intensity", micro_batch_size=1, sequence_length=1),
            ),
            plain("208.6", "/s", _decoding),
        ),
    ),
    Claim(
        "3.8",
        "NVLink is 9 times as fast as InfiniBand NDR",
        Verdict.CONVENTION,
        (
            plain(
                "9",
                "x",
                lambda: 2 * ratio("h100-sxm", "infiniband-ndr"),
                right="18",
                label="900 over 50 GB/s, as its table 3 lists them",
            ),
            convention(
                "one direction of each", "9", "x", lambda: ratio("h100-sxm", "infiniband-ndr")
            ),
        ),
        "Its table lists both directions of NVLink beside one of InfiniBand.",
    ),
    Claim(
        "3.9",
        "4,096 GPUs with 2.5 times the throughput of 1,024 scale at 31.2 %",
        Verdict.CONVENTION,
        (
            plain(
                "31.2",
                "%",
                lambda: 100 * 2.5 * effective(1, 1, 1) / (4096 * peak()),
                right="62.5",
                label="with 1,024 GPUs at 100 %",
            ),
            convention(
                "with 1,024 GPUs at the 50 % of its table 5",
                "31.2",
                "%",
                lambda: 100 * 2.5 * effective(0.5, 1, 1) / (4096 * peak()),
            ),
        ),
        "The factor of one half is not named.",
    ),
    Claim(
        "3.10",
        "10 % serial work: speed-up of 32, 256, 1,024, 8,192 GPUs",
        Verdict.REPRODUCES,
        (
            plain(
                "7.8 9.7 9.9 10",
                "",
                lambda: get("amdahl_speedup", serial_fraction=0.1, n_gpus=[32, 256, 1024, 8192]),
            ),
        ),
    ),
    Claim(
        "3.11",
        "7B parameters on 256 GPUs: all-reduce; over 5 s of computing",
        Verdict.REPRODUCES,
        (
            plain("560.4", "ms", lambda: 1e3 * all_reduce(7e9)),
            plain("0.11", "", lambda: rho(all_reduce(7e9), 5)),
            plain("11.2", "%", lambda: 100 * rho(all_reduce(7e9), 5)),
        ),
    ),
    Claim(
        "3.12",
        "350M parameters on 256 GPUs: all-reduce",
        Verdict.WRONG,
        (
            plain("29.6", "ms", lambda: 1e3 * all_reduce(350e6), right="30.4"),
            origin("340M parameters", "29.6", "ms", lambda: 1e3 * all_reduce(340e6)),
            plain("3", "", lambda: rho(all_reduce(350e6), 10e-3), label="over 10 ms of computing"),
        ),
        "The row was computed for 340 million parameters.",
    ),
    Claim(
        "3.13",
        "Tensor parallelism in a node: 0.04 ms of traffic over 1 ms of computing",
        Verdict.CONVENTION,
        (
            plain("0.036", "", lambda: rho(0.04e-3, 1e-3), right="0.040", label="of 0.04 ms"),
            convention("0.036 ms before rounding", "0.036", "", lambda: rho(0.036e-3, 1e-3)),
        ),
        "The time is rounded, the ratio is not.",
    ),
    Claim(
        "3.14",
        "MTBF / N is arithmetic, not an approximation: so 1,024 GPUs of RSC-1 have",
        Verdict.UNSUPPORTED,
        (
            plain(
                "28.8",
                "h",
                lambda: get("cluster_mtbf", HOUR, n_gpus=1024, reliability="rsc-1"),
                label="from the rate of a node",
            ),
            evidence(
                "measured there",
                "28.8",
                "h",
                lambda: get("cluster_mtbf", HOUR, n_gpus=1024, reliability="rsc-1-empirical"),
                right="7.9",
            ),
        ),
        "It needs independent, exponential failures; where field data say otherwise use "
        "mtbf_model = empirical, correlated_failure_fraction or failure_shape (Kokolis et al. "
        "2025).",
    ),
    Claim(
        "3.15",
        "Scaling efficiency 90, 70, 50, 35 % at 32, 256, 1,024, 8,192 GPUs",
        Verdict.UNSUPPORTED,
        (
            evidence(
                "Megatron-LM and MegaScale, 256 to 1,024 GPUs",
                "0.71 0.71",
                "kept",
                cited([44.7 / 53.0, 59.0 / 65.3]),
                right="0.84 0.90",
            ),
            evidence(
                "the same, 3,072 to 12,288 GPUs",
                "0.71 0.71",
                "kept",
                cited([41.2 / 48.7, 55.2 / 59.1]),
                right="0.85 0.93",
            ),
        ),
        "From 256 to 1,024 GPUs 50 of 70 is 0.71; published strong scaling over four times the "
        "GPUs keeps far more (MFU in Jiang et al. 2024, arXiv:2402.15627, table 2), and the table "
        "does not say weak or strong.",
    ),
    Claim(
        "3.16",
        "InfiniBand NDR: latency one way",
        Verdict.CONVENTION,
        (
            convention(
                "effective cost of a message",
                "~5",
                "us",
                lambda: 1e6 * record("fabric", "infiniband-ndr", "inter_node_latency"),
                right="5",
            ),
        ),
        "It is plausible as the alpha of a collective, not as the latency of a wire: NCCL 2.30 "
        "reckons with 2.7 us (LL) to 14 us (Simple) a step.",
    ),
    Claim(
        "3.17",
        'InfiniBand "GXDR": 1.6 Tbit/s',
        Verdict.CONVENTION,
        (
            convention(
                "the label infiniband-gxdr keeps the name",
                "200",
                "GB/s",
                lambda: record("fabric", "infiniband-gxdr", "inter_node_bandwidth") / 1e9,
            ),
        ),
        "NVIDIA calls this step GDR.",
    ),
    Claim(
        "3.18",
        "Memory of a B200",
        Verdict.OTHERS,
        (
            other(
                "DGX and HGX B200",
                "192",
                "GB",
                lambda: record("gpu", "b200-sxm@1", "hbm_capacity") / 1e9,
                right="180",
            ),
        ),
        "The stacks hold 192 GB; NVIDIA's systems list 180 (of 2^30 B: programs have 191.5e9 B).",
    ),
    Claim(
        "3.19",
        "TPU v6 (estimates): link between chips; power 600 W",
        Verdict.WRONG,
        (
            plain(
                "~2000",
                "GB/s",
                lambda: 2 * record("gpu", "tpu-v6e", "intra_node_bandwidth") / 1e9,
                right="800",
                label="both directions",
            ),
        ),
        "Google documents 800 GB/s, and publishes no power; 600 W cannot be checked.",
    ),
    Claim(
        "3.20",
        "Infinity Fabric of an MI300X",
        Verdict.CONVENTION,
        (
            plain(
                "~890",
                "GB/s",
                lambda: record("gpu", "mi300x", "intra_node_bandwidth") / 1e9,
                right="448",
                label="one direction",
            ),
            convention(
                "both directions, all seven links",
                "~890",
                "GB/s",
                lambda: 2 * record("gpu", "mi300x", "intra_node_bandwidth") / 1e9,
                right="896",
            ),
        ),
        "One pair of GPUs has one link, 64 GB/s in each direction.",
    ),
    Claim(
        "3.21",
        "Racks of 70 kW over 12 kW; 10,000 H100 at PUE 1.40; 10 MW at PUE 1.58 less 1.06",
        Verdict.REPRODUCES,
        (
            plain(
                "5.8",
                "x",
                lambda: np.divide(
                    *get(
                        "racks",
                        n_gpus=70_000,
                        gpus_per_node=1,
                        node_power="100 W",
                        rack_power=["12 kW", "70 kW"],
                    )
                ),
            ),
            plain(
                "9.8",
                "MW",
                lambda: get("facility_power", 1e6, n_gpus=10_000, gpu="h100-sxm", pue=1.4),
            ),
            plain("5.2", "MW", lambda: np.subtract(*_megawatts([1.58, 1.06])), label="saved"),
            plain(
                "",
                "MW",
                lambda: get("facility_power", 1e6, n_gpus=10_000, node="dgx-h100", pue=1.4),
                "17.85",  # 10.2 kW x 1,250 x 1.4
                "whole DGX H100 nodes",
            ),
        ),
        "It counts the GPUs alone; a DGX H100 node draws up to 10.2 kW.",
    ),
    Claim(
        "3.22",
        "Links in a node will always be an order of magnitude faster than between nodes",
        Verdict.WRONG,
        (
            plain(
                "~10",
                "x",
                lambda: (
                    record("gpu", "mi300x", "intra_node_bandwidth")
                    / 7
                    / record("fabric", "infiniband-ndr", "inter_node_bandwidth")
                ),
                right="1.3",
                label="a pair of MI300X, InfiniBand NDR",
            ),
            plain(
                "",
                "x",
                lambda: [
                    ratio("a100-sxm-80gb", "infiniband-hdr"),
                    ratio("h100-sxm", "infiniband-ndr"),
                    ratio("b200-sxm", "infiniband-xdr"),
                ],
                "12 9 9",
                "A100 / HDR, H100 / NDR, B200 / XDR",
            ),
        ),
        "It held for three generations of NVLink and fails elsewhere.",
    ),
    Claim(
        "3.23",
        "rho = T_comm(N) / (T_compute / N): 256 GPUs, 1,280 s of computing, 0.5604 s of traffic",
        Verdict.REPRODUCES,
        (plain("0.11208", "", lambda: rho(0.5604, 1280 / 256)),),
    ),
    Claim(
        "3.24",
        "Training state: bytes a parameter",
        Verdict.OTHERS,
        (
            plain("14", "B", lambda: get("state_bytes_per_parameter", gradient_storage=False)),
            other(
                "100,000-GPU training cluster",
                "14",
                "B",
                lambda: get("state_bytes_per_parameter", gradient_storage="bf16"),
                right="16",
            ),
            plain(
                "",
                "B",
                lambda: get(
                    "state_bytes_per_parameter", gradient_storage=["fp32", "bf16_and_fp32"]
                ),
                "18 20",
                "Megatron-LM, gradients in FP32, in both",
            ),
        ),
        "14 is what a checkpoint holds, 16 what memory holds: gradients are the difference.",
    ),
)

DOCUMENT = Document(
    "Fleet Foundations",
    "appendix of Machine Learning Systems at Scale: reference numbers and laws",
    CLAIMS,
)
