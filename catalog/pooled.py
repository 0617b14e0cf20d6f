"""The posterior of all published steps: expected coefficients of a cell, and their uncertainty.

A cell is software, layers, GPU and precision. Coefficients are ceiling x link(start + effects of
groups), as in decision 35; groups without measured steps add the spread of their level. All steps
of a job, one model on one cluster, share a further factor of known spread.
"""

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np

from ..kernels import elementary
from .entry import CatalogError
from .records import kind
from .vendors import of_software

Array = np.ndarray[Any, Any]
STEP = "step_time"
PATH = files(__package__).joinpath("data", "pooled.json")
# 95 % points: normal, Student's t with 4 degrees of freedom, the difference of two such
NORMAL, STUDENT, STUDENTS = 1.645, 2.132, 3.107
LEAST_WIDENING = 0.1  # of the interval's logarithm, for each decade outside the fitted sizes
NARROWER = 0.6  # share of an interval's width at which another software is named
EAGER = "-eager"  # ends the name of software whose operations are launched one by one
BY_POWER = (0.8, 2.2)  # share of its ceiling, and log odds for each unit of watts' logarithm
_HOST = "layer_host_time"
_KERNELS = {f"{name}_attention_efficiency": name for name in ("standard", "flash", "splash")}


def sustained(watts: Any) -> Any:
    """Share of the peak at which long products begin in the fit, by the logarithm of watts for each
    FLOP over an H100's, and over the share there: half depths follow this rate and not the peak,
    which a GPU without the power for it does not reach."""
    start, slope = BY_POWER
    odds = start / (1 - start) * elementary.exp(slope * watts)
    return odds / (1 + odds) / start


