"""Catalog figures against vendors' data typed here, and against what they are made of."""

from typing import Any

import pytest

from fleetcube.catalog import kind, record


def of(kind_name: str, label: str) -> Any:
    return record(kind_name, label).values


# Dense 16-bit peak = units x FLOP per clock and unit x boost clock. Whitepapers: V100 (2017), A100
# (2020), H100 (2022) tensor cores per SM and FMA per clock; AMD CDNA 3 (2023), table 2.
PEAKS = {
    "v100-sxm2-32gb": ("fp16", 80 * 8 * 64 * 2 * 1.530e9),
    "a100-sxm-40gb": ("bf16", 108 * 4 * 256 * 2 * 1.410e9),
    "a100-sxm-80gb": ("bf16", 108 * 4 * 256 * 2 * 1.410e9),
    "h100-sxm": ("bf16", 132 * 4 * 512 * 2 * 1.830e9),
    "h200-sxm": ("bf16", 132 * 4 * 512 * 2 * 1.830e9),
    "mi300x": ("bf16", 304 * 2048 * 2.100e9),
}


@pytest.mark.parametrize("label", PEAKS)
def test_peaks_are_dense(label: str) -> None:
    precision, flops = PEAKS[label]
    assert of("gpu", label)[f"peak_flops_{precision}"] == pytest.approx(flops, rel=5e-3)


# Vendors' sheets print sparse peaks in TFLOP/s: 16 bit, 8 bit. Dense is half.
SPARSE = {
    "a100-sxm-80gb": (624, None),
    "h100-sxm": (1979, 3958),
    "h200-sxm": (1979, 3958),
    "b200-sxm": (4500, 9000),
    "gb200": (5000, 10000),
    "mi300x": (2614.9, 5229.8),
}


@pytest.mark.parametrize("label", SPARSE)
def test_peaks_are_half_of_the_sparse_ones(label: str) -> None:
    sixteen_bit, eight_bit = SPARSE[label]
    values = of("gpu", label)
    assert values["peak_flops_bf16"] == pytest.approx(sixteen_bit * 1e12 / 2, rel=1e-3)
    assert values["peak_flops_fp16"] == values["peak_flops_bf16"]
    if eight_bit is not None:
        assert values["peak_flops_fp8"] == pytest.approx(eight_bit * 1e12 / 2, rel=1e-3)


# Links per GPU x bytes/s per link and direction: NVLink 2, 3 and 4 have 25 GB/s each way on a link,
# NVLink 5 has 50; Infinity Fabric joins each MI300X to its 7 peers at 64.
LINKS = {
    "v100-sxm2-32gb": 6 * 25e9,
    "a100-sxm-40gb": 12 * 25e9,
    "a100-sxm-80gb": 12 * 25e9,
    "h100-sxm": 18 * 25e9,
    "h200-sxm": 18 * 25e9,
    "b200-sxm": 18 * 50e9,
    "gb200": 18 * 50e9,
    "mi300x": 7 * 64e9,  # 448 GB/s; the marketed 896 GB/s counts both directions
    "tpu-v5p": 1200e9 / 2,  # Google's 1200 and 800 GB/s are bidirectional totals
    "tpu-v6e": 800e9 / 2,
}


@pytest.mark.parametrize("label", kind("gpu"))
def test_links_count_one_direction(label: str) -> None:
    assert of("gpu", label)["intra_node_bandwidth"] == LINKS[label]


# Memory: GB and GB/s as the sheets print them.
MEMORY = {
    "v100-sxm2-32gb": (32, 900),
    "a100-sxm-40gb": (40, 1555),
    "a100-sxm-80gb": (80, 2039),
    "h100-sxm": (80, 3350),
    "h200-sxm": (141, 4800),
    "b200-sxm": (180, 8000),  # of 192 GB on the package
    "gb200": (186, 8000),
    "mi300x": (192, 5300),
    "tpu-v5p": (95, 2765),
    "tpu-v6e": (32, 1640),
}


@pytest.mark.parametrize("label", kind("gpu"))
def test_memory(label: str) -> None:
    capacity, bandwidth = MEMORY[label]
    values = of("gpu", label)
    assert values["hbm_capacity"] == capacity * 1e9
    assert values["hbm_bandwidth"] == pytest.approx(bandwidth * 1e9, rel=2.5e-3)


# Bits of the HBM bus x rate of a pin / 8.
BUSES = {
    "v100-sxm2-32gb": 4096 * 1.752e9,
    "a100-sxm-40gb": 5120 * 2.430e9,
    "a100-sxm-80gb": 5120 * 3.186e9,
    "mi300x": 8192 * 5.200e9,
}


@pytest.mark.parametrize("label", BUSES)
def test_memory_bandwidth_is_bus_times_rate(label: str) -> None:
    assert of("gpu", label)["hbm_bandwidth"] == pytest.approx(BUSES[label] / 8, rel=6e-3)


