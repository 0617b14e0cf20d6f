"""Predictions made before measurements: never rewritten, and only of unmeasured runs."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from docs.make import frozen
from fleetcube.calibration.measurements import read_records
from fleetcube.grid.errors import InputError

TEXT = "id,source,model,node,fabric,n_gpus,global_batch_size,precision\n"
JOB = "there,llama-3-8b,dgx-h100,infiniband-ndr,64"
ROWS = f"a,{JOB},128,bf16\nb,{JOB},256,fp8\n"
NONE = "id,step_time,tokens_per_second,source,date\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Predictions of two configurations, and nothing measured."""
    path, of, values = (tmp_path / name for name in ("p.jsonl", "c.csv", "m.csv"))
    of.write_text(TEXT + ROWS)
    values.write_text(NONE)
    assert frozen.freeze("2026-11-23", path, of, values) == 2
    return path, of, values


def test_lines_are_only_ever_added(files: tuple[Path, Path, Path]) -> None:
    path, of, values = files
    before = path.read_bytes()
    assert frozen.freeze("2026-11-24", path, of, values) == 0  # nothing is new
    values.write_text(NONE + "b,1.5,,there,2027-01-01\n")
    of.write_text(of.read_text().replace(",128,", ",512,").replace(",256,", ",512,"))
    assert frozen.freeze("2027-01-02", path, of, values) == 1  # b was measured
    assert path.read_bytes().startswith(before)
    assert [entry["id"] for entry in frozen.predictions(path)] == ["a", "b", "a"]
    with pytest.raises(InputError, match=r"--date 2026-12-31 is before 2027-01-02 of p\.jsonl"):
        frozen.freeze("2026-12-31", path, of, values)


def test_hashes_are_chained(files: tuple[Path, Path, Path]) -> None:
    before = ""
    for line in files[0].read_text().splitlines():
        entry = json.loads(line)
        stated = entry.pop("sha256")
        content = json.dumps(entry, sort_keys=True)
        before = hashlib.sha256((before + content).encode()).hexdigest()
        assert stated == before


def test_what_was_changed_is_refused(files: tuple[Path, Path, Path]) -> None:
    path = files[0]
    a, b = path.read_text().splitlines()
    for lines, wrong in [
        ([a.replace("2026-11-23", "2026-11-22"), b], 1),
        ([a, re.sub(r'("step_time": \d)', r"\g<1>1", b)], 2),
        ([b], 1),
        ([b, a], 1),
        ([a, a, b], 2),
        ([a, b[:40]], 2),
        ([a, "[]"], 2),
        ([a, ""], 2),
    ]:
        path.write_text("\n".join(lines) + "\n")
        for use in (frozen.predictions, lambda p: frozen.freeze("2027-01-01", p, *files[1:])):
            with pytest.raises(InputError, match=f"line {wrong} is not as it was") as error:
                use(path)
            assert "\n" not in str(error.value)
        assert path.read_text().splitlines() == lines
    path.write_text(f"{a}\n{b}")  # an appended line would corrupt it
    with pytest.raises(InputError, match="line 2 is not as it was"):
        frozen.predictions(path)


def test_predictions_are_compared(files: tuple[Path, Path, Path]) -> None:
    path, _, values = files
    a, b = frozen.predictions(path)
    seconds, tokens = a["step_time"] / 1.1, 128 * 8192.0
    rate = 256 * 8192 / (2 * b["high"])  # steps of twice the longest time
    values.write_text(
        f"id,step_time,tokens_per_second_per_gpu,source,date\n"
        f"a,{seconds},,there,2027-01-01\nb,,{rate / 64},then,2027-02-01\n"
    )
    first, second = frozen.outcomes([a, b], values)
    assert first.error == pytest.approx(0.1)
    assert second.measured == pytest.approx(2 * b["high"])
    assert (first.inside, second.inside) == (True, False)
    assert tokens / a["tokens_per_second"] == pytest.approx(a["step_time"])
    told = frozen.text([a, b], [first, second])
    mean = (10 + 100 * (1 - b["step_time"] / (2 * b["high"]))) / 2
    assert f"2 compared: {mean:.1f} % mean error, 1 inside the interval." in told
    assert "| +10.0 % | yes |" in told
    assert "None is open." in told
    values.write_text(NONE + "c,1.5,,there,2027-01-01\n")
    with pytest.raises(InputError, match=r"m\.csv: c was not predicted; name an id that was"):
        frozen.outcomes([a, b], values)
    values.write_text(NONE + "a,1.5,,there,\n")
    with pytest.raises(InputError, match=r"m\.csv: a has no source or date; give both"):
        frozen.outcomes([a, b], values)


def test_no_configuration_was_measured() -> None:
    found = frozen.configurations()
    assert 15 <= len(found) == len({one["id"] for one in found})
    names = ("model", "node", "n_gpus", "precision", "sequence_length", "global_batch_size")
    measured = {tuple(row.inputs.get(name) for name in names) for row in read_records()[0]}
    assert ("llama-3-70b", "gb300-nvl72", 64, "fp8", 8192, 256) in measured
    for one in found:
        inputs = one["inputs"]
        assert tuple(inputs.get(name) for name in names) not in measured, one["id"]
        assert one["source"].startswith("https://")
        ranks = ("tensor_parallel", "pipeline_parallel", "context_parallel")
        replicas = inputs["n_gpus"]
        for name in ranks:
            replicas /= inputs[name]
        assert (inputs["global_batch_size"] / inputs["micro_batch_size"]) % replicas == 0, one["id"]


def test_the_page_is_what_is_generated() -> None:
    assert frozen.PAGE.read_text(encoding="utf-8") == frozen.page(), (
        "run `python -m docs.make docs/frozen.md`"
    )
