"""The pages under docs/ work: their Python, their commands and the printed output."""

import ast
import importlib.util
import inspect
import logging
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import fleetcube
from docs.make.gallery import dark
from docs.make.outputs import DOCS, ELSEWHERE, RUN, blocks, commands, rewritten, run
from fleetcube.catalog import KINDS
from fleetcube.cli import cli

PAGES = sorted({*DOCS.glob("*.md"), *DOCS.glob("howto/*.md"), *RUN})


def name(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


SLOW = {"gallery", "plots", "sensitivity", "howto/call-from-programs", "howto/choose-a-layout"}
SLOW |= {"howto/from-my-launch-script", "howto/a-job-in-phases", "howto/buy-or-rent"}


@pytest.mark.machine
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (name(page) in SLOW)) for page in RUN],
    ids=map(name, RUN),
)
def test_a_page_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    ran = [printed.as_expected or printed.text for printed in run(page, tmp_path)]
    logging.getLogger("fleetcube").setLevel(logging.NOTSET)  # which a page sets
    assert ran or not blocks(page.read_text(encoding="utf-8"))
    assert [text for text in ran if text is not True] == []


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("238.15350728721143 days", "238.15350... days"),
        ("[-0.0007871218540983292]", "[-0.00078712185...]"),
        ("180000000.00000015,1e+11", "180000000.0...,1e+11"),
        ("1.23456789012e-05", "1.2345678...e-05"),
        *((text, text) for text in ("100000000000.0", "36.621094", "0.1250000000", "16384")),
        *((text, text) for text in ("arXiv:2407.21783", "0.2.0", "0.0", "1234567890")),
    ],
)
def test_digits_in_which_cpus_differ_are_not_shown(
    printed: str, shown: str, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```python\nprint({printed!r})\n```\n```text\n{printed}\n```\n")
    assert [found.as_expected for found in run(page, tmp_path)] == [printed == shown]
    page.write_text(rewritten(page, tmp_path))
    assert page.read_text().endswith(f"```text\n{shown}\n```\n")
    assert [found.as_expected for found in run(page, tmp_path)] == [True]


def test_code_that_is_not_run_here_is_run_elsewhere_or_says_why_not() -> None:
    left = set()
    for page in set(PAGES) - set(RUN):
        for block in blocks(page.read_text(encoding="utf-8")):
            assert block.language, f"{name(page)}: a block without a language\n{block.text}"
            if block.language not in ("text", "toml", "console"):
                left.add(name(page))
    assert left == set(ELSEWHERE)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_specs_of_a_page_are_valid(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "toml":
            spec = tomllib.loads(block.text)
            if "scenario" not in spec:  # records, which the page's run reads, or a package
                assert {*spec} <= {*KINDS, "project", "tool"}
                continue
            scenario = {k: v for k, v in spec["scenario"].items() if not str(v).startswith("my-")}
            axes, outputs = spec.get("axes", {}), spec.get("outputs", ["peak_flops"])
            fleetcube.Sweep({"n_gpus": 8, **scenario}, axes, outputs)._plan()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_commands_of_a_page_have_the_arguments_they_are_given(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        for words in commands(block.text) if block.language in ("", "sh", "console") else ():
            with cli.make_context("fleetcube", list(words)) as context:
                found, command, rest = cli.resolve_command(context, words)
                assert command is not None
                command.make_context(found, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_calls_of_a_page_have_the_arguments_they_are_given(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language != "python":
            continue
        for node in ast.walk(ast.parse(block.text)):
            match node:
                case ast.Call(ast.Attribute(attr=called, value=ast.Name(id="fleetcube"))):
                    target, first = getattr(fleetcube, called), []
                case ast.Call(ast.Attribute(attr=called, value=ast.Name(id="sweep"))):
                    target, first = getattr(fleetcube.Sweep, called), [None]
                case _:
                    continue
            keywords = {word.arg: None for word in node.keywords if word.arg}
            inspect.signature(target).bind(*first, *node.args, **keywords)


def test_files_for_other_programs_are_what_these_read() -> None:
    """Only syntax and references between parts: the programs are not installed here."""
    page = blocks((DOCS / "run-large.md").read_text(encoding="utf-8"))
    *_, script = [block for block in page if block.language == "python"]
    compile(script.text, "run-large", "exec")
    yaml = pytest.importorskip("yaml")
    cluster, job = (yaml.safe_load(block.text) for block in page if block.language == "yaml")
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    with cli.make_context("fleetcube", arguments[1:]) as context:
        found, command, rest = cli.resolve_command(context, arguments[1:])
        with command.make_context(found, rest, parent=context) as made:
            assert made.params["resume"]
            address = f"tcp://{cluster['metadata']['name']}-scheduler:"
            assert made.params["dask"] in {
                f"{address}{port['port']}"
                for port in cluster["spec"]["scheduler"]["service"]["ports"]
            }


def test_the_files_for_kubernetes_have_the_fields_of_its_operator() -> None:
    """Its schema holds that of pods, too, and so of those of a job."""
    yaml, jsonschema = pytest.importorskip("yaml"), pytest.importorskip("jsonschema")
    operator = importlib.util.find_spec("dask_kubernetes")  # not imported: it wants Kubernetes
    if operator is None:
        pytest.skip("pip install --no-deps dask-kubernetes")
    (folder,) = operator.submodule_search_locations or ()
    (path,) = Path(folder).rglob("crds/daskcluster.yaml")
    (version,) = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    closed(schema)
    page = blocks((DOCS / "run-large.md").read_text(encoding="utf-8"))
    cluster, job = (yaml.safe_load(block.text) for block in page if block.language == "yaml")
    jsonschema.Draft4Validator(schema["properties"]["spec"]).validate(cluster["spec"])
    pod = schema["properties"]["spec"]["properties"]["worker"]["properties"]["spec"]
    jsonschema.Draft4Validator(pod).validate(job["spec"]["template"]["spec"])
    cluster["spec"]["worker"]["spec"]["containers"][0]["imag"] = "misspelt"
    with pytest.raises(jsonschema.ValidationError, match="imag"):
        jsonschema.Draft4Validator(schema["properties"]["spec"]).validate(cluster["spec"])


def closed(schema: Any) -> None:
    """Refuse fields that a schema lacks, as the API server's strict validation does."""
    match schema:
        case list():
            for part in schema:
                closed(part)
        case dict():
            if schema.get("x-kubernetes-int-or-string"):
                schema.pop("type", None)
            if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
                schema.setdefault("additionalProperties", False)
            for part in list(schema.values()):
                closed(part)


def test_the_job_for_slurm_asks_for_what_the_page_states(tmp_path: Path) -> None:
    jobqueue = pytest.importorskip("dask_jobqueue")
    page = blocks((DOCS / "run-large.md").read_text(encoding="utf-8"))
    *_, script = [block for block in page if block.language == "python"]
    (made,) = (
        node
        for node in ast.walk(ast.parse(script.text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "SLURMCluster"
    )
    given = {word.arg: ast.literal_eval(word.value) for word in made.keywords if word.arg}
    given |= {"log_directory": str(tmp_path), "scheduler_options": {"dashboard_address": ":0"}}
    with jobqueue.SLURMCluster(**given) as jobs:
        lines = jobs.job_script().splitlines()
    for line in ("-p batch", "-n 1", "--cpus-per-task=16", "--mem=30G", "-t 02:00:00", "--requeue"):
        assert f"#SBATCH {line}" in lines
    (worker,) = (line for line in lines if "dask_worker" in line)
    for words in ("--nthreads 16", "--memory-limit 29.80GiB", "--lifetime 115m", "--nanny"):
        assert words in worker


def listed(page: Path) -> list[str]:
    """The pages in the toctrees of a page, from the folder of all pages."""
    toctrees = re.findall(r"^```\{toctree\}\n(.+?)^```$", page.read_text("utf-8"), re.M | re.S)
    found = re.findall(r"^(?:.+ <)?([\w./-]+)>?$", "".join(toctrees), re.MULTILINE)
    return [(page.parent / entry).resolve().relative_to(DOCS).as_posix() for entry in found]


def test_every_page_is_in_the_sidebar_or_on_the_page_of_the_others() -> None:
    sidebar, others = listed(DOCS / "index.md"), listed(DOCS / "more/index.md")
    assert sorted({*sidebar, *others}) == sorted([*sidebar, *others])
    assert {name(page) for page in PAGES} - {"index"} <= {*sidebar, *others}
    assert len(sidebar) <= 30
    assert "(more/index.md)" in (DOCS / "index.md").read_text(encoding="utf-8")


def test_every_decision_that_is_named_stands() -> None:
    folder, root = DOCS / "decisions", DOCS.parent
    table = (folder / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:\[(\d+)\]\((.+?)\)|(\d+)) ", table, re.MULTILINE)
    standing = {f"decision {number or plain}" for number, _, plain in rows}
    pages = {page.name for page in folder.glob("0*.md")}
    assert pages == {page for _, page, _ in rows if page}
    rooms = ("kernels", "grid", "catalog", "src", "tests", "docs")
    paths = [path for room in rooms for path in (root / room).rglob("*")] + [*root.glob("*.md")]
    for path in paths:
        if path.suffix in {".py", ".md", ".toml"}:
            text = path.read_text(encoding="utf-8")
            named = {each.lower() for each in re.findall(r"\b[Dd]ecision \d+", text)}
            linked = {*re.findall(r"decisions/(0\d{3}[\w-]*\.md)", text)}
            missing = (named - standing) | (linked - pages)
            assert not missing, f"{path.relative_to(root)}: {missing}; docs/decisions/index.md"


def test_the_gallery_has_the_picture_of_each_of_its_commands() -> None:
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    every = [words for block in blocks(text) for words in commands(block.text)]
    written = {word for words in every for word in words if word.endswith(".png")}
    shown = set(re.findall(r"\]\(gallery/(.+?)\)", text))
    assert shown == written == {path.name for path in (DOCS / "gallery").glob("*.png")}


def test_a_dark_page_has_pictures_of_its_own() -> None:
    """As large as those of a light page, on dark paper; nothing is left of those that went."""
    from PIL import Image

    kept = {path: dark(path) for path in DOCS.glob("**/*.png") if dark(path).exists()}
    assert {*kept.values()} == {*DOCS.glob("**/*.webp")}
    assert {path for page in ("gallery", "plots") for path in (DOCS / page).glob("*.png")} <= {
        *kept
    }
    for light, other in kept.items():
        with Image.open(light) as day, Image.open(other) as night:
            assert day.size == night.size
            ends = [image.convert("L").getpixel((2, day.height - 2)) for image in (day, night)]
            assert ends[0] > 200 > 60 > ends[1], light
