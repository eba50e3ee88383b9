#!/usr/bin/env python3
"""Stand-ins for the CUDA libraries that PyPI's torch is linked with, so that it imports and computes on the CPU without 3 GB.

    ENVIRONMENT/bin/python tests/torch/without_cuda.py     writes them beside torch's own libraries; needs gcc and readelf

Every function that torch wants of a missing library returns 100, which is CUDA's "no device", but for those that hand out text.
"""

import re
import subprocess
import sysconfig
from collections import defaultdict
from pathlib import Path

OF_THE_SYSTEM = re.compile(r"(libc|libm|libpthread|libdl|librt|libstdc\+\+|libgcc_s|ld-linux.*|libgomp|libz)\.so")
OF_CUDA = re.compile(r"(cu|nccl|nv|__cuda)")
BODIES = {
    "cudaGetErrorString": 'const char *{name}(void) {{ return "no CUDA device"; }}',
    "cudaGetErrorName": 'const char *{name}(void) {{ return "cudaErrorNoDevice"; }}',
    "cudaStreamIsCapturing": "int {name}(void *stream, int *status) {{ *status = 0; return 0; }}",
}
USUAL = "int {name}(void) {{ return 100; }}"


def readelf(option: str, library: Path) -> str:
    return subprocess.run(["readelf", "-W", option, library], capture_output=True, text=True, check=True).stdout


def main(folder: Path) -> None:
    libraries = [path for path in folder.glob("*.so*") if path.is_file()]
    own = {path.name for path in libraries}
    # Of each missing library the versions of its symbols; of all symbols those that no version binds to a library.
    wanted = defaultdict(lambda: defaultdict(set))
    missing, loose, defined = set(), set(), set()
    for library in libraries:
        missing |= set(re.findall(r"\(NEEDED\).*\[(.*?)\]", readelf("-d", library)))
        library_of, current = {}, None
        for line in readelf("-V", library).splitlines():
            if found := re.search(r"File: (\S+)", line):
                current = found[1]
            if found := re.search(r"Name: (\S+)\s+Flags.*Version: \d+", line):
                library_of[found[1]] = current
        for line in readelf("--dyn-syms", library).splitlines():
            parts = line.split()
            if len(parts) < 8 or not parts[0].rstrip(":").isdigit():
                continue
            name, _, version = parts[7].replace("@@", "@").partition("@")
            if parts[6] != "UND":
                defined.add(name)
            elif version:
                wanted[library_of.get(version)][version].add(name)
            elif parts[4] != "WEAK":
                loose.add(name)
    loose = {name for name in loose - defined if OF_CUDA.match(name)}
    for library in sorted(missing):
        if library in own or OF_THE_SYSTEM.match(library):
            continue
        versions = wanted[library]
        names = set().union(*versions.values())
        if library.startswith("libcudart"):
            names |= loose
        script = [
            f"{version} {{ global: {' '.join(f'{name};' for name in sorted(its))} }};"
            for version, its in versions.items()
        ]
        written = folder / f"{library}.map"
        written.write_text("\n".join(script))
        source = "\n".join(BODIES.get(name, USUAL).format(name=name) for name in sorted(names)) + "\n"
        options = ["-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{library}", "-o", folder / library]
        options += [f"-Wl,--version-script={written}"] if script else []
        subprocess.run(["gcc", *options, "-x", "c", "-"], input=source, text=True, check=True)
        written.unlink()


if __name__ == "__main__":
    main(Path(sysconfig.get_path("purelib")) / "torch" / "lib")
