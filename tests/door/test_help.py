"""The command line: runnable help, errors, exit status, completion, progress."""

import io
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

from fleetcube.analysis.uncertainty import METHODS
from fleetcube.catalog import KINDS, CatalogError, kind
from fleetcube.cli import cli, run
from fleetcube.commands.shared import complete
from fleetcube.commands.shared.listing import LISTING
from fleetcube.commands.shared.progress import progress
from fleetcube.grid import progress as bars
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.engine import ENGINES
from fleetcube.grid.progress import expected

from .command import fleetcube
from .test_calibrate_command import SPEC, STEPS, log

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(cli.commands)


def help_of(name: str) -> str:
    """The help of a command, or of all of them, on a terminal of 80 columns."""
    top = click.Context(cli, info_name="fleetcube", terminal_width=80, **cli.context_settings)
    if not name:
        return cli.get_help(top)
    command = cli.commands[name]
    return command.get_help(click.Context(command, info_name=name, parent=top))


def examples(name: str) -> list[list[str]]:
    """Command lines of a help's examples, without redirections."""
    text = help_of(name).partition("Example:\n")[2].partition("\n\n")[0]
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    kept = [line.partition(" > ")[0] for line in lines if line.startswith("fleetcube ")]
    return [shlex.split(line)[1:] for line in kept]


