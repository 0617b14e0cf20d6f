"""Time kernels and links of one node's GPUs, at the sizes of a job.

Written by `fleetcube probe`; needs PyTorch or JAX and nothing else. Some minutes on an idle node:

    torchrun --nproc-per-node 8 probe.py      (PyTorch; without torchrun: one GPU)
    python probe.py --framework jax           (JAX: all devices of this host)

    fleetcube calibrate probe.json --spec job.toml -o kernels.toml

Nothing is trained or read, and nothing is written but the JSON; data are random.
"""

import argparse
import functools
import importlib
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

SIZES: dict[str, Any] = {}  # of the job, on one GPU; elements, and bytes of messages
_SPAN = 0.02  # s between two looks at the clock
_SMALL = 64  # elements of a side with --small

Run = Callable[[], Any]


class Torch:
    """Kernels of PyTorch, on all ranks that torchrun starts."""

    attentions = ("cudnn", "flash")

    def __init__(self) -> None:
        self.torch = torch = importlib.import_module("torch")
        self.rank, self.ranks = (
            int(os.environ.get(n, d)) for n, d in (("RANK", 0), ("WORLD_SIZE", 1))
        )
        is_gpu = torch.cuda.is_available()
        self.device = (
            torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if is_gpu else "cpu"
        )
        self.name = f"torch {torch.__version__}"
        self.gpu = torch.cuda.get_device_name(self.device) if is_gpu else "cpu"
        if is_gpu:
            torch.cuda.set_device(self.device)
        if self.ranks > 1:
            torch.distributed.init_process_group("nccl" if is_gpu else "gloo")
        self.is_gpu = is_gpu

    def wait(self, output: Any) -> None:
        if self.is_gpu:
            self.torch.cuda.synchronize()

    def every(self, value: float) -> list[float]:
        """A value of each rank."""
        values: list[Any] = [None] * self.ranks
        if self.ranks == 1:
            return [value]
        self.torch.distributed.all_gather_object(values, value)
        return values

    def normal(self, *shape: int) -> Any:
        return self.torch.randn(shape, device=self.device, dtype=self.torch.bfloat16)

    def product(self, m: int, n: int, k: int, precision: str) -> Run:
        torch, a, b = self.torch, self.normal(m, k), self.normal(n, k).t()
        if precision != "fp8":
            return lambda: a @ b
        a, b = (x.to(torch.float8_e4m3fn) for x in (a, b))
        one = torch.ones((), device=self.device)
        return lambda: torch._scaled_mm(
            a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    def attention(self, kernel: str, heads: int, length: int, width: int) -> Run:
        module = importlib.import_module("torch.nn.attention")
        attend = self.torch.nn.functional.scaled_dot_product_attention
        backend = getattr(module.SDPBackend, f"{kernel.upper()}_ATTENTION")
        q, k, v = (self.normal(1, heads, length, width) for _ in range(3))

        def run() -> Any:
            with module.sdpa_kernel(backend):
                return attend(q, k, v)

        return run

    def memory(self, elements: int) -> Run:
        a, b = self.normal(elements), self.normal(elements)
        c = self.torch.empty_like(a)
        return lambda: self.torch.add(a, b, out=c)

    def link(self, name: str, elements: int) -> Run:
        one, other, among = self.normal(elements), self.normal(elements), self.torch.distributed
        if name == "all_reduce":
            return lambda: among.all_reduce(one)
        return lambda: among.all_to_all_single(other, one)

    def layer(self, sequences: int, length: int, size: Any) -> Run:
        torch = self.torch
        weights = [self.normal(*shape).div_(64).requires_grad_() for shape in shapes(size)]
        inputs = self.normal(sequences, length, size["hidden"]).requires_grad_()
        heads, kv, width = size["heads"], size["kv_heads"], size["width"]
        functional = torch.nn.functional

        def run() -> Any:
            into, out, up, down = weights
            x = functional.rms_norm(inputs, inputs.shape[-1:]) @ into
            x = x.view(sequences, length, heads + 2 * kv, width).transpose(1, 2)
            q, k, v = x.split([heads, kv, kv], dim=1)
            x = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = inputs + x.transpose(1, 2).reshape(sequences, length, heads * width) @ out
            y = functional.rms_norm(x, x.shape[-1:]) @ up
            if size["gated"]:
                gate, y = y.chunk(2, dim=-1)
                y = functional.silu(gate) * y
            else:
                y = functional.gelu(y)
            return torch.autograd.grad((x + y @ down).sum(), [inputs, *weights])

        return run


class Jax:
    """Kernels of JAX, and collectives of all devices of the host."""

    attentions = ("cudnn", "xla")

    def __init__(self) -> None:
        self.jax = jax = importlib.import_module("jax")
        self.jnp = importlib.import_module("jax.numpy")
        self.rank, self.ranks, self.name = 0, jax.local_device_count(), f"jax {jax.__version__}"
        self.gpu = jax.devices()[0].device_kind

    def wait(self, output: Any) -> None:
        self.jax.block_until_ready(output)

    def every(self, value: float) -> list[float]:
        return [value]

    def normal(self, *shape: int) -> Any:
        return self.jax.random.normal(self.jax.random.key(0), shape, self.jnp.bfloat16)

    def product(self, m: int, n: int, k: int, precision: str) -> Run:
        a, b = self.normal(m, k), self.normal(k, n)
        if precision == "fp8":
            a, b = (x.astype(self.jnp.float8_e4m3fn) for x in (a, b))
        run = self.jax.jit(
            lambda a, b: self.jnp.dot(a, b, preferred_element_type=self.jnp.bfloat16)
        )
        return lambda: run(a, b)

    def attention(self, kernel: str, heads: int, length: int, width: int) -> Run:
        q, attend = self.normal(1, length, heads, width), self.jax.nn.dot_product_attention
        run = self.jax.jit(lambda q: attend(q, q, q, implementation=kernel))
        return lambda: run(q)

    def memory(self, elements: int) -> Run:
        a, b = self.normal(elements), self.normal(elements)
        run = self.jax.jit(lambda a, b: a + b)
        return lambda: run(a, b)

    def link(self, name: str, elements: int) -> Run:
        jax, ranks = self.jax, self.ranks
        mesh = jax.make_mesh((ranks,), ("gpu",))
        cut = jax.sharding.PartitionSpec("gpu")
        place = jax.sharding.NamedSharding(mesh, cut)
        x = jax.device_put(self.jnp.zeros((ranks, elements), self.jnp.bfloat16), place)

        def summed(x: Any) -> Any:
            return jax.lax.psum(x, "gpu")

        def transposed(x: Any) -> Any:
            return jax.lax.all_to_all(x.reshape(ranks, -1), "gpu", 0, 0).reshape(1, -1)

        op = summed if name == "all_reduce" else transposed
        run = jax.jit(jax.shard_map(op, mesh=mesh, in_specs=cut, out_specs=cut, check_vma=False))
        return lambda: run(x)

    def layer(self, sequences: int, length: int, size: Any) -> Run:
        jax, jnp = self.jax, self.jnp
        weights = [self.normal(*shape) / 64 for shape in shapes(size)]
        inputs = self.normal(sequences, length, size["hidden"])
        heads, kv, width = size["heads"], size["kv_heads"], size["width"]

        def norm(x: Any) -> Any:
            mean = jnp.square(x.astype(jnp.float32)).mean(-1, keepdims=True)
            return (x * jax.lax.rsqrt(mean + 1e-6)).astype(x.dtype)

        def loss(inputs: Any, weights: Any) -> Any:
            into, out, up, down = weights
            x = (norm(inputs) @ into).reshape(sequences, length, heads + 2 * kv, width)
            q, k, v = jnp.split(x, [heads, heads + kv], axis=2)
            x = jax.nn.dot_product_attention(q, k, v, is_causal=True)
            x = inputs + x.reshape(sequences, length, heads * width) @ out
            y = norm(x) @ up
            if size["gated"]:
                gate, y = jnp.split(y, 2, axis=-1)
                y = jax.nn.silu(gate) * y
            else:
                y = jax.nn.gelu(y)
            return (x + y @ down).sum()

        run = jax.jit(jax.grad(loss, argnums=(0, 1)))
        return lambda: run(inputs, weights)


def shapes(size: Any) -> list[tuple[int, int]]:
    """Weights of a layer: into attention and out of it, into the feed-forward and out of it."""
    hidden, ffn, inner = size["hidden"], size["ffn"], size["heads"] * size["width"]
    into = inner + 2 * size["kv_heads"] * size["width"]
    return [(hidden, into), (inner, hidden), (hidden, (1 + size["gated"]) * ffn), (ffn, hidden)]


def timed(kernels: Any, run: Run, seconds: float, looks: int = 0) -> float:
    """Median time of one run, in a loop without pause of `seconds`, or of `looks` x 20 runs."""
    kernels.wait(run())
    start = time.perf_counter()
    kernels.wait(run())
    once = max(time.perf_counter() - start, 1e-7)
    count = 20 if looks else max(1, round(_SPAN / once))
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < max(looks, 3) or (not looks and time.perf_counter() < end):
        start = time.perf_counter()
        for _ in range(count):
            output = run()
        kernels.wait(output)
        samples.append((time.perf_counter() - start) / count)
    return statistics.median(samples[len(samples) // 3 :])  # after clocks have settled


def measure(kernels: Any, sizes: Any, seconds: float) -> list[dict[str, Any]]:
    """Times of all kernels; of several GPUs the median, and the slowest."""
    rows: list[dict[str, Any]] = []

    def add(kind: str, run: Run, looks: int = 0, **about: Any) -> bool:
        try:
            typical = timed(kernels, run, seconds, looks)
        except Exception as error:  # a kernel that this GPU or release does not have
            typical, reason = 0.0, " ".join(f"{type(error).__name__}: {error}".split())[:120]
        each = kernels.every(typical)
        if not all(each):
            if kernels.rank == 0:
                print(f"left out {kind} {about}: {reason if not typical else 'fails on a rank'}")
            return False
        row = {"what": kind, **about, "seconds": statistics.median(each), "slowest": max(each)}
        rows.append(row)
        if kernels.rank == 0:
            print(" ".join(f"{v:.4g}" if isinstance(v, float) else f"{v}" for v in row.values()))
        return True

    for size in sizes["products"]:
        sides = [size[side] for side in ("m", "n", "k")]
        for precision in dict.fromkeys((sizes["precision"], "bf16")):
            product = _lazy_run(functools.partial(kernels.product, *sides, precision))
            if add("product", product, **size, precision=precision):
                break
    size = sizes["attention"]
    for kernel in kernels.attentions:
        attention = _lazy_run(functools.partial(kernels.attention, kernel, **size))
        add("attention", attention, kernel=kernel, **size)
    add(
        "memory",
        _lazy_run(lambda: kernels.memory(sizes["memory"] // 6)),
        bytes=sizes["memory"] // 6 * 6,
    )
    for message in sizes["messages"] if kernels.ranks > 1 else []:
        elements = message // 2 // kernels.ranks * kernels.ranks
        for name in ("all_reduce", "all_to_all"):
            link = _lazy_run(functools.partial(kernels.link, name, elements))
            add(name, link, looks=5, bytes=2 * elements, ranks=kernels.ranks)
    if sizes["layer"]:
        size = sizes["layer"]
        shape = {name: size[name] for name in size if name not in ("sequences", "length")}
        run = _lazy_run(lambda: kernels.layer(size["sequences"], size["length"], shape))
        add("layer", run, sequences=size["sequences"], length=size["length"])
    return rows


def _lazy_run(make: Callable[[], Run]) -> Run:
    """A kernel that allocates its data at its first run, so that failures there are left out."""
    built: list[Run] = []

    def run() -> Any:
        if not built:
            built.append(make())
        return built[0]()

    return run


def small(sizes: Any) -> Any:
    """The sizes cut, to try the script without a GPU."""
    if isinstance(sizes, dict):
        return {n: v if n == "count" else small(v) for n, v in sizes.items()}
    if isinstance(sizes, list):
        return [small(size) for size in sizes]
    return min(sizes, _SMALL) if type(sizes) is int else sizes


def main() -> None:
    parser = argparse.ArgumentParser(description="Times kernels and links of one node's GPUs.")
    parser.add_argument("--framework", choices=("torch", "jax"), default="torch")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each kernel")
    parser.add_argument("--small", action="store_true", help="small sizes: to see that it runs")
    parser.add_argument("-o", "--output", default="probe.json")
    given = parser.parse_args()
    open(given.output, "a", encoding="utf-8").close()  # before anything is timed
    kernels = Torch() if given.framework == "torch" else Jax()
    sizes = small(SIZES) if given.small else SIZES
    rows = measure(kernels, sizes, given.seconds)
    if kernels.rank == 0:
        about = {"format": "fleetcube probe 1", "framework": kernels.name, "gpu": kernels.gpu}
        with open(given.output, "w", encoding="utf-8") as file:
            json.dump({**about, "ranks": kernels.ranks, "rows": rows}, file, indent=1)
        print(f"wrote {given.output}; next: fleetcube calibrate {given.output} --spec SPEC")


if __name__ == "__main__":
    main()
