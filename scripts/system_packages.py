"""Chromium and PostgreSQL for the tests: as root on Debian or Ubuntu, install what is missing and say so; elsewhere say what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

WANTED = {
    "chromium": lambda: any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")),
    "postgresql": lambda: any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or shutil.which("initdb") is not None,
    "npm": lambda: shutil.which("npm") is not None,
}


def main() -> int:
    """0 unless an installation that was tried failed."""
    missing = [package for package, present in WANTED.items() if not present()]
    if not missing:
        return 0
    names = " ".join(missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(
            f"[setup] not here: {names}. Tests that need them will be skipped (fail where CI=true). To run them: apt-get install {names}"
        )
        return 0
    print(
        f"[setup] installing {names} with apt-get (the tests need a browser, a database server and npm's tokenizer packages)"
    )
    quiet = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, "stdout": subprocess.DEVNULL}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing],
    ):
        if subprocess.run(command, check=False, **quiet).returncode:  # type: ignore[call-overload]
            print(f"[setup] {' '.join(command)} failed; install {names} by hand")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
