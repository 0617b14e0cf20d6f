"""`fleetcube diagnose`: compare a measured step with the predicted one and suggest changes."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed
from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.say import say, say_each, say_wrapped
from fleetcube.commands.shared.table import print_foot, print_table, with_unit
from fleetcube.grid.errors import InputError

if TYPE_CHECKING:
    from fleetcube.formats.field_table import Job

_PARTS, _CAUSES = 5, 7  # lines shown
_MOST = 30  # times a part: more is no explanation


@click.command()
@complete.spec_and_selectors
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in base units.")
def diagnose(spec: str, selectors: tuple[str, ...], as_json: bool) -> None:
    """Compare a measured step with its prediction; show causes and changes.

    One of SELECTORS states the measurement: step_time, mfu, hfu, model_flops_per_gpu or
    tokens_per_second; or one is a training log, which SPEC may be itself where it prints its
    arguments. The others change the spec.

    \b
    Example:
      fleetcube diagnose examples/h100.toml pipeline_parallel=4 n_gpus=2048 \\
          mfu=0.32
      fleetcube diagnose examples/pretrain-llama-3-70b.sh train.log \\
          node=dgx-h100
    """
    from fleetcube.analysis.diagnose import RATES, STEP
    from fleetcube.analysis.diagnose import diagnose as asked
    from fleetcube.formats.read import job_at
    from fleetcube.tables.selectors import pairs

    logs = [text for text in selectors if "=" not in text]
    stated = [text for text in selectors if "=" in text]
    measured: dict[str, Any] = {n: v for n, v in pairs(stated).items() if n in (STEP, *RATES)}
    others = [text for text in stated if text.partition("=")[0] not in measured]
    sweep = changed(spec, others, otherwise=[STEP])
    if logs or not measured:
        measured |= _logged(logs, spec, sweep)
    with progress("diagnosing"):
        diagnosis = asked(sweep, **measured)
    if as_json:
        say(json.dumps(dataclasses.asdict(diagnosis)))
        return
    _print_verdict(diagnosis)
    _print_published(diagnosis)
    job = job_at(spec, pairs(others))
    _print_overlap(diagnosis, job)
    if not diagnosis.impossible:
        _print_causes(diagnosis)
        _print_changes(diagnosis, job)
    print_foot(sweep.with_outputs([STEP]).evaluate())


def _logged(paths: Sequence[str], spec: str, sweep: Any) -> dict[str, float]:
    """The step of a training log, which the spec may be; print what the log left out."""
    from fleetcube.analysis.diagnose import RATES, STEP
    from fleetcube.calibration.logged import step_of, training_logs
    from fleetcube.scenario.along_axes import point

    logs = training_logs(paths or [spec])
    if len(paths) > 1 or (paths and not logs):
        raise InputError(f"{paths[-1]!r} is not one training log; give one, or step_time=...")
    for path, log in logs.items():
        say_each([f"{path}: {line}" for line in log.summary_lines()])
        printed = {} if log.flops is None else {"model_flops_per_gpu": log.flops * 1e12}
        return {STEP: step_of(log, point(sweep))[0], **printed}
    raise InputError(
        f"no measured value of {spec!r} is given; add {STEP}=12.4s, one of {', '.join(RATES)}, or "
        "the path of its training log"
    )


def _print_verdict(diagnosis: Any) -> None:
    if diagnosis.impossible:
        say_wrapped(f"impossible: {diagnosis.impossible}")
    ratio = diagnosis.measured / diagnosis.predicted
    ends = f" ({with_unit(diagnosis.low, 's', '')} to {with_unit(diagnosis.high, 's', '')})"
    has_interval = diagnosis.low == diagnosis.low
    place = "inside" if diagnosis.inside else "outside"
    step, expected = (
        with_unit(time, "s", "") for time in (diagnosis.measured, diagnosis.predicted)
    )
    say_wrapped(
        f"measured: a step of {step}, MFU {diagnosis.mfu:.3f}; "
        f"predicted: {expected}{ends * has_interval}, MFU {diagnosis.mfu * ratio:.3f}"
    )
    interval_text = f", {place} the 90 % interval" if has_interval else ""
    say(f"the step takes {ratio:.3g} times the predicted time{interval_text}")
    if diagnosis.reason:
        say(f"by the model this cannot run: {diagnosis.reason}")
    if diagnosis.counting:
        say_wrapped(diagnosis.counting)


def _print_published(diagnosis: Any) -> None:
    if diagnosis.best is not None:
        mfu = diagnosis.mfu * diagnosis.measured / diagnosis.predicted / diagnosis.best.step_ratio
        say_wrapped(
            f"a good run of this model on these GPUs: MFU {mfu:.3f} ({diagnosis.best_layout})"
        )
    for run in diagnosis.published:
        model = run.model or f"{run.parameters / 1e9:.3g}e9 parameters"
        agrees = ", of fewer GPUs, agrees with the measured one" * run.agrees
        line = f"published: {model}, {run.n_gpus:.0f} GPUs: MFU {run.mfu:.3f} ({run.id}){agrees}"
        say_wrapped(line)


def _print_overlap(diagnosis: Any, job: "Job | None") -> None:
    """Name the flags that hide traffic and that a script lacks, with what they would hide."""
    flags = [] if job is None else [n for n in job.table.overlaps if not job.fields.get(n)]
    if flags and diagnosis.hidden > 0:
        share = diagnosis.hidden / diagnosis.predicted
        say_wrapped(
            f"the script lacks {' and '.join(f'--{name}' for name in flags)}, which would hide "
            f"{with_unit(diagnosis.hidden, 's', '')} of a step ({share:.1%})"
        )


def _print_causes(diagnosis: Any) -> None:
    from fleetcube.grid.spec.values import unit_of
    from fleetcube.kernels.physics.graph import PHYSICS

    gap = diagnosis.measured - diagnosis.predicted
    say("")
    direction = "slower" if gap > 0 else "faster"
    size = with_unit(abs(gap), "s", "")
    near = [(part, "s") for part in diagnosis.parts if part.needed < _MOST * part.now][:_PARTS]
    near += [(cause, unit_of(PHYSICS, cause.name)) for cause in diagnosis.causes[:_CAUSES]]
    rows = []
    for cause, unit in sorted(near, key=lambda row: row[0].deviations):
        ends = (with_unit(number, unit, "") for number in (cause.now, cause.needed))
        rows.append([cause.name, *ends, f"{cause.deviations:.1f}"])
    ending = "; one of these alone would explain it:" if rows else ", which no input alone explains"
    say(f"{size} {direction} than predicted{ending}")
    if rows:
        print_table(["", "as predicted", "would be", "deviations"], rows)


def _print_changes(diagnosis: Any, job: "Job | None") -> None:
    """Print changes as flags of the config that was read, with their effects."""
    say("")
    limit = diagnosis.memory_limit
    if not diagnosis.changes:
        say("no change of one input of the layout brings more than 0.5 %")
    for change in diagnosis.changes:
        mfu = diagnosis.mfu / change.step_ratio
        fits = f"{change.memory / 1e9:.1f} of {limit / 1e9:.1f} GB"
        say_wrapped(
            f"{', '.join(_flags(job, change.inputs))}: step {change.step_ratio - 1:+.1%}, "
            f"MFU {diagnosis.mfu:.3f} -> {mfu:.3f}, memory {fits}"
        )


def _flags(job: "Job | None", inputs: Mapping[str, Any]) -> list[str]:
    from fleetcube.analysis.layouts import in_command
    from fleetcube.formats.write import WRITERS, changed

    if job is None or job.table.software not in WRITERS:
        return [f"{name}={in_command(value)}" for name, value in inputs.items()]
    lines = changed(job, inputs)
    added = [line[2:] for line in lines if line.startswith("+")]
    return added or [f"without {line[2:]}" for line in lines]
