"""Scripts are read as bash runs them: it is asked what it passes to what a script launches.

A field that is read has the value that bash passes, or is left open; a field that bash passes is
read or left open; and what an environment may change is left open.
"""

import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fleetcube.formats import megatron_lm, shell
from fleetcube.grid.errors import InputError

from ..draws import scaled

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(not BASH, reason="bash is the judge")
LAUNCHERS = ("torchrun", "deepspeed", "accelerate", "python", "python3")
# In one write: launches in the background would mix their words
STAND_IN = """#!/bin/sh
printf '%s\\n' "$0" "$@" "$(printf '\\001')" >> "$RECORD"
"""
# Those that start the command in their last words
STARTERS = {
    **dict.fromkeys(
        ("srun", "mpirun", "docker"),
        """#!/bin/sh
while [ $# -gt 0 ]; do
  case ${1##*/} in bash|sh|torchrun|python*|deepspeed) exec "$@" ;; esac
  shift
done
""",
    ),
    **dict.fromkeys(("ssh", "pdsh"), '#!/bin/sh\nfor last; do :; done\nexec bash -c "$last"\n'),
    "sbatch": '#!/bin/sh\nexec bash "$@"\n',
}
# Options of launchers, which are read in front of what they launch
COUNTS = ("nodes", "N", "n", "np", "ntasks", "gres", "gpus-per-node", "ntasks-per-node")


