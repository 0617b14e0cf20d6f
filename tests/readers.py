"""Try other programs' readers on cubes, each in an environment of its own.

`python -m tests.readers [--write] [NAME ...]`: some minutes; package registries are asked, and
environments stay in build/readers; python3.12, node, npm and ncdump must be on PATH. `--write`
saves the results in readers.json; `python -m docs.make docs/cube-format.md` writes their table. An
array counts if it equals what `open_cube` gives, to the bit; a reader finds damage if it refuses a
chunk with a changed bit.
"""

import datetime
import json
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fleetcube import Settings, Sweep, open_cube
from fleetcube.tables.tables import export

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("readers.json")
NUMBERS = ("job_time", "goodput", "infeasible_reason", "n_gpus", "gpu_mttf")
TEXTS = ("fabric",)
PLACES = {
    "lz4": "`run`",
    "zstd": "`run --compressor zstd`",
    "nc": "`slice -o cube.nc`",
}

# Each program defines read(path, name), which returns the array of a name
ZARR = """
    import zarr

    def read(path, name):
        return zarr.open_group(path, mode="r")[name][...]
"""
GDAL = """
    import ctypes
    import importlib.util
    import math
    from pathlib import Path

    (folder,) = importlib.util.find_spec("rasterio").submodule_search_locations
    (file,) = Path(folder).with_name("rasterio.libs").glob("libgdal*")
    import rasterio  # which loads what GDAL needs

    gdal = ctypes.CDLL(str(file))
    P, C, S, U = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64
    for function, result, arguments in (
        ("GDALOpenEx", P, [C, ctypes.c_uint, P, P, P]),
        ("GDALDatasetGetRootGroup", P, [P]),
        ("GDALGroupOpenMDArray", P, [P, C, P]),
        ("CPLGetLastErrorMsg", C, []),
        ("GDALMDArrayGetDimensions", ctypes.POINTER(P), [P, ctypes.POINTER(S)]),
        ("GDALDimensionGetSize", U, [P]),
        ("GDALMDArrayGetDataType", P, [P]),
        ("GDALExtendedDataTypeGetClass", ctypes.c_int, [P]),
        ("GDALExtendedDataTypeCreate", P, [ctypes.c_int]),
        ("GDALExtendedDataTypeCreateString", P, [S]),
        ("GDALMDArrayRead", ctypes.c_int, [P, P, P, P, P, P, P, P, S]),
    ):
        getattr(gdal, function).restype = result
        getattr(gdal, function).argtypes = arguments
    gdal.GDALAllRegister()

    def failure():
        return ValueError(gdal.CPLGetLastErrorMsg().decode())

    def read(path, name):
        dataset = gdal.GDALOpenEx(path.encode(), 0x12, None, None, None)
        if not dataset:
            raise failure()
        group = gdal.GDALDatasetGetRootGroup(dataset)
        array = gdal.GDALGroupOpenMDArray(group, name.encode(), None)
        if not array:
            raise failure()
        count = S()
        dims = gdal.GDALMDArrayGetDimensions(array, ctypes.byref(count))
        sizes = [gdal.GDALDimensionGetSize(dims[k]) for k in range(count.value)]
        size = math.prod(sizes)
        if gdal.GDALExtendedDataTypeGetClass(gdal.GDALMDArrayGetDataType(array)) == 1:
            kind, values = gdal.GDALExtendedDataTypeCreateString(0), (C * size)()
        else:
            kind, values = gdal.GDALExtendedDataTypeCreate(7), (ctypes.c_double * size)()
        start, counts = (U * 9)(), (S * 9)(*sizes)
        if not gdal.GDALMDArrayRead(array, start, counts, None, None, kind, values, None, 0):
            raise failure()
        return [v.decode() if isinstance(v, bytes) else v for v in values]
"""
NETCDF = """
    import netCDF4

    def read(path, name):
        url = f"file://{path}#mode=zarr,file" if path.endswith("zarr") else path
        dataset = netCDF4.Dataset(url)
        dataset.set_auto_mask(False)
        return dataset[name][...]
"""
NCDUMP = """
    import re
    import subprocess

    def read(path, name):
        url = f"file://{path}#mode=zarr,file" if path.endswith("zarr") else path
        command = ["ncdump", "-p", "9,17", "-v", name, url]
        done = subprocess.run(command, capture_output=True, text=True)
        data = done.stdout.partition("data:")[2]
        found = re.search(rf"{name} =(.*?);", data, re.DOTALL)
        if not found:
            raise ValueError(done.stderr.strip() or "an empty group, with exit 0")
        cells = [cell.strip() for cell in found[1].split(",")]
        return [c[1:-1] if c[0] == '"' else float(c.replace("_", "nan")) for c in cells]
"""
TENSORSTORE = """
    import tensorstore

    def read(path, name):
        store = {"driver": "file", "path": f"{path}/{name}"}
        return tensorstore.open({"driver": "zarr3", "kvstore": store}).result().read().result()
"""
ZARRS = """
    import zarr
    import zarrs

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})

    def read(path, name):
        return zarr.open_group(path, mode="r")[name][...]
"""
VIRTUALIZARR = """
    import warnings

    import obstore.store
    import xarray
    from obspec_utils.registry import ObjectStoreRegistry
    from virtualizarr.manifests import ManifestStore
    from virtualizarr.parsers import ZarrParser

    warnings.simplefilter("ignore")

    def read(path, name):
        registry = ObjectStoreRegistry({"file://": obstore.store.LocalStore()})
        manifests = ZarrParser()(url=f"file://{path}", registry=registry)
        return xarray.open_zarr(manifests, consolidated=False, zarr_format=3, chunks=None)[name]
"""
ICECHUNK = """
    import icechunk
    import zarr

    def read(path, name):
        storage = icechunk.local_filesystem_storage(path)
        store = icechunk.Repository.open(storage).readonly_session("main").store
        return zarr.open_group(store, mode="r")[name][...]
"""
XARRAY = """
    import xarray

    def read(path, name):
        nc = path.endswith("nc")
        return (xarray.open_dataset(path) if nc else xarray.open_zarr(path, chunks=None))[name]
"""
ZARRITA = """
    import { FileSystemStore } from "@zarrita/storage";
    import * as zarr from "zarrita";

    async function read(path, name) {
      const group = await zarr.open.v3(new FileSystemStore(path), { kind: "group" });
      const array = await zarr.open.v3(group.resolve(name), { kind: "array" });
      const chunk = await zarr.get(array);
      return chunk.data === undefined ? [chunk] : Array.from(chunk.data);
    }
"""


