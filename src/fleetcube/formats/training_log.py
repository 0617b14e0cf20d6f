"""Training logs: the time of each step as a framework prints it, and their median.

A step counts once, as first printed: a job that resumed prints some again, and some programs print
each on every rank. Steps are then left out, and counted: those of another global batch; odd ones at
the start (compiling, filling caches; MaxText prints the time to start its second step); odd
ones later (checkpoints, evaluations). A step is odd if it is farther from the median than `_ODD`
robust deviations (Iglewicz and Hoaglin 1993, a modified z-score of 3.5), none below `_LEAST`.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from fleetcube.grid.errors import InputError

LARGEST = 1 << 26  # bytes of a log
LONGEST = 4096  # characters of a line that are read
MOST = 1_000_000  # steps
ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_ODD = 3.5  # robust deviations
_NORMAL = 1.4826  # deviation of a normal distribution over its median absolute deviation
_LEAST = 0.01  # of the median: times of steady jobs are all alike as printed
_LINE = re.compile(r"[^\r\n]+")  # bars of progress are written over with \r
_NUMBER = r"\s*(\d[\d,]{0,20}(?:\.\d{0,20})?(?:[eE][+-]?\d{1,3})?)"
STEP, SAMPLE, TOKEN = "step", "sample", "token of a GPU"
_BRIDGE = "Step Time :"  # above the line of an iteration: training/utils/train_utils.py of it


@dataclass(frozen=True)
class Format:
    """How a framework prints a step, in lines with `mark`. `pattern` has one group for each of step
    number, time, global batch and TFLOP/s per GPU. `unit` [s] is of a time; None if the log has
    rates of what `per` names. `mean`: over all steps since the line before. A number that is not
    printed has a group that matches nothing."""

    framework: str
    source: str
    mark: str
    pattern: str
    unit: float | None = 1.0
    per: str = STEP
    mean: bool = False

    def read(self, text: str) -> dict[int, float]:
        """Numbers in a line by group, as first printed."""
        numbers: dict[int, float] = {}
        for match in re.finditer(self.pattern, text):
            which = match.lastindex or 0
            numbers.setdefault(which, float(match[which].replace(",", "")))
        return numbers


FORMATS = (
    Format(
        "Megatron-LM",
        "NVIDIA/Megatron-LM, megatron/training/training.py (training_log)",
        "elapsed time per iteration (ms):",
        rf"\biteration\s+(\d{{1,12}})/|elapsed time per iteration \(ms\):{_NUMBER}"
        rf"|global batch size:{_NUMBER}"
        r"|(?:throughput per GPU \(TFLOP/s/GPU\)|GPU utilization|TFLOPs|approx flops per GPU):"
        rf"{_NUMBER}",
        1e-3,
        mean=True,
    ),
    Format(
        "MaxText",
        "AI-Hypercomputer/maxtext, metric_logger.py",
        "completed step:",
        rf"completed step: (\d{{1,12}})\b|\bseconds:{_NUMBER}|(\b\B)|TFLOP/s(?:/device)?:{_NUMBER}",
    ),
    Format(
        "NeMo",
        "NVIDIA/NeMo, nemo/utils/exp_manager.py (TimingCallback); Megatron's progress printer; "
        "lines of NVIDIA's DLLogger",
        "train_step_timing in s",
        rf'\bglobal_step"?[:=]{_NUMBER}|train_step_timing in s"?[:=]{_NUMBER}'
        rf'|\bglobal_batch_size"?[:=]{_NUMBER}|TFLOPS_per_GPU"?[:=]{_NUMBER}',
    ),
    Format(
        "torchtitan",
        "pytorch/torchtitan, torchtitan/components/metrics.py (MetricsProcessor.log)",
        "ps:",  # wps before 2025
        rf"(?<!validate )\bstep:\s*(\d{{1,12}})|\b[tw]ps:{_NUMBER}|(\b\B)|\btflops:{_NUMBER}",
        None,
        TOKEN,
        mean=True,
    ),
    Format(
        "DeepSpeed",
        "deepspeedai/DeepSpeed, deepspeed/utils/timer.py (ThroughputTimer.stop)",
        "CurrSamplesPerSec=",
        rf"(?:\bglobal_step=|\bstop\] \d{{1,12}}/)(\d{{1,12}}),|CurrSamplesPerSec={_NUMBER}",
        None,
        SAMPLE,
    ),
    Format(
        "DeepSpeed",
        "deepspeedai/DeepSpeed, deepspeed/runtime/pipe/engine.py (train_batch)",
        "iter time (s):",
        rf"\bsteps?:\s*(\d{{1,12}})|iter time \(s\):{_NUMBER}",
        mean=True,
    ),
)
_NUMBERED, _TIME, _BATCH, _FLOPS = 1, 2, 3, 4  # groups of the patterns
# Tables of W&B ("Step", "run - metric") and TensorBoard, whose metric is in the name of the file
_STEPS = re.compile(r"(?i)(?:.*[/_ ])?step|iteration")
_SECONDS = re.compile(  # tags of Megatron, torchtitan, MaxText, NeMo, and usual ones
    r"(?i)(?:.*[-/_ .])?(?:iteration[-_ ]time|step[-_ ]time(?:[-_ ]seconds)?"
    r"|time_metrics[/_]end_to_end_?\(?s\)?_?|train_step_timing[-_ ]in[-_ ]s)"
)
_TENSORBOARD = ["Wall time", "Step", "Value"]
_EXPORT = Format("export", "TensorBoard and Weights & Biases, CSV of a chart", "", "")


@dataclass(frozen=True)
class Step:
    """A step as printed: `time` [s] of it, of one of its samples or of a token of one GPU."""

    number: int
    time: float
    batch: float | None = None
    flops: float | None = None  # [TFLOP/s] of one GPU


@dataclass(frozen=True)
class TrainingLog:
    """The usual steps of a log in order, and the number of others by reason."""

    framework: str
    per: str
    steps: tuple[Step, ...]
    left_out: Mapping[str, int] = field(hash=False)
    notes: tuple[str, ...]

    @property
    def time(self) -> float:
        """The median."""
        return float(np.median([step.time for step in self.steps]))

    @property
    def standard_error(self) -> float | None:
        """Of the median, by batch means: neighbouring steps are alike. None below four steps.

        Source: Flegal and Jones 2010, Annals of Statistics 38(2) (batches of sqrt(n))
        """
        batches = math.isqrt(len(self.steps))
        if batches < 2:
            return None
        size = len(self.steps) // batches
        times = np.array([step.time for step in self.steps[: batches * size]])
        medians = np.median(times.reshape(batches, size), axis=1)
        return float(medians.std(ddof=1) / math.sqrt(batches))

    @property
    def batch(self) -> float | None:
        """The global batch of these steps, if the log prints it."""
        return self.steps[0].batch

    @property
    def flops(self) -> float | None:
        """Median [TFLOP/s] of one GPU, as printed."""
        printed = [step.flops for step in self.steps if step.flops is not None]
        return float(np.median(printed)) if printed else None

    def summary_lines(self) -> list[str]:
        """Lines for people: the median time, the steps left out, and notes."""
        error = self.standard_error
        median = f"{self.framework}: median of {len(self.steps)} {self.time:.5g} s per {self.per}"
        median += ", too few for a standard error" if error is None else f" +- {error:.2g} s"
        median += "" if self.flops is None else f"; {self.flops:.4g} TFLOP/s per GPU as printed"
        left = [f"{count} {reason}" for reason, count in self.left_out.items() if count]
        return [median, *([f"left out: {', '.join(left)}"] if left else []), *self.notes]


def is_training_log(text: str) -> bool:
    return _exported(text) is not None or next(_printed(text), None) is not None


def parse_training_log(text: str, name: str = "") -> TrainingLog:
    """The steps of a log's text; `name` is that of the file. Raises InputError."""
    printed: dict[Format, dict[int, Step]] = {}
    repeated: Counter[Format] = Counter()
    for form, step in _rows(text, name) if _exported(text) is not None else _printed(text):
        if step.number in printed.setdefault(form, {}):
            repeated[form] += 1
        printed[form][step.number] = printed[form].get(step.number, step)
        if len(printed[form]) > MOST:
            raise InputError(f"the log has more than {MOST:,} steps; give part of it")
    if not printed:
        frameworks = ", ".join(dict.fromkeys(form.framework for form in FORMATS))
        raise InputError(f"no line is a step of {frameworks}, and no chart of W&B; give such a log")
    form = min(printed, key=lambda form: (form.per != STEP, -len(printed[form])))
    steps = list(printed[form].values())
    notes = []
    usual = np.median([b.number - a.number for a, b in pairwise(steps)] or [1])
    if form.mean and usual > 1:
        notes.append(f"each time is the mean of {usual:.0f} steps, as printed")
    if repeated[form]:
        notes.append(f"{repeated[form]} lines repeat a step, which counts once, as first printed")
    return _without_odd_steps(form, steps, notes)


