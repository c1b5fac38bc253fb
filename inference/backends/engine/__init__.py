"""The SGLang environment: how it is installed, and the shim that lets it run on a CPU. Nothing here imports SGLang."""

from pathlib import Path

SHIM_DIR = Path(__file__).parent / "shim"
"""Goes on PYTHONPATH of a CPU server."""
