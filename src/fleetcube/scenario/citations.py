"""Citations of a result: from the Source lines of its formulas to BibTeX."""

import functools
import json
import re
import unicodedata
from collections.abc import Mapping
from importlib import resources
from typing import Any

from fleetcube import kernels
from fleetcube.catalog import is_path
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.labels import CITATIONS
from fleetcube.grid.plan.plan import Plan
from fleetcube.kernels.graph.bind import dependencies
from fleetcube.kernels.graph.docstrings import source
from fleetcube.kernels.graph.formulas import Function

SELF_EVIDENT = ("by definition", "stated by the scenario")  # prefixes of lines without citations
# Documents cited by name, without author and year
_DOCUMENTS = {
    "cudnn-frontend": "cudnnfrontend",
    "cuLA": "cula",
    "Fleet Foundations": "fleetfoundations",
    "MLPerf Training": "mlperftraining",
    "MaxText": "maxtext",
    "Megatron-LM": "megatronlm",
    "Primus-Turbo": "primusturbo",
    "PyTorch elastic": "pytorchelastic",
    "PyTorch fully_shard": "pytorchfsdp",
    "PyTorch pipelining": "pytorchpipelining",
    "NCCL": "nccl",
    "Scaling Distributed Training": "pingdo",
    "mlsysim": "mlsysim",
    "nccl-tests": "nccltests",
    "TorchFT": "torchft",
    "TransformerEngine": "transformerengine",
    "vLLM": "vllm",
}
_WORD = r"(?![A-Z]{2})[A-Z][\w'-]+"  # two capitals begin a venue: HPCA 2025, MLSys 2023
_NAME = rf"{_WORD}(?: {_WORD})*"
_WORK = re.compile(rf"({_NAME})(?:(?:, {_NAME})*,? & {_NAME}| et al\.)?,? (\d{{4}})\b")
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
_ENTRY = re.compile(r"^@\w+\{([\w-]+),\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (\w+) = \{(.*)\},$", re.MULTILINE)
_URL = re.compile(r"https?://[^\s,;){}\\]+")
# Braces written out: escaped ones count in BibTeX and could end an entry
_TEX = str.maketrans(
    {
        **{odd: f"\\{odd}" for odd in "&%$#_"},
        "{": r"{\textbraceleft}",
        "}": r"{\textbraceright}",
        "\\": r"{\textbackslash}",
        "~": r"{\textasciitilde}",
        "^": r"{\textasciicircum}",
    }
)
_ODD = r"[^A-Za-z0-9_-]"  # in a key


@functools.cache
def references() -> dict[str, dict[str, str]]:
    """Entries of references.bib by key: the fields, and the whole text as "bibtex"."""
    text = resources.files(kernels).joinpath("references.bib").read_text(encoding="utf-8")
    return {
        match.group(1): {**dict(_FIELD.findall(match.group(2))), "bibtex": match.group(0)}
        for match in _ENTRY.finditer(text)
    }


