"""The README's curl cookbook, run as it stands, on the real server."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.app import ROOT, LiveApp
from tests.support.engine import demo_model

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def cookbook() -> str:
    """Every shell block between the cookbook's marks, in order, as one script."""
    text = (ROOT / "README.md").read_text()
    part = text[text.index("<!-- cookbook:begin -->") : text.index("<!-- cookbook:end -->")]
    return "\n".join(re.findall(r"```bash\n(.*?)```", part, re.DOTALL))


def test_the_cookbook_of_the_readme_runs_as_it_stands(app: LiveApp, tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    script = tmp_path / "cookbook.sh"
    script.write_text("set -euo pipefail\n" + cookbook())
    environment = os.environ | {
        "DRAFTMILL_URL": app.url,
        "DRAFTMILL_TOKEN": app.token,
        "MODEL": str(demo_model()),
        "PYTHON": sys.executable,
    }
    done = subprocess.run(
        ["bash", str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "trained tokens of" in done.stdout
    assert (tmp_path / "rows.jsonl").stat().st_size > 0
    assert '"sha256"' in (tmp_path / "manifest.json").read_text()