def passed(scripts: Sequence[str], folder: Path, **environment: str) -> list[list[list[str]]]:
    """What bash passes to the launchers of each script, word by word, in an empty environment."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in {**dict.fromkeys(LAUNCHERS, STAND_IN), **STARTERS}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    lines = []
    for number, text in enumerate(scripts):
        (folder / f"{number}.sh").write_text(text)
        (folder / f"{number}.txt").write_text("")
        lines.append(
            f"RECORD={folder}/{number}.txt timeout 20 {BASH} {folder}/{number}.sh >/dev/null 2>&1 </dev/null"
        )
    known = {"PATH": f"{tools}:/usr/bin:/bin", **environment}
    subprocess.run(
        [str(BASH)], input="\n".join(lines), text=True, env=known, cwd=folder, check=False
    )
    made = []
    for number in range(len(scripts)):
        calls = (folder / f"{number}.txt").read_text().split("\001\n")
        made.append([call.removesuffix("\n").split("\n") for call in calls if call])
    return made


def fields_passed(calls: list[list[str]]) -> dict[str, Any] | None:
    """Fields of the last launch with arguments of Megatron-LM."""
    rows = [shell.options(words) for words in calls]
    rows = [row for row in rows if {"num-layers", "tensor-model-parallel-size"} & row.keys()]
    return rows[-1] if rows else None


def differences(text: str, calls: list[list[str]], path: str = "launch.sh") -> list[str]:
    """Fields that are read with another value than bash passes, and not left open."""
    theirs = fields_passed(calls)
    if theirs is None:
        return []
    try:
        ours, _ = megatron_lm.arguments(text, path)
    except InputError as error:
        return [] if "more than a launch script" in str(error) else [str(error)]
    made = []
    for name in {*ours, *theirs}:
        value = ours.get(name)
        if "$" in str(value) or name in COUNTS:
            continue
        if str(value) != str(theirs.get(name)):
            made.append(f"{name}: {value!r}, bash passes {theirs.get(name)!r}")
    return made


# Drawn scripts


class Draw:
    """A script of drawn constructs around a launch."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = ["TP", "PP", "CP", "MBS", "N", "FP8", "KIND", "X"]

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def name(self) -> str:
        return str(self.random.choice(self.names))

    def number(self) -> str:
        return str(self.random.choice([0, 1, 2, 4, 8, 16]))

    def value(self, depth: int = 0) -> str:
        name = self.name()
        ways: list[Callable[[], str]] = [
            self.number,
            self.number,
            lambda: f"${name}",
            lambda: f'"${{{name}}}"',
            lambda: f"${{{name}:-{self.number()}}}",
            lambda: f"${{{name}-{self.number()}}}",
            lambda: f"$(({self.sum()}))",
            lambda: f"${{1:-{self.number()}}}",
            lambda: f"$(echo {self.number()})",
            lambda: f"${{{name}%?}}",
            lambda: f"${{{name}:+{self.number()}}}",
            lambda: f"'{self.number()}'",
            lambda: f"${{#{name}}}",
            lambda: f"${{{name}/4/2}}",
            lambda: "$(wc -l < /dev/null)",
            lambda: f"${{A[{self.pick(0, 1)}]}}",
        ]
        return ways[self.random.randrange(len(ways))]() if depth < 2 else self.number()

    def sum(self) -> str:
        sign = self.pick("+", "-", "*", "/", "%", "<", "==", "&&", "||", "<<")
        first = self.pick(self.name(), f"${self.name()}", self.number(), f"-{self.number()}")
        second = self.pick("1", "2", "3", "7")
        return self.pick(
            f"{first} {sign} {second}", f"({first} {sign} {second}) * 2", f"{first} ? 2 : 4"
        )

    def pattern(self) -> str:
        return str(self.pick("4", "[0-4]", "?", "*", "1*", '"*"'))

    def condition(self) -> str:
        name = self.name()
        return str(
            self.pick(
                f'[ -z "${name}" ]',
                f"[[ -n ${name} ]]",
                f'[ "${name}" = {self.number()} ]',
                f"[[ ${name} == {self.pattern()} ]]",
                f"[[ ${name} != {self.number()} && -n ${self.name()} ]]",
                f"[[ ${name} -gt 2 || ! -z ${self.name()} ]]",
                f"(( {self.sum()} ))",
                f'test "${name}" -ge {self.number()}',
                f"[ ! -f /nowhere/{name} ]",
                "[ -d /tmp ]",
                "true",
                "false",
                "! true",
                f"[[ ${name} =~ ^[0-9]+$ ]]",
                "grep -q x /dev/null",
                f'[ "${name}" == {self.number()} -o "${self.name()}" = 2 ]',
            )
        )

    def flag(self) -> str:
        name = self.pick("context-parallel-size", "micro-batch-size", "seq-length", "train-iters")
        return str(
            self.pick(
                f"--{name} {self.value()}",
                f"--{name}={self.value()}",
                "--sequence-parallel",
                "--fp8-format hybrid",
                '--data-path "a # b"',
            )
        )

    def statement(self, depth: int = 0) -> str:
        name, deep = self.name(), depth < 2
        inner = self.statement(depth + 1) if deep else f"{name}={self.value()}"
        other = self.statement(depth + 1) if deep else f"ARGS+=({self.flag()})"
        return str(
            self.pick(
                f"{name}={self.value()}",
                f"{name}={self.value()}",
                f"export {name}={self.value()}",
                f": ${{{name}:={self.number()}}}",
                f"ARGS+=({self.flag()})",
                f'OPTS="$OPTS {self.flag()}"'.replace('"a # b"', "ab"),
                f"{self.condition()} && {inner.splitlines()[0] if ';' not in inner and chr(10) not in inner else 'X=3'}",
                f"{self.condition()} || {name}={self.value()}",
                f"{self.condition()} && {name}=1 || {name}=2",
                f"{self.condition()} || true && {name}=8",
                f"if {self.condition()}; then\n  {inner}\nfi",
                f"if {self.condition()}; then\n  {inner}\nelse\n  {other}\nfi",
                f"if {self.condition()}; then\n  {inner}\nelif {self.condition()}; then\n  {other}\nelse\n  X=9\nfi",
                f"case ${name} in\n  {self.number()}|{self.number()}) {inner} {self.pick(';;', ';&', ';;&')}\n"
                f"  [24]) {other} ;;\n  *) X=5 ;;\nesac",
                f"for {name} in {self.number()} {self.value()}; do\n  {inner}\ndone",
                f"for ((i{depth}=0; i{depth}<{self.number()}; i{depth}++)); do\n  {inner}\n  X=$i{depth}\ndone",
                f"K{depth}=0\nwhile (( K{depth} < 3 )); do\n  K{depth}=$((K{depth} + 1))\n  {inner}\ndone",
                "N=0\nuntil [ $N -ge 2 ]; do\n  N=$((N + 1))\ndone",
                f"f{depth}() {{\n  local {name}=${{1:-3}}\n  {inner}\n  {self.pick('return 1', 'X=7', ':')}\n  X=6\n}}"
                + self.pick("", f"\nf{depth} {self.number()}", f"\nf{depth} 2 || {self.name()}=4"),
                f"(( {name} = {self.sum()} ))",
                f'let "{name} = {self.number()} + 1"',
                f"(( {name}++ ))",
                f"unset {name}",
                f'read {name} X <<< "{self.number()} 5"',
                f"set -- {self.number()} {self.number()}\n{name}=$2\nshift\nX=$1",
                f'eval "{name}={self.number()}"',
                f"( {name}={self.number()}; {inner.splitlines()[0] if chr(10) not in inner else ':'} )",
                f"# {self.flag()} \\\n{name}={self.number()}",
                f'echo "example: torchrun --num-layers 99 {self.flag()}"'.replace('"a # b"', "ab"),
                "UNUSED='--num-layers 77 --seq-length 1 --micro-batch-size 3'",
                f"A=({self.number()} {self.value()})\n{name}=${{A[0]}}",
                f"A+=({self.number()})\n{name}=${{#A[@]}}",
                f"{name}=$({self.pick('date', f'echo ${self.name()}', 'nproc')})",
                f"{{ {name}={self.number()}; }} 2>/dev/null",
                f"for {name} in 1 2 4; do\n  {self.condition()} && {self.pick('break', 'continue')}\n  {inner}\ndone",
                f"for i in 1 2; do\n  for {name} in 4 8; do\n    {self.condition()} && "
                f"{self.pick('break 2', 'continue 2', 'break')}\n    X=$i\n  done\n  N=$i\ndone",
                f"g() {{\n  {self.condition()} && return {self.pick(0, 1)}\n  {inner}\n  # done\n}}\n"
                f"g && {name}=2 || {name}=1",
                f'declare -i {name}="{self.sum()}"',
                f"declare -i {name}={self.number()}+{self.number()}",
                f"[[ {name} -eq {self.number()} ]] && X=1 || X=2",
                f"{name}=$(echo ${self.name()}; exit 1) || X=8",
                f"echo hi | while read {name}; do X=1; done",
                f"if {self.condition()}; then exit 0; fi" if self.pick(0, 0, 1) else ":",
                f"cat <<EOF >/dev/null\n--num-layers 98 ${name}\nEOF",
            )
        )

    def script(self) -> str:
        lines = ["#!/bin/bash", "ARGS=(--num-layers 32)", 'OPTS="--hidden-size 4096"']
        lines += [f"{name}={self.number()}" for name in self.names if self.pick(0, 1)]
        lines += [self.statement() for _ in range(self.random.randint(1, 6))]
        core = f"--tensor-model-parallel-size {self.value()} --seq-length {self.value()}"
        more = self.pick(
            "${ARGS[@]} $OPTS", '"${ARGS[@]}" $OPTS', "$OPTS ${ARGS[*]}", '"${ARGS[@]}"'
        )
        extra = self.pick(
            "", "", f"${{{self.name()}:+--flag 2}}", f"--micro-batch-size ${self.name()}"
        )
        words = f"pretrain_gpt.py {core} {more} {extra}"
        plain = words.replace('"', "")
        lines.append(
            self.pick(
                f"torchrun --nproc-per-node 8 {words}",
                f"torchrun --nproc-per-node 8 \\\n  {words} 2>&1 | tee log",
                f'CMD="torchrun {plain}"\n$CMD',
                f'CMD="python -m torch.distributed.run {plain}"\neval $CMD',
                f'CMD=(torchrun {words})\n"${{CMD[@]}}"',
                f'run() {{ torchrun "$@"; }}\nrun {words}',
                f"CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun {words} &\nwait",
                f"env A=1 torchrun {words}",
                f"srun torchrun {words}",
                f"for round in 1; do torchrun {words}; done",
                f"exec torchrun {words}",
            )
        )
        return "\n".join(lines) + "\n"