def seal(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content without its own hash."""
    text = json.dumps({k: v for k, v in content.items() if k != "sha256"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Cell:
    """Key of the posterior: software and GPU are "" where unknown, peaks in FLOP/s.

    `node_link` is the data sheet's bandwidth inside a node, `watts_per_flop` the GPU's power over
    its peak at 16 bits, in W s, both 0 if unknown. `vendor` is the GPU's, "" if unknown; `states`
    the kind of its layers with a state, "" without such; `new_format` that of the products where no
    step has it, "" elsewhere.
    """

    software: str
    layers: str
    gpu: str
    precision: str
    kernel: str
    peak_16: float
    peak: float
    node_link: float = 0.0
    watts_per_flop: float = 0.0
    hides_experts: bool = True  # their traffic, behind other passes
    vendor: str = ""
    states: str = ""
    new_format: str = ""

    @property
    def name(self) -> str:
        """Key in the posterior's list of cells."""
        return ", ".join((self.software, self.layers, self.gpu, self.precision))


@dataclass(frozen=True)
class Setting:
    """An input set by a coefficient: `scale` x a share, or x an exponential, up to `most`."""

    place: int  # index among the coefficients
    input: str
    scale: float
    is_share: bool
    most: float = math.inf

    def value(self, x: Any) -> tuple[Any, Any]:
        """The input at a coefficient before its link, and its derivative."""
        value, slope = linked(x, self.is_share)
        free = self.scale * value < self.most
        return np.minimum(self.scale * value, self.most), np.where(free, self.scale * slope, 0.0)


@functools.cache
def label_of(software: str) -> str:
    """The catalog's label of a group of published steps; the group's name without one."""
    labels = (n for n, entry in kind("software").items() if entry.values["steps_as"] == software)
    return next(labels, software)


def _other_chips(label: str, cell: Cell) -> Sequence[str]:
    """The vendors of chips that a software runs on, if that of a cell is none of them."""
    runs_on = of_software().get(label, ())
    return () if not cell.vendor or cell.vendor in runs_on else runs_on


def _width(factor: float) -> str:
    """An error factor in words: a share only where it is nearly alike on both sides."""
    return f"+-{factor - 1:.0%}" if factor <= 1.25 else f"within a factor of {factor:.3g}"


def linked(x: Any, is_share: bool) -> tuple[Any, Any]:
    """A share at log odds x, or another coefficient at its logarithm x; and its derivative."""
    if not is_share:
        value = elementary.exp(x)
        return value, value
    share = 1 / (1 + elementary.exp(-x))
    return share, share * (1 - share)


def decades_outside(span: Sequence[float], values: Array) -> Array:
    """Decades by which values lie outside [low, high]; 0 inside."""
    low, high = span
    if ((values >= low) & (values <= high)).all():  # most are: a tenth of the time
        return np.zeros(np.shape(values))
    positive = np.maximum(values, 1e-300)
    beyond = np.maximum(elementary.log(positive / high), elementary.log(low / positive))
    return np.asarray(np.maximum(beyond, 0) / math.log(10))


class Posterior:
    """The catalog's effects, with their means and covariance."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = content
        self.coefficients: Mapping[str, Mapping[str, Any]] = content["coefficients"]
        self._place = {tuple(entry[:3]): k for k, entry in enumerate(content["effects"])}
        self._means = np.array([entry[3] for entry in content["effects"]])
        self._root = np.zeros((len(self._means), len(self._means)))  # R: covariance = R R'
        for k, row in enumerate(content["cholesky"]):
            self._root[k, : k + 1] = row
        self._root *= np.array([entry[4] for entry in content["effects"]])[:, None]
        self._spreads = {(name, level): value for name, level, value in content["spreads"]}
        self.digest = str(content["sha256"])

    @property
    def job_spread(self) -> float:
        """Standard deviation of the logarithm of the factor that all steps of a job share."""
        return float(self._spreads[STEP, "job"])

    def step_spread(self, cell: Cell) -> float:
        """Standard deviation of the logarithm of the factor that all steps of a cell's job share:
        the job's own, and those of groups that no fitted step is of."""
        return math.hypot(self.job_spread, *self.unmeasured(cell).values())

    def unmeasured(self, cell: Cell) -> dict[tuple[str, str], float]:
        """A cell's groups that no fitted step is of, by kind, and the standard deviation of the
        logarithm of the step time that leaving out such groups shows."""
        named = {"states": cell.states} if cell.states else {}
        if cell.gpu and self.generation(cell.gpu) not in self._generations:
            named["vendor"] = cell.vendor
        about = self.content["unmeasured"]
        return {
            (kind, group): float(about[kind]["spread"])
            for kind, group in named.items()
            if group not in about[kind]["fitted"]
        }

    @functools.cached_property
    def _generations(self) -> set[str]:
        return {self.generation(gpu) for gpu in self.content["gpus"]}

    @functools.cached_property
    def cells(self) -> Mapping[str, tuple[int, str]]:
        """Number of rows of each measured cell, and their attention kernel."""
        return {name: (int(rows), kernel) for name, (rows, kernel) in self.content["cells"].items()}

    def family(self, label: str) -> str:
        """A GPU's label without form factor and memory: h100, tpu-v5p."""
        words = label.partition("@")[0].split("-")
        return "-".join(words[: 2 if words[0] in ("tpu", "gaudi") else 1])

    def bits(self, precision: str) -> str:
        return str(
            self.content["bits"].get(precision, "4 bits" if "fp4" in precision else "8 bits")
        )

    def generation(self, gpu: str) -> str:
        """A GPU's generation: ampere, tpu."""
        return str(self.content["generations"].get(gpu, gpu.partition("-")[0]))

    def kernel(self, cell: Cell) -> str:
        """The attention kernel stated; else flash, whatever older software was measured with."""
        return cell.kernel or "flash"

    @functools.lru_cache(256)  # noqa: B019
    def coefficients_of(self, cell: Cell) -> tuple[Array, Array]:
        """Coefficients before their links, and a root of their covariance."""
        return self.together([cell])[0]

    def together(self, cells: Sequence[Cell]) -> list[tuple[Array, Array]]:
        """The same of several cells, whose roots have the same columns: R S' is a covariance of
        the coefficients of two."""
        parts = [self._parts(cell) for cell in cells]
        columns = [*dict.fromkeys(key for *_, unseen in parts for key in unseen)]
        results = []
        for cell, (means, effects, unseen) in zip(cells, parts, strict=True):
            spread_root = np.zeros((len(means), len(columns)))
            for key, spread in unseen.items():
                spread_root[key[0], columns.index(key)] = spread
            # not BLAS, whose summation order depends on the processor
            root = np.einsum("ke,ef->kf", effects, self._root)
            results.append((self._ordered(cell, means), np.hstack([root, spread_root])))
        return results

    def _ordered(self, cell: Cell, means: Array) -> Array:
        """The same, with compiled code no slower than the same run eagerly, as unlike rows make it:
        of the two cells the one with fewer steps yields, the eager one of equals."""
        is_eager = cell.software.endswith(EAGER)
        other = replace(cell, software=cell.software.removesuffix(EAGER) + EAGER * (not is_eager))
        steps, other_steps = (self.cells.get(each.name, (0, ""))[0] for each in (cell, other))
        if (
            other.software not in self.content["software"]
            or steps + (not is_eager) / 2 > other_steps
        ):
            return means
        better = np.array([1.0 if about["share"] else -1.0 for about in self.coefficients.values()])
        bound = np.minimum if is_eager else np.maximum
        return np.asarray(better * bound(better * means, better * self._parts(other)[0]))

    def _parts(self, cell: Cell) -> tuple[Array, Array, dict[tuple[int, str, str], float]]:
        """Means of the coefficients, the effects in each, and spreads of groups without steps."""
        experts = None if cell.layers == "dense" else f"{cell.software}, {cell.layers}"
        content, cell_watts = self.content, self._watts(cell)
        groups = {
            "layers": cell.layers,
            "precision": cell.precision,
            "generation": self.generation(cell.gpu),
            "gpu": cell.gpu,
            "unknown power": None if cell_watts else cell.gpu,
            "software": cell.software,
            "experts": experts,
            "cell": cell.name,
        }
        least, most = content["watts"]
        watts = min(max(cell_watts or content["watts_per_flop"], least), most)
        power = elementary.log(watts / content["watts_per_flop"])
        rate = cell.peak * sustained(power) * self._held_back(cell)
        facts = {"power": power, "rate": elementary.log(rate / content["peak"])}
        means = np.empty(len(self.coefficients))
        effects = np.zeros((len(means), len(self._means)))
        unseen: dict[tuple[int, str, str], float] = {}
        levels: dict[str, list[str]] = {}
        for name, level in self._spreads:
            levels.setdefault(name, []).append(level)
        for k, (name, about) in enumerate(self.coefficients.items()):
            trends = content["trends"][name]
            effects[k, self._place[name, "all", ""]] = 1.0
            for trend in trends:
                effects[k, self._place[name, trend, ""]] = facts[trend]
            # For software without published steps, the effect of its experts is counted once
            is_new = cell.layers == "experts" and "experts" in levels[name]
            is_new &= (name, "experts", experts) not in self._place
            for level in levels[name]:
                if level == "all" or level in trends:
                    continue
                group = groups.get(level, "")
                position = self._place.get((name, level, group or ""))
                if position is not None:
                    effects[k, position] = 1.0
                elif group is not None and not (is_new and level == "software"):
                    unseen[k, level, group] = self._spreads[name, level]
            start = about["start"]
            means[k] = elementary.log(start / (1 - start) if about["share"] else start)
        return means + np.einsum("ke,e->k", effects, self._means), effects, unseen

    def _watts(self, cell: Cell) -> float:
        """A cell's watts for each FLOP, W s; 0 where they are unknown, also those that are stated
        of a fitted GPU whose record has none: its steps speak for it."""
        by_steps = ("gemm_efficiency", "unknown power", cell.gpu) in self._place
        return 0.0 if by_steps else cell.watts_per_flop

    def values(self, cell: Cell) -> dict[str, Any]:
        """Inputs and options as a calibration sets them, including the error factor."""
        means, root = self.coefficients_of(cell)
        inputs: dict[str, Any] = {
            "compute_model": "roofline",
            "attention_kernel": self.kernel(cell),
        }
        for setting in self.settings(cell):
            inputs[setting.input] = float(setting.value(means[setting.place])[0])
        width = self.width(cell, root, self.step_spread(cell), self.noise(cell.software))
        further = 1 + self.widening * max(self.beyond_gpus(cell).values(), default=0.0)
        inputs["error_factor"] = elementary.exp(width * self.factor(cell) * further)
        return inputs

    def settings(self, cell: Cell) -> list[Setting]:
        """The settings at a cell: coefficients of its attention kernel with known scales."""
        kernel = self.kernel(cell)
        if kernel == "flash" and self.generation(cell.gpu) == "tpu":
            kernel = "splash"
        scales = {"": 1.0, "node_link": cell.node_link, **self.ceilings(cell)}
        # XLA compiles whole steps, which no host launches kernel by kernel
        whole = self.generation(cell.gpu) == "tpu" or cell.software == "maxtext"
        return [
            Setting(place, about["input"], scales[about["of"]], about["share"])
            for place, (name, about) in enumerate(self.coefficients.items())
            if _KERNELS.get(name, kernel) == kernel and scales[about["of"]]
            if not (whole and name == _HOST)
            and (cell.hides_experts or about["input"] != "expert_parallel_overlap")
            and (cell.layers != "dense" or about["input"] != "expert_launch_time")
        ]

    def noise(self, software: str = "") -> float:
        """Noise scale of a software's steps; the root mean square over all software, if unknown."""
        noise = self.content["noise"]
        every = math.sqrt(np.mean(np.square(list(noise.values()))))
        return float(noise.get(software, every))

    def width(self, cell: Cell, root: Array, step_spread: float, noise: float) -> float:
        """Half the 90 % interval of a step's logarithm; `root` is a root of the covariance."""
        slopes = self.content["slopes"]
        kind = f"{cell.layers}, {self.kernel(cell)}"
        moments = np.array(slopes.get(kind, slopes["dense, flash"]))
        variance = float(np.einsum("ke,kl,le->", root, moments, root)) + step_spread**2
        return math.hypot(NORMAL * math.sqrt(variance), STUDENT * noise)

    def factor(self, cell: Cell) -> float:
        """Factor, 1 or more, on the width that covers 90 of 100 rows as far from measured ones, of
        all rows and of those with such layers."""
        far, unseen = self.far(cell), self.content["unseen"]
        of_layers = {f"{name}, {cell.layers}" for name in far} & unseen.keys()
        return max(1.0, *(float(unseen[name]["typical"]) for name in (*far, *of_layers)))

    def far(self, cell: Cell) -> tuple[str, ...]:
        """How far a cell is from measured ones, as the hold-out tests that match its distance."""
        measured = self.cells.get(cell.name, (0, ""))[1]  # with which attention kernel
        if measured == self.kernel(cell):  # other rows of the same table, or another cluster
            return ("a job", "never fitted")
        reasons = []
        if cell.gpu not in self.content["gpus"]:
            near = self.generation(cell.gpu) in self._generations
            reasons += ["a GPU"] if near else ["a generation", "a GPU"]
        if cell.software not in self.content["software"]:
            reasons.append("one software")
        pairs = {(name.split(", ")[0], name.split(", ")[2]) for name in self.cells}
        paired = (cell.software, cell.gpu) in pairs
        return (*reasons,) or (("a cell",) if paired else ("software on a GPU",))

    def beyond(self, name: str, values: Array) -> Array:
        """Decades by which values of an input lie outside the fitted range; 0 inside."""
        return decades_outside(self.content["ranges"][name], values)

    def beyond_gpus(self, cell: Cell) -> dict[str, float]:
        """Decades by which a GPU's peaks, at those bits and at 16, and its power for each FLOP lie
        outside those of fitted GPUs; none inside."""
        about = {
            "peak at 16 bits": (cell.peak_16, "16 bits"),
            f"peak at {cell.precision}": (cell.peak, cell.precision),
            "power for each FLOP": (self._watts(cell), "watts"),
        }
        fitted = {**self.content["peaks"], "watts": self.content["watts"]}
        decades = {
            name: float(decades_outside(fitted[key], np.array(value)))
            for name, (value, key) in about.items()
            if key in fitted and value
        }
        return {name: far for name, far in decades.items() if far}

    @functools.cached_property
    def widening(self) -> float:
        """Relative growth of the width for each decade outside the fitted range.

        Derived from the extra error on clusters of 1,024 GPUs and more of a fit to 256 and fewer,
        relative to the error on rows with similar ones in the fit; at least LEAST_WIDENING,
        assumed, as no row says what is beyond all of them.
        """
        unseen = self.content["unseen"]
        most = max(one["factor"] for name, one in unseen.items() if name.startswith("more than"))
        return max(float(most / unseen["a job"]["factor"]) - 1, LEAST_WIDENING)

    def provenance(self, cell: Cell) -> str:
        """The data behind a cell's coefficients, their error and how to narrow it, in words."""
        rows = self.cells[cell.name][0] if cell.name in self.cells else 0
        kinds = {"dense": "dense layers", "experts": "mixtures of experts"}
        layers = kinds.get(cell.layers, f"{cell.layers} layers")
        gpu = cell.gpu or "an unknown GPU"
        factor = self.values(cell)["error_factor"]
        if not cell.software:
            cells = ((name.split(", "), count) for name, (count, _) in self.cells.items())
            published = sum(
                count for parts, count in cells if parts[1:3] == [cell.layers, cell.gpu]
            )
            some = f"from {published} published step{'s' * (published > 1)}"
            source = some if published else "with no published step"
            mean = f"the mean of all software, {source} on {gpu} ({layers}), {_width(factor)}"
            return mean + self._never_measured(cell)
        steps = f"published {label_of(cell.software)} steps"
        where = f"on {gpu} ({layers}, {cell.precision})"
        if rows:
            text = f"from {rows} {steps if rows > 1 else steps[:-1]} {where}, {_width(factor)}"
        else:
            text = f"no {steps} {where}; estimated from similar ones, {_width(factor)}"
        return text + self._other_kernel(cell) + self._never_measured(cell)

    def _other_kernel(self, cell: Cell) -> str:
        """The attention kernel of a cell's steps, where it is another; else empty."""
        fitted, kernel = self.cells.get(cell.name, (0, ""))[1], self.kernel(cell)
        if fitted in ("", kernel):
            return ""
        return (
            f"; those steps ran attention_kernel = {fitted}, here it is {kernel}: give {fitted} "
            "for software as old as theirs"
        )

    def _never_measured(self, cell: Cell) -> str:
        """What of a cell no step tells, and where its software does not run; empty if neither."""
        parts = {"vendor": f"a chip of {cell.vendor or 'its vendor'}", "states": cell.states}
        text = "".join(f"; no step of {parts[kind]} is fitted" for kind, _ in self.unmeasured(cell))
        if not cell.watts_per_flop and cell.gpu not in self.content["gpus"]:
            text += "; its power is not known, and taken as an H100's for each FLOP"
        for name, decades in self.beyond_gpus(cell).items():
            text += f"; its {name} is a factor of {10**decades:.2g} outside that of fitted GPUs"
        if cell.new_format:
            text += f"; no step in {cell.new_format} is fitted, others of {cell.precision} are"
        label = label_of(cell.software)
        if not (runs_on := _other_chips(label, cell)):
            return text
        return f"{text}; {label} runs on {', '.join(runs_on)}, not on {cell.vendor}"

    @functools.lru_cache(256)  # noqa: B019
    def narrowest(self, cell: Cell) -> str:
        """The software of the narrowest interval, of those with published steps of such layers,
        where that is at most NARROWER times as wide; else empty."""
        names = {name.split(", ")[0] for name in self.cells if f", {cell.layers}, " in name}
        labels = {label_of(name): name for name in names}
        cells = {
            label: replace(cell, software=labels[label])
            for label in labels.keys() & kind("software").keys()
            if not _other_chips(label, cell)
        }
        widths = {n: math.log(self.values(one)["error_factor"]) for n, one in cells.items()}
        best = min(widths, key=widths.__getitem__, default="")
        width = math.log(self.values(cell)["error_factor"])
        return best if best and widths[best] <= NARROWER * width else ""

    def ceilings(self, cell: Cell) -> dict[str, float]:
        """Peak shares that kernels alone reach on a cell's GPU."""
        table = self.content["ceilings"]
        products = table["gemm, 16 bits" if cell.precision == "16 bits" else "gemm, 8 and 4 bits"]
        is_tpu = self.generation(cell.gpu) == "tpu"
        older = cell.software in self.content["flash_attention_2"]
        attention = table["attention, " + ("FlashAttention-2" if older else "later kernels")]
        others = table["gemm, others"]["tpu" if is_tpu else "other"]
        unknown = attention.get(self.generation(cell.gpu), table["attention, others"]["other"])
        return {
            "gemm": products.get(cell.gpu, others) * self._held_back(cell),
            "attention": attention.get(cell.gpu, unknown),
        }

    def _held_back(self, cell: Cell) -> float:
        """With fewer watts than the fitted ones, each FLOP takes the same energy."""
        least = self.content["watts"][0]
        return float(min((self._watts(cell) or least) / least, 1.0))


@functools.cache
def posterior(path: Traversable = PATH) -> Posterior:
    """The catalog's posterior. Raises CatalogError if the file was edited."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        stated = content["sha256"]
    except (OSError, ValueError, LookupError, TypeError):
        raise CatalogError(
            f"{path.name} is not the posterior of published steps; install fleetcube again"
        ) from None
    if seal(content) != stated:
        raise CatalogError(
            f"{path.name} was edited: its hash is not {str(stated)[:16]}; install fleetcube again, "
            "or refit it: python -m docs.make.pooled"
        )
    return Posterior(content)