def _printed(text: str) -> Iterator[tuple[Format, Step]]:
    """Every step of a log's text."""
    above = ""
    for match in _LINE.finditer(text):
        line = text[match.start() : min(match.end(), match.start() + LONGEST)]
        if _BRIDGE in line:
            above = line
        for form in FORMATS:
            if form.mark not in line:
                continue
            numbers = form.read(ESCAPES.sub("", f"{above} {line}"))
            time = _seconds(numbers.get(_TIME), form)
            if time is not None and _NUMBERED in numbers:
                number = int(min(numbers[_NUMBERED], 1e12))
                named = replace(form, framework="Megatron-Bridge") if above else form
                above = ""
                yield named, Step(number, time, numbers.get(_BATCH), numbers.get(_FLOPS))
                break


def _seconds(value: float | None, form: Format) -> float | None:
    """A printed time or rate as a time, if it can be one."""
    if value is None or not 0 < value < math.inf:
        return None
    time = 1 / value if form.unit is None else value * form.unit
    return time if 0 < time < math.inf else None


def _without_odd_steps(form: Format, steps: list[Step], notes: list[str]) -> TrainingLog:
    """Steps of the usual batch without the odd ones."""
    batch = Counter(step.batch for step in steps).most_common(1)[0][0]
    alike = [step for step in steps if step.batch == batch]
    times = np.array([step.time for step in alike])
    median = float(np.median(times))
    deviation = max(_NORMAL * float(np.median(np.abs(times - median))), _LEAST * median)
    limit = _ODD * deviation
    odd = np.abs(times - median) > limit
    warm = int(np.argmin(odd))  # steps before the first that is not odd
    left_out = {
        "of another global batch": len(steps) - len(alike),
        "of warm-up": warm,
        f"of {len(alike)} over {limit / median:.2g} times the median away from it": int(
            odd[warm:].sum()
        ),
    }
    usual = tuple(step for step, out in zip(alike, odd, strict=True) if not out)
    return TrainingLog(form.framework, form.per, usual, left_out, tuple(notes))