def drawn(first: int, count: int, folder: Path) -> tuple[Counter[str], list[str]]:
    scripts = [Draw(seed).script() for seed in range(first, first + count)]
    found: Counter[str] = Counter()
    wrong = []
    for text, calls in zip(scripts, passed(scripts, folder), strict=True):
        found["launched"] += fields_passed(calls) is not None
        if rows := differences(text, calls):
            wrong.append(f"{rows}\n{text}")
    return found, wrong


def test_drawn_scripts_are_read_as_bash_runs_them(tmp_path: Path) -> None:
    count = scaled(60, 100)
    found, wrong = drawn(0, count, tmp_path)
    assert not wrong, f"{len(wrong)} of {count}: {wrong[0]}"
    assert found["launched"] > 0.7 * count


@pytest.mark.slow
@pytest.mark.fuzz
def test_many_scripts_are_read_as_bash_runs_them(tmp_path: Path) -> None:
    for part in range(scaled(1, 40)):
        folder = tmp_path / str(part)
        folder.mkdir()
        _, wrong = drawn(1000 + 500 * part, 500, folder)
        assert not wrong, f"{len(wrong)} of 500: {wrong[0]}"


TRAIN = "pretrain_gpt.py --num-layers 4 --tensor-model-parallel-size 2"


@pytest.mark.parametrize(
    ("launch", "fields"),
    [
        (f"srun --wait=60 --kill-on-bad-exit=1 -l python {TRAIN} --bf16", {"bf16"}),
        (f"torchrun --tee 3 --nproc_per_node 8 {TRAIN}", {"nproc-per-node"}),
        (f"python -u -X dev {TRAIN} --save a.py --fp16", {"save", "fp16"}),
        (f"python -m torch.distributed.run --nnodes 2 --max-restarts 0 {TRAIN}", {"nnodes"}),
        (f"srun --label bash -x -c 'torchrun --log-dir x {TRAIN}'", set()),
        (f"python -m pkg.train {TRAIN.partition(' ')[2]} --script x.py", {"script"}),
        (f"ssh -p 22 host torchrun {TRAIN}", set()),
    ],
)
def test_flags_of_launchers_are_no_arguments(launch: str, fields: set[str]) -> None:
    ours, _ = megatron_lm.arguments(f"#!/bin/bash\n{launch}\n", "launch.sh")
    assert ours.keys() == {"num-layers", "tensor-model-parallel-size", *fields}