@dataclass(frozen=True)
class Reader:
    """A library, the packages to install, and a program with its function."""

    what: str
    packages: tuple[str, ...]
    program: str
    python: str = sys.executable
    version: str = ""  # an expression, if the first package is not the library
    places: tuple[str, ...] = ("lz4", "zstd")

    @property
    def code(self) -> str:
        return textwrap.dedent(self.program)


_GDAL_VERSION = "import rasterio; print(rasterio.__gdal_version__)"
_NETCDF_VERSION = "import netCDF4; print(netCDF4.__netcdf4libversion__)"
READERS = {
    "zarr-oldest": Reader("zarr-python", ("zarr==3.0.0",), ZARR),
    "zarr": Reader("zarr-python", ("zarr",), ZARR, "python3.12"),
    "tensorstore": Reader("tensorstore", ("tensorstore",), TENSORSTORE),
    "zarrs": Reader("zarrs", ("zarrs",), ZARRS),
    "zarrita": Reader("zarrita", ("zarrita", "@zarrita/storage"), ZARRITA),
    "virtualizarr": Reader("VirtualiZarr", ("virtualizarr", "obstore", "arro3-core"), VIRTUALIZARR),
    "icechunk": Reader("Icechunk", ("icechunk", "zarr"), ICECHUNK, places=("icechunk",)),
    "xarray": Reader("xarray", ("xarray", "zarr", "netCDF4"), XARRAY, places=("lz4", "zstd", "nc")),
    "gdal": Reader(
        "GDAL",
        ("rasterio",),
        GDAL,
        "python3.12",
        version=_GDAL_VERSION,
        places=("lz4", "zstd", "nc"),
    ),
    "gdal-3.10": Reader(
        "GDAL", ("rasterio==1.4.4",), GDAL, version=_GDAL_VERSION, places=("lz4", "zstd", "nc")
    ),
    "netcdf": Reader(
        "netCDF-C",
        ("netCDF4",),
        NETCDF,
        version=_NETCDF_VERSION,
        places=("lz4", "zstd", "nc"),
    ),
    "ncdump": Reader("netCDF-C, `ncdump`", (), NCDUMP, places=("lz4", "zstd", "nc")),
}
_PYTHON = """
import json, sys
import numpy
for place, name in json.loads(sys.argv[1]):
    try:
        values = numpy.asarray(read(place, name)).reshape(-1).tolist()
        told = [v if isinstance(v, str) else float(v).hex() for v in values]
    except BaseException as error:
        told = f"{type(error).__name__}: {error}"
    print("\\n" + json.dumps(told), flush=True)
"""
_NODE = """
for (const [place, name] of JSON.parse(process.argv[2])) {
  let told;
  try {
    told = (await read(place, name)).map((v) => (typeof v === "string" ? v : String(v)));
  } catch (error) {
    told = `${error}`;
  }
  console.log("\\n" + JSON.stringify(told));
}
"""