@functools.cache
def cited(line: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys of the works named in a Source line, and the names without an entry. A work is named by
    first author and year, by arXiv number, or as one of the documents above. Works with the same
    author and year need their arXiv number, series or short title."""
    named: list[tuple[str, tuple[str, ...]]] = []  # a name as written, and its candidate keys
    for part in line.split(";"):
        for author, year in _WORK.findall(part):
            works = _works().get(f"{_plain(author)}{year}", ())
            if len(works) > 1:
                works = tuple(key for key in works if any(mark in part for mark in _marks(key)))
            named.append((f"{author} {year}", works))
        for number in _ARXIV.findall(part):
            works = tuple(k for k, entry in references().items() if entry.get("eprint") == number)
            named.append((f"arXiv:{number}", works))
        for name, key in _DOCUMENTS.items():
            if re.search(rf"(?<!\()\b{name}\b", part):  # (Megatron-LM) marks a work before it
                named.append((name, (key,)))
    keys = dict.fromkeys(works[0] for _, works in named if len(works) == 1)
    unknown = dict.fromkeys(name for name, works in named if len(works) != 1)
    return tuple(keys), tuple(unknown)


@functools.cache
def _works() -> dict[str, tuple[str, ...]]:
    """Keys by author and year: the key without the word after its year."""
    by_stem: dict[str, tuple[str, ...]] = {}
    for key in references():
        stem = re.sub(r"(?<=\d{4})[a-z]\w*$", "", key)
        by_stem[stem] = (*by_stem.get(stem, ()), key)
    return by_stem


def _marks(key: str) -> list[str]:
    entry = references()[key]
    return [entry[field] for field in ("eprint", "series", "shorttitle") if field in entry]


def _plain(name: str) -> str:
    """A family name as spelled in keys: lower-case ASCII letters and digits."""
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]", "", ascii_only.lower())


@functools.cache
def _rests_on(formula: Function) -> tuple[str, ...]:
    """Keys cited by a formula and by the shared formulas that it calls or is."""
    called = dependencies(formula)
    # a registered one has the docstring of its quantity, and cites less than the original
    laws = [*called, *(f.__law__ for f in called if hasattr(f, "__law__"))]
    lines = [source(law) for law in laws if not law.__name__.startswith("_")]
    return tuple(key for line in lines for key in cited(line)[0])


def citation_keys(plan: Plan) -> str:
    """Keys cited by a plan's formulas, in the attribute's format: words in order."""
    formulas = {formula for case in plan.cases for formula in case.formulas.values()}
    cited_keys = {key for formula in formulas for key in _rests_on(formula)}
    return " ".join(["fleetcube", *sorted(cited_keys)])


def citations(dataset: Any) -> str:
    """Return BibTeX of everything that a Dataset was computed from.

    The works behind every formula from the inputs to its variables, the catalog records used, and
    fleetcube itself. `dataset` is a result of `evaluate` (of a list of names), of `Sweep`, an
    opened cube, a cut of one, or any of them read back from a file. Raises InputError for others.
    """
    attrs = getattr(dataset, "attrs", None)
    if not isinstance(attrs, Mapping) or CITATIONS not in attrs:
        raise InputError(
            f"this {type(dataset).__name__} does not record what it was computed from; give a "
            "Dataset that fleetcube made: evaluate([...]), Sweep, open_cube"
        )
    entries = [_program_entry(str(attrs.get("fleetcube_version", "")))]
    for key in dict.fromkeys(str(attrs[CITATIONS]).split()[1:]):
        reference = references().get(key)
        missing = f"% {re.sub(_ODD, '_', key)}: no longer among the references"
        entries.append(reference["bibtex"] if reference else missing)
    return "\n\n".join([*entries, *map(_record, records(attrs))])


def records(attrs: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """The catalog records named in a result's attributes. Raises InputError."""
    try:
        entries = json.loads(attrs.get("fleetcube_catalog", "[]"))
        for entry in entries:
            texts = [entry[name] for name in ("kind", "label", "source", "date")]
            texts.append(entry.get("title", ""))
            if not all(isinstance(text, str) for text in texts):
                raise TypeError
            if not isinstance(entry.get("edition", 0), int):
                raise TypeError
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise InputError("the attribute fleetcube_catalog is damaged; evaluate again") from None
    return list(entries)


def _program_entry(version: str) -> str:
    return _entry(
        "fleetcube",
        author="{The fleetcube authors}",
        title="{fleetcube}: A Sweep Engine for the Physics of Large-Scale {AI} Training",
        howpublished="Software",
        note=f"Version {_escaped(version)}",
    )


def _record(entry: Mapping[str, Any]) -> str:
    edition = f", edition {entry['edition']}," if entry.get("edition") else ""
    which = f"{entry['kind']} {entry['label']}{edition}"
    source = f"Record {which} of the fleetcube catalog"
    if is_path(entry["kind"], entry["label"]):
        source = f"{entry['kind'].capitalize()} file {entry['label'].rpartition('/')[2]}"
    elif isinstance(home := entry.get("origin"), str):
        source = f"Record {which} of {home.rpartition('/')[2]}"
    return _entry(
        re.sub(_ODD, "_", f"{entry['kind']}_{entry['label']}"),
        title=_escaped(entry.get("title") or entry["label"]),
        howpublished=_escaped(entry["source"]),
        note=_escaped(f"{source}, dated {entry['date']}" if entry["date"] else source),
        **({"year": _escaped(entry["date"][:4])} if entry["date"] else {}),
    )


def _entry(key: str, **fields: str) -> str:
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@misc{{{key},", *lines, "}"])


def _escaped(text: str) -> str:
    """Text in one line, with TeX's reserved characters escaped and addresses in \\url."""
    text = " ".join(text.split())
    parts = []
    end = 0
    for address in _URL.finditer(text):
        parts += [text[end : address.start()].translate(_TEX), f"\\url{{{address.group()}}}"]
        end = address.end()
    return "".join([*parts, text[end:].translate(_TEX)])