def test_what_is_not_read_is_named() -> None:
    """Of a value to fill in, of a flag that a branch names, and of what no shell understands."""
    text = f"""A=<path to a>/x.txt
if date | grep -q 1; then D=bf16; else D=fp16; fi
torchrun {TRAIN} --save $A --swiglu --$D
"""
    ours, remarks = megatron_lm.arguments(text, "launch.sh")
    assert ours["swiglu"] is True
    assert ours["save"] == "$A/x.txt"
    assert any("--$D" in remark for remark in remarks)
    _, remarks = megatron_lm.arguments(f"A=<a\nB=2\n\ntorchrun {TRAIN}\n", "launch.sh")
    assert any("not understood: lines 1" in remark for remark in remarks)


def test_a_comment_that_ends_a_command_is_named_with_the_options_it_loses(tmp_path: Path) -> None:
    flags = "torchrun pretrain_gpt.py --num-layers 8 --hidden-size 1024 \\\n"
    lost = flags + '  # --bf16 \\\n  --seq-length 512 --fp16 "$@"\n'
    whole = flags + '  --seq-length 512 --fp16 "$@"\n# the end\n'
    for text, words in ((lost, 6), (whole, 9)):
        (call,) = passed([text], tmp_path)[0]
        assert len(call) == words  # bash itself loses them
    _, remarks = megatron_lm.arguments(lost, "launch.sh")
    assert remarks == [
        "line 3 begins with an option and belongs to no command: the comment above ends it "
        "(lost: --seq-length, --fp16)"
    ]
    assert megatron_lm.arguments(whole, "launch.sh")[1] == []


def test_scripts_as_people_write_them_are_read_as_bash_runs_them(tmp_path: Path) -> None:
    file = Path(__file__).parents[1] / "data" / "launch_scripts.txt"
    rows = [row.partition("\n") for row in file.read_text().split("### ")[1:]]
    wrong, whole = {}, []
    for name, _, text in rows:
        folder = tmp_path / name
        folder.mkdir()
        slurm = megatron_lm.slurm(megatron_lm.slurm_options(text))
        (calls,) = passed([text], folder, **slurm)
        theirs = fields_passed(calls)
        assert theirs is not None, f"{name} launches nothing"
        if found := differences(text, calls):
            wrong[name] = found
        ours, _ = megatron_lm.arguments(text, name)
        if not [key for key in theirs if "$" in str(ours.get(key))]:
            whole.append(name)
    assert not wrong
    assert len(rows) >= 40
    assert len(whole) >= 0.7 * len(rows), sorted({name for name, *_ in rows} - {*whole})


BATCH = """#!/bin/bash
#SBATCH --nodes=16
#SBATCH --ntasks-per-node={tasks}
#SBATCH --gpus-per-node=4
{launch} pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\
  --seq-length 8192 --vocab-size 131072 --micro-batch-size 1 --global-batch-size 128 --bf16
"""