# InfiniBand ports have four lanes; data rate of a lane in Gbit/s (InfiniBand Trade Association).
@pytest.mark.parametrize(
    ("label", "lane"),
    [
        ("infiniband-edr", 25),
        ("infiniband-hdr", 50),
        ("infiniband-ndr", 100),
        ("infiniband-xdr", 200),
        ("infiniband-gxdr", 400),
    ],
)
def test_infiniband_ports_have_four_lanes(label: str, lane: float) -> None:
    assert of("fabric", label)["inter_node_bandwidth"] == 4 * lane * 1e9 / 8


@pytest.mark.parametrize(
    ("label", "gpus", "kilowatts"),
    # data sheets and user guides: maximum power of the system
    [("dgx-a100", 8, 6.5), ("dgx-h100", 8, 10.2), ("dgx-b200", 8, 14.3), ("gb200-nvl72", 72, 120)],
)
def test_nodes(label: str, gpus: int, kilowatts: float) -> None:
    node = of("node", label)
    assert node["gpus_per_node"] == gpus
    assert node["node_power"] == kilowatts * 1e3
    assert gpus * of("gpu", node["gpu"])["gpu_tdp"] < node["node_power"]
    assert node["series_psus_per_node"] == 0  # supplies of these systems are redundant


@pytest.mark.parametrize(
    ("label", "gpu_hours"),
    [
        ("llama-3-405b-run", 16384 * 54 * 24 / 419),  # Llama 3, section 3.3.4: unexpected ones
        ("rsc-1", 8 * 1000 * 24 / 6.50),  # Kokolis et al.: failures per 1000 node-days
        ("rsc-2", 8 * 1000 * 24 / 2.34),
    ],
)
def test_failure_rates_of_the_field(label: str, gpu_hours: float) -> None:
    assert of("reliability", label)["gpu_mttf"] / 3600 == pytest.approx(gpu_hours, rel=1e-5)


# Models: parameters counted from the shape


def counted(label: str, *, active: bool = False) -> int:
    """Weights of a decoder-only transformer with the shape of a catalog entry."""
    shape = of("model", label)
    gpt = label.startswith("gpt")
    layers, hidden, width = (
        int(shape[key]) for key in ("layers", "hidden_size", "ffn_hidden_size")
    )
    keys = hidden * int(shape["kv_heads"]) // int(shape["attention_heads"])
    vocabulary = int(shape["vocab_size"])
    experts = int(shape.get("experts_per_token" if active else "experts", 1))
    attention = 2 * hidden * hidden + 2 * hidden * keys
    feed_forward = (3 if shape["gated_ffn"] else 2) * hidden * width * experts
    if experts > 1:
        feed_forward += hidden * int(shape["experts"])  # the router
    if gpt:  # biases, norms with a bias, learned positions, one tied embedding
        biases = 4 * hidden + width + hidden
        norms, embeddings = 4 * hidden, (vocabulary + int(shape["sequence_length"])) * hidden
        last_norm = 2 * hidden
    else:  # no biases, RMS norms, rotary positions, an embedding and an output head
        biases, norms, embeddings, last_norm = 0, 2 * hidden, 2 * vocabulary * hidden, hidden
    return layers * (attention + feed_forward + biases + norms) + embeddings + last_norm


# Weights of the released files, summed over their tensors (Hugging Face safetensors index).
RELEASED = {
    "gpt-2": 1_557_611_200,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
}


@pytest.mark.parametrize("label", RELEASED)
def test_the_shape_yields_the_released_weights(label: str) -> None:
    assert counted(label) == RELEASED[label]


def test_the_shape_of_gpt_3_yields_174600_million() -> None:
    # Brown et al. 2020, table D.1.
    assert counted("gpt-3-175b") == pytest.approx(174_600e6, rel=1e-3)


# Names that round by more than 1 %: GPT-2's paper says 1542M and "1.5B" for 1558M, Llama 2's says
# 7B for 6.74B and 70B for 68.98B. The catalog keeps what the source states.
ROUNDED = {"gpt-2": 0.04, "llama-2-7b": 0.04, "llama-2-70b": 0.015}


@pytest.mark.parametrize("label", kind("model"))
def test_parameters_are_those_of_the_shape(label: str) -> None:
    stated = of("model", label)["parameters"]
    assert stated == pytest.approx(counted(label), rel=ROUNDED.get(label, 0.01))


def test_active_parameters_of_a_mixture_of_experts() -> None:
    stated = of("model", "mixtral-8x7b")["active_parameters"]
    assert stated == pytest.approx(counted("mixtral-8x7b", active=True), rel=0.01)


@pytest.mark.parametrize("label", kind("model"))
def test_heads_divide_the_width(label: str) -> None:
    shape = of("model", label)
    assert shape["hidden_size"] % shape["attention_heads"] == 0
    assert shape["attention_heads"] % shape["kv_heads"] == 0