EXAMPLES = [line for name in ("run", *COMMANDS) for line in examples(name)]


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_a_terminal_and_gives_an_example(name: str) -> None:
    assert max(map(len, help_of(name).splitlines())) <= 80
    assert examples(name)
    assert all(not name or line[0] == name for line in examples(name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "all_reduce.log").write_text(log(), encoding="utf-8")
    (folder / "steps.csv").write_text(STEPS, encoding="utf-8")
    (folder / "events.csv").write_text("kind,count\ngpu,148\n", encoding="utf-8")
    (folder / "launch.sh").write_text("torchrun train.py --num-layers 4\n", encoding="utf-8")
    (folder / "job.toml").write_text(SPEC, encoding="utf-8")
    (folder / "train.log").write_text(TRAINED, encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(SHAPE), encoding="utf-8")
    drawn = help_of("uncertainty").partition("In the spec:\n")[2].partition("\n\n")[0]
    uncertain = SPEC.replace("step_time", "job_time") + drawn
    (folder / "spec.toml").write_text(uncertain, encoding="utf-8")
    (folder / "mine.json").write_text(MINE, encoding="utf-8")
    return folder


TRAINED = "".join(
    f"iteration {k}/ 90 | elapsed time per iteration (ms): {9000 + k} | global batch size: 1024 |\n"
    for k in range(20)
)
SHAPE = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096} | {
    **{"num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000}
}
MINE = """[{"id": "a/1", "group": "my-cluster", "source": "mine", "inputs": {"model": "llama-3-8b",
"gpu": "h100-sxm", "n_gpus": 64, "global_batch_size": 128, "fabric": "infiniband-ndr"},
"measured": {"step_time": 2.0}}]"""


@pytest.mark.slow
def test_every_example_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in ("matplotlib", "SALib"):
        pytest.importorskip(extra)
    monkeypatch.chdir(folder)
    for line in dict.fromkeys(map(tuple, EXAMPLES)):
        words = ["10" if word == "100" else word for word in line]  # trials
        if words[0] == "explore" or any(word.startswith("s3://") for word in words):
            cli.commands[words[0]].make_context(words[0], words[1:])
        else:
            cli.main(words, prog_name="fleetcube", standalone_mode=False)
    assert (folder / "my-cluster.toml").exists()
    assert (folder / "failures.csv").exists()


def exits(monkeypatch: pytest.MonkeyPatch, error: BaseException, *arguments: str) -> Any:
    def fail(name: str | None) -> str:
        raise error

    monkeypatch.setattr("fleetcube.presentation.explain.explain", fail)
    monkeypatch.setattr(sys, "argv", ["fleetcube", *arguments, "explain", "goodput"])
    monkeypatch.setenv("FLEETCUBE_DEBUG", "")  # restored after the test
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as end:
        run()
    return end.value.code


FAILURES: list[tuple[BaseException, int, str]] = [
    (InputError("a = 1\n is wrong; give 2"), 2, "fleetcube: a = 1 is wrong; give 2\n"),
    (CatalogError("no gpu 'x'; see the list"), 2, "fleetcube: no gpu 'x'; see the list\n"),
    (click.UsageError("no such thing"), 2, "no such thing; see `fleetcube explain --help`\n"),
    (OSError("disk full"), 1, "fleetcube: disk full\n"),
    (KeyboardInterrupt("2 blocks are kept"), 130, "fleetcube: stopped; 2 blocks are kept\n"),
    (MemoryError(), 1, "fleetcube: out of memory; use fewer threads or float32\n"),
    (KeyError("x"), 1, "fleetcube: KeyError: 'x'; `fleetcube --debug ...` shows where\n"),
]


@pytest.mark.parametrize(("error", "status", "told"), FAILURES, ids=lambda case: str(case)[:20])
def test_an_error_is_its_exit_status_and_one_line(
    error: BaseException,
    status: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exits(monkeypatch, error) == status
    assert capsys.readouterr().err.endswith(told)


@pytest.mark.parametrize("error", [KeyError("x"), InputError("a = 1 is wrong; give 2")])
def test_debug_shows_where_and_keeps_the_status(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = exits(monkeypatch, error)
    assert "Traceback" not in capsys.readouterr().err
    assert exits(monkeypatch, error, "--debug") == plain
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    assert ", in fail" in told
    assert told.splitlines()[-1].startswith("fleetcube: ")


def test_success_is_zero_and_the_module_is_the_command() -> None:
    module = [sys.executable, "-m", "fleetcube", "--version"]
    done = subprocess.run(module, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"fleetcube, version [\d.]+\n", done.stdout)
    assert fleetcube("explain", "xyzzy").returncode == 2


@pytest.mark.parametrize("shell", ["zsh", "fish"])  # click asks bash itself for its version
def test_a_shell_gets_a_completion_script(shell: str) -> None:
    done = fleetcube(_FLEETCUBE_COMPLETE=f"{shell}_source")
    assert done.returncode == 0
    assert f"_FLEETCUBE_COMPLETE={shell}_complete" in done.stdout


def test_commands_and_options_complete() -> None:
    at = {"_FLEETCUBE_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    done = fleetcube(**at, COMP_WORDS="fleetcube s")
    assert done.stdout.split() == [f"plain,{name}" for name in COMMANDS if name.startswith("s")]
    at["COMP_CWORD"] = "2"
    assert "plain,--append" in fleetcube(**at, COMP_WORDS="fleetcube run --a").stdout


def completed(*words: str) -> list[str]:
    shell = ShellComplete(cli, {}, "fleetcube", "_FLEETCUBE_COMPLETE")
    *before, begun = words
    return [item.value for item in shell.get_completions(before, begun)]


def test_choices_complete_and_are_those_that_are_accepted() -> None:
    for command in ("run", "solve"):
        assert completed(command, "a.toml", "--engine", "") == list(ENGINES)
    assert completed("run", "a.toml", "--dtype", "float3") == ["float32"]
    assert completed("uncertainty", "a.toml", "--method", "") == list(METHODS)
    assert completed("plot", "a.zarr", "--kind", "par") == ["pareto"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["run", "a.toml", "-v", "young_int"], ["young_interval"]),
        (["run", "a.toml", "gpu_mt"], ["gpu_mttf="]),
        (["run", "a.toml", "gpu=h100-s"], ["gpu=h100-sxm"]),
        (["run", "a.toml", "n_gpus=8", "checkpoint_policy=d"], ["checkpoint_policy=daly"]),
        (["run", "a.toml", "gated_ffn=t"], ["gated_ffn=true"]),
        (["run", "a.toml", "gpu", "=", "h100-s"], ["h100-sxm"]),  # as bash splits it
        (["run", "a.toml", "checkpoint_policy", ""], ["exact", "daly", "young", "fixed", "steps"]),
        (["run", "a.toml", "xyzzy=1"], []),
        (["catalog", "mod"], ["model"]),
        (["catalog", "gpu", "h100-s"], ["h100-sxm"]),
        (["catalog", "xyzzy", ""], []),
        (["explain", "cluster_m"], ["cluster_mtbf"]),
        (["best", "a.toml", "--search", "n_gp"], ["n_gpus="]),
        (["calibrate", "a.log", "--collective", "all_r"], ["all_reduce"]),
    ],
)
def test_names_and_labels_complete(words: list[str], offered: list[str]) -> None:
    assert completed(*words) == offered


def test_labels_that_complete_are_those_of_the_catalog() -> None:
    for name in KINDS:
        assert complete.labels(name) == list(kind(name))


def test_completing_loads_little() -> None:
    script = (
        "import sys; from fleetcube.commands.shared import complete as c; import fleetcube.cli;"
        "c.inputs(0, 0, ''), c.labels('gpu');"
        "assert not {'pint', 'xarray', 'numba', 'zarr'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["run", "a.toml", "--engine", "nunba"],
            "--engine 'nunba' is not one of auto, numpy, numba",
        ),
        (
            ["plot", "a.zarr", "--kind", "x\ny", "-o", "a.png"],
            "--kind 'x\\ny' is not one of curves",
        ),
    ],
)
def test_a_bad_choice_is_one_line(words: list[str], told: str) -> None:
    done = fleetcube(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"fleetcube: {told}")
    assert done.stderr.count("\n") == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, told: bool) -> str:
    """Progress output of a command that takes half a second."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("evaluating"):
        done = expected(12_000_000, "values") if told else int
        time.sleep(0.3)
        done(3_000_000)
        time.sleep(0.3)
    return stream.getvalue()


def test_a_terminal_sees_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bars, "AFTER", 0.05)
    told = shown(monkeypatch, Terminal(), True)
    plain = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", told)
    assert re.search(r"evaluating .* 25 %  \S+ values/s +\d+ s elapsed(, \d+ s left)?", plain)
    assert max(map(len, re.split(r"[\r\n]", plain))) <= 80
    untold = shown(monkeypatch, Terminal(), False)
    assert "evaluating" in untold
    assert "%" not in untold


def test_no_bar_within_a_second_or_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "evaluating" not in shown(monkeypatch, Terminal(), True)
    monkeypatch.setattr(bars, "AFTER", 0.05)
    assert shown(monkeypatch, io.StringIO(), True) == ""


def test_every_command_is_listed_once() -> None:
    names = [name for rows in LISTING.values() for name in rows]
    assert sorted(names) == sorted(cli.commands)
    shown = fleetcube("--help").stdout
    for rows in LISTING.values():
        for name, text in rows.items():
            assert re.search(rf"^  {name} +{re.escape(text)}$", shown, re.MULTILINE), name