@pytest.mark.parametrize(
    ("tasks", "launch", "gpus"),
    [
        # torchrun starts the processes, one launcher a node
        (1, "torchrun --nproc-per-node $SLURM_GPUS_PER_NODE --nnodes $SLURM_NNODES", (64, 4)),
        (1, "srun torchrun --nproc_per_node=4 --nnodes=$SLURM_JOB_NUM_NODES", (64, 4)),
        (1, "srun python -m torch.distributed.run --nproc_per_node gpu --nnodes 16", (64, 4)),
        # Slurm starts them itself
        (4, "srun python", (64, 4)),
    ],
)
def test_launchers_give_the_gpus(tasks: int, launch: str, gpus: tuple[int, int]) -> None:
    job = megatron_lm.read(BATCH.format(tasks=tasks, launch=launch), "job.sh")
    assert (job.scenario["n_gpus"], job.scenario["gpus_per_node"]) == gpus


def test_a_value_that_a_script_has_alone_is_named_with_what_takes_it() -> None:
    text = f"""source ./site.sh
torchrun --nproc-per-node 8 --nnodes ${{SLURM_JOB_NUM_NODES:-32}} {TRAIN} \\
  --pipeline-model-parallel-size ${{PP:=4}} --micro-batch-size ${{MBS:-$OTHER}}
"""
    job = megatron_lm.read(text, "job.sh")
    nodes = "nnodes is $SLURM_JOB_NUM_NODES (32 in the script alone), which n_gpus=256 takes"
    assert job.open_inputs["n_gpus"] == nodes
    stages = "pipeline-model-parallel-size is $PP (4 in the script alone)"
    assert job.open_inputs["pipeline_parallel"] == stages
    assert job.open_inputs["micro_batch_size"] == "micro-batch-size is $MBS"
    assert not any("may hold arguments" in remark for remark in job.remarks)


def test_processes_that_a_launcher_leaves_open_are_asked_for() -> None:
    launch = "torchrun --nproc-per-node $GPUS --nnodes $SLURM_NNODES"
    job = megatron_lm.read(BATCH.format(tasks=1, launch=launch), "job.sh")
    assert job.open_inputs["n_gpus"] == "nproc-per-node is $GPUS"
    assert "n_gpus" not in job.scenario


LAUNCH = "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --bf16"
DEGREES = "--tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP"


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("source env.sh", ["4", "2"]),
        ("PP=8\n. ./env.sh", ["4", "2"]),
        ("set -a; . ./env.sh; set +a", ["4", "2"]),
        ("[ -f env.sh ] && source env.sh", [None, None]),
        ("source far/env.sh\nTP=${TP:-1}\nPP=2", [None, "2"]),
        ('source far/env.sh\nTP=1; [ -n "$PP" ] && TP=8\nPP=2', [None, "2"]),
        ("source far/activate\nTP=${TP:-1}\nPP=2", ["1", "2"]),
        ("export TP=4 PP=2", ["4", "2"]),
    ],
)
def test_files_of_variables_are_read_beside_a_script_and_asked_for_elsewhere(
    tmp_path: Path, text: str, degrees: list[str | None]
) -> None:
    """bash reads them all; a file elsewhere sets another value than the script does alone."""
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "activate").touch()
    for name in ("env.sh", "far/env.sh"):
        (tmp_path / name).write_text("TP=4\nexport PP=2\n")
    text = f"{text}\n{LAUNCH} {DEGREES}\n"
    path = str(tmp_path / "launch.sh")
    assert not differences(text, passed([text], tmp_path)[0], path)
    fields, remarks = megatron_lm.arguments(text, path)
    for name, degree in zip(("tensor", "pipeline"), degrees, strict=True):
        value = str(fields[f"{name}-model-parallel-size"])
        assert value == degree if degree else "$" in value
    assert any("far/" in remark for remark in remarks) == ("far/" in text)


@pytest.mark.parametrize(
    "text",
    [
        'if [ "$MODE" = train ]; then LAUNCH; fi',
        "for each in $MODE; do LAUNCH; done",
        "case $MODE in train) LAUNCH;; esac",
        "run() { LAUNCH; }\n[[ $MODE == train ]] && run",
        'ssh node "cd /work && LAUNCH"',
        "srun --ntasks-per-node 8 python pretrain_gpt.py --num-layers 32 DEGREES",
    ],
)
def test_launches_that_depend_on_the_environment_are_read(tmp_path: Path, text: str) -> None:
    text = text.replace("LAUNCH", f"{LAUNCH} DEGREES").replace("DEGREES", DEGREES)
    text = f"TP=4\nPP=2\n{text}\n".replace("ssh node", "bash -c")
    assert not differences(text, passed([text], tmp_path, MODE="train")[0])
    fields, _ = megatron_lm.arguments(text.replace("bash -c", "ssh node"), "launch.sh")
    assert fields["num-layers"] == "32"
    assert str(fields["tensor-model-parallel-size"]) == "4"