def cubes(folder: Path, places: set[str]) -> dict[str, Path]:
    """The same cube in each place, and with a bit of a chunk changed where that is asked for."""
    sweep = Sweep(
        {"model": "llama-3-8b", "node": "dgx-h100"},
        {
            "n_gpus": [64, 128, 256],
            "fabric": ["roce-100g", "infiniband-ndr"],
            "gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 40},
        },
        ["job_time", "goodput"],
        settings=Settings("numpy"),
    )
    made = {}
    for place in sorted(places):
        path = folder / f"cube.{place if place == 'nc' else f'{place}.zarr'}"
        if place == "nc":
            export(sweep.evaluate(), path)
        elif place == "icechunk":
            sweep.to_zarr(f"icechunk://{path}")
        else:
            options: Any = {"compressor": place, "chunks": {"n_gpus": 2}}
            sweep.to_zarr(path, **options)
            harmed = made[f"{place} harmed"] = folder / f"harmed.{place}.zarr"
            shutil.copytree(path, harmed)
            chunk = harmed / "job_time/c/0/0/0"
            data = bytearray(chunk.read_bytes())
            data[len(data) // 2] ^= 1
            chunk.write_bytes(data)
        made[place] = path
    return made


def expected(cube: Path) -> dict[str, list[Any]]:
    held = open_cube(cube)
    return {name: held[name].values.reshape(-1).tolist() for name in (*NUMBERS, *TEXTS)}


def same(told: Any, values: list[Any]) -> bool:
    """Whether a reader's answer is these values, to the bit."""
    if isinstance(told, str) or len(told) != len(values):
        return False
    pairs = zip(told, values, strict=True)
    return all(
        one == two
        if isinstance(two, str)
        else np.array_equal(_number(one), float(two), equal_nan=True)
        for one, two in pairs
    )


def _number(text: str) -> float:
    return float.fromhex(text) if "0x" in text else float(text)


def found(told: dict[Any, Any], place: str, values: dict[str, list[Any]]) -> list[str]:
    """Of one place: "numbers" and "texts" that were read, whether damage was found, or why not."""
    groups = {"numbers": NUMBERS, "texts": TEXTS}
    right = [
        word
        for word, names in groups.items()
        if all(same(told[place, n], values[n]) for n in names)
    ]
    wrong = [n for n in values if not isinstance(told[place, n], str)]
    wrong = [n for n in wrong if not same(told[place, n], values[n])]
    why = next((text for n in values if isinstance(text := told[place, n], str)), "")
    harmed = told.get((f"{place} harmed", "job_time"))
    damage = [] if harmed is None or not right else [isinstance(harmed, str)]
    reason = " ".join(why.partition(": ")[2].split() or why.split()).partition(": '")[0][:60]
    return [*right, *(f"WRONG {n}" for n in wrong), *damage] or [reason]


def environment(name: str, reader: Reader) -> tuple[list[str], str]:
    """The command that runs a program, and the library's version; installed if it is not yet."""
    folder = ROOT / "build" / "readers" / name
    if reader.program is ZARRITA:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "node_modules").exists():
            subprocess.run(["npm", "install", "--silent", *reader.packages], cwd=folder, check=True)
        about = json.loads((folder / "node_modules/zarrita/package.json").read_text())
        return ["node", str(folder / "program.mjs")], about["version"]
    python, library = folder / "bin/python", (*reader.packages, "numpy")[0].partition("=")[0]
    if not (folder / "ready").exists():
        subprocess.run([reader.python, "-m", "venv", str(folder)], check=True)
        packages = [*reader.packages, "numpy"]
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        (folder / "ready").touch()
    asked = f"import importlib.metadata as m; print(m.version({library!r}))"
    command = [str(python), "-c", reader.version or asked]
    if reader.program is NCDUMP:
        command = ["nc-config", "--version"] if shutil.which("nc-config") else ["ncdump"]
    done = subprocess.run(command, capture_output=True, text=True)
    words = (done.stdout + done.stderr).replace('"', "").split()
    version = next(word for word in reversed(words) if word[0].isdigit() and "." in word)
    return [str(python), str(folder / "program.py")], version


def tried(name: str, paths: dict[str, Path], values: dict[str, list[Any]]) -> dict[str, Any]:
    """What a reader reads of each place, in its environment."""
    reader = READERS[name]
    command, version = environment(name, reader)
    Path(command[-1]).write_text(reader.code + (_NODE if command[0] == "node" else _PYTHON))
    asked = [
        (key, each)
        for place in reader.places
        for key in (place, f"{place} harmed")
        if key in paths
        for each in (values if key == place else ["job_time"])
    ]
    given = json.dumps([(str(paths[key]), each) for key, each in asked])
    folder = Path(command[-1]).parent
    done = subprocess.run([*command, given], cwd=folder, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line[:1] in '["' and line[1:]]
    told = {key: json.loads(line) for key, line in zip(asked, lines, strict=True)}
    places = {place: found(told, place, values) for place in reader.places}
    day = datetime.date.today().isoformat()
    return {"what": reader.what, "version": version, "places": places, "day": day}


def main() -> None:
    import tempfile

    words = sys.argv[1:]
    names = [word for word in words if not word.startswith("--")] or list(READERS)
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as scratch:
        paths = cubes(Path(scratch), {place for name in names for place in READERS[name].places})
        values = expected(paths.get("lz4") or cubes(Path(scratch), {"lz4"})["lz4"])
        for name in names:
            results[name] = tried(name, paths, values)
            print(name, json.dumps(results[name]), flush=True)
    if "--write" in words:
        text = json.dumps({name: results[name] for name in READERS if name in results}, indent=1)
        RESULTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