def _exported(text: str) -> tuple[int, int] | None:
    """Columns of step and time in a table of W&B or TensorBoard; None for other text."""
    names = _headings(text)
    if names == _TENSORBOARD:
        return 1, 2
    timed = [k for k, name in enumerate(names) if k and " - " in name and _SECONDS.fullmatch(name)]
    return (0, timed[0]) if timed and _STEPS.fullmatch(names[0]) else None


def _headings(text: str) -> list[str]:
    """Cells of the first line."""
    line = _LINE.search(text)
    return [*map(str.strip, next(csv.reader([line[0][:LONGEST]] if line else []), []))]


def _rows(text: str, name: str) -> Iterator[tuple[Format, Step]]:
    """The steps of an exported table. TensorBoard's times are differences of wall time where its
    values are not times of steps."""
    number, timed = _exported(text) or (0, 1)
    names = _headings(text)
    if sum(_SECONDS.fullmatch(name) is not None for name in names) > 1:
        raise InputError("the table has times of several runs; keep the column of one")
    tagged = _SECONDS.fullmatch(Path(name).stem.rpartition("tag-")[2])  # run-RUN-tag-TAG.csv
    by_clock = names == _TENSORBOARD and not tagged
    before: tuple[float, float] | None = None
    for line in _LINE.finditer(text):
        cells = line[0][:LONGEST].replace('"', "").split(",")
        try:
            step, value, clock = (float(cells[k]) for k in (number, timed, 0))
        except (ValueError, IndexError):
            continue  # an empty cell: this run has no such step
        if by_clock:
            value = (clock - before[1]) / (step - before[0]) if before and step > before[0] else 0
            before = step, clock
        time = _seconds(value, _EXPORT)
        if time is not None and abs(step) < 1e12:
            yield _EXPORT, Step(int(step), time)