def test_other_shells_get_what_is_exported_to_them_alone() -> None:
    text = f"'{LAUNCH} {DEGREES}'"
    for before, degrees in (
        ("docker run -e TP=4 --env PP=2 image", ("4", "2")),
        ("export PP=2; docker run -e TP=4 -e PP image", ("4", "2")),
        ("export PP=2; docker run --env=TP=4 image", ("4", "$PP")),
        ("docker run --env-file job.env -e TP=4 image", ("4", "$PP")),
        ("export PP=2; srun --export=ALL,TP=4", ("4", "2")),
        ("export PP=2; TP=4; bash -c", ("$TP", "2")),
        ("export PP=2 TP=4; ssh node", ("$TP", "$PP")),
    ):
        shell_ = "" if before.endswith(("bash -c", "node")) else "bash -c"
        fields, remarks = megatron_lm.arguments(f"{before} {shell_} {text}\n", "launch.sh")
        found = tuple(fields[f"{name}-model-parallel-size"] for name in ("tensor", "pipeline"))
        assert found == degrees, before
        assert any("not read: job.env" in each for each in remarks) == ("job.env" in before)


@pytest.mark.parametrize(
    "text",
    [
        "X=" + "`" * 60_000,
        "$(" * 20_000,
        "if true; then " * 2_000 + "fi;" * 2_000,
        "${X:-" * 5_000 + "1" + "}" * 5_000,
        "X=$((" + "(" * 3_000 + "1" + ")" * 3_000 + "))",
        "f() { f; f; }\nf",
        'X=\'eval "$X$X"\'\neval "$X"',
        "".join(f"for i{k} in 1 2 3 4 5 6 7 8 9; do " for k in range(9)) + "X=1" + "; done" * 9,
    ],
    ids=["ticks", "calls", "nested", "defaults", "sum", "recursion", "eval", "loops"],
)
def test_scripts_that_never_end_are_read_or_refused_in_one_line(text: str) -> None:
    told = ""
    try:
        megatron_lm.read(text + "\n--num-layers 4 --hidden-size 8", "launch.sh")
    except InputError as error:
        told = str(error)
    assert "\n" not in told


@pytest.mark.parametrize(
    "before",
    [
        "export $(grep -v '^#' .env | xargs)",
        "export $(cat .env)",
        "declare $(cat .env)",
        "for line in $(cat .env); do export $line; done",
        "T=2; source far/env.sh",
        "F=(far/*); T=${#F[@]}",
        "T=0; for file in far/*; do T=$((T + 1)); done",
        "set -- far/*; T=$#",
        "count() { T=$#; }; count far/*",
        "shopt -s nocasematch; case LLAMA in llama) T=8;; *) T=2;; esac",
        "shopt -s nocasematch; if [[ LLAMA == llama ]]; then T=8; else T=2; fi",
    ],
)
def test_what_files_and_options_decide_is_left_open(before: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("T=4\n")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "env.sh").write_text("T=4\n")
    (tmp_path / "far" / "b.sh").write_text("")
    launch = "torchrun pretrain_gpt.py --num-layers 4 --tensor-model-parallel-size ${T:-1}"
    text = f"{before}\n{launch}\n"
    (calls,) = passed([text], tmp_path)
    assert fields_passed(calls)
    assert not differences(text, calls)
    ours, _ = megatron_lm.arguments(text, "launch.sh")
    assert "$" in str(ours["tensor-model-parallel-size"])


def test_what_prepares_an_environment_sets_nothing(tmp_path: Path) -> None:
    """Conda's hook and an agent of keys, which are evaluated, leave what the script has set."""
    text = """T=4
eval "$(conda shell.bash hook)"
eval "$(ssh-agent -s)"
eval "$(./configure_job)"
"""
    launch = "torchrun pretrain_gpt.py --num-layers 4 --tensor-model-parallel-size $T"
    *known, last = text.splitlines(keepends=True)
    ours, _ = megatron_lm.arguments("".join(known) + launch, "launch.sh")
    assert ours["tensor-model-parallel-size"] == "4"
    ours, remarks = megatron_lm.arguments("".join(known) + last + launch, "launch.sh")
    assert "$" in str(ours["tensor-model-parallel-size"])
    assert any("$configure_job" in remark for remark in remarks)
