"""Write every lock file again: versions and hashes, no download address. Needs `uv` (pip install uv)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / "inference" / "backends" / "engine"
UV = [
    "uv",
    "pip",
    "compile",
    "-q",
    "--universal",
    "--python-version",
    "3.11",
    "--generate-hashes",
    "--no-header",
    "--no-annotate",
]
CUDA = [
    "triton",
    "cuda-bindings",
    "cuda-pathfinder",
    "cuda-toolkit",
    "nvidia-cublas",
    "nvidia-cuda-cupti",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
    "nvidia-cudnn-cu13",
    "nvidia-cufft",
    "nvidia-cufile",
    "nvidia-curand",
    "nvidia-cusolver",
    "nvidia-cusparse",
    "nvidia-cusparselt-cu13",
    "nvidia-nccl-cu13",
    "nvidia-nvjitlink",
    "nvidia-nvshmem-cu13",
    "nvidia-nvtx",
]
PLAIN = [
    "torch",
    "filelock",
    "fsspec",
    "jinja2",
    "markupsafe",
    "mpmath",
    "networkx",
    "setuptools",
    "sympy",
    "typing-extensions",
]


def compile_lock(arguments: list[str], source: str = "") -> str:
    """The lock file's text for the given requirements (files by name, or `source` on standard input)."""
    return subprocess.run([*UV, *arguments], input=source, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def without(packages: list[str]) -> list[str]:
    """Options that leave packages out of what is written."""
    return [part for package in packages for part in ("--no-emit-package", package)]


def main() -> int:
    """Write the app's two locks and the engine's four."""
    (ROOT / "requirements-dev.lock").write_text(
        compile_lock(["pyproject.toml", "--extra", "postgres", "--extra", "dev"])
    )
    # the app's lock takes its versions from the larger one, so that what is tested is what runs
    (ROOT / "requirements.lock").write_text(
        compile_lock(["pyproject.toml", "--extra", "postgres", "-c", "requirements-dev.lock"])
    )
    torch = next(line for line in (ENGINE / "cpu.in").read_text().splitlines() if line.startswith("torch=="))
    (ENGINE / "cpu.lock").write_text(compile_lock([*without(["torch", *CUDA]), str(ENGINE / "cpu.in")]))
    (ENGINE / "torch-cuda.lock").write_text(compile_lock([*without(PLAIN), "-"], torch))
    pinned = [line for line in (ENGINE / "cpu-nodeps.in").read_text().splitlines() if "==" in line]
    (ENGINE / "nodeps.lock").write_text("".join(compile_lock(["--no-deps", "-"], line) for line in pinned))
    print("torch.lock is kept by hand: it also names the CPU build, which no index lists beside the others")
    return 0


if __name__ == "__main__":
    sys.exit(main())
