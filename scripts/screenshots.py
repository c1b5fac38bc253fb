"""Take the README's pictures from a running demo: `python scripts/screenshots.py URL TOKEN`.

The sample shown is a flagged one with a tool call, where the run has one: raw tokens, segments and a finding in one picture.
"""

import shutil
import sys
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

OUT = Path(__file__).resolve().parent.parent / "docs" / "screenshots"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
SIZE = {"width": 1440, "height": 860}


def main(url: str, token: str) -> None:
    """Write `docs/screenshots/*.png`."""
    client = httpx.Client(
        base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60
    )
    run = client.get("/runs", params={"limit": 1}).json()["items"][0]
    for wanted in ({"flag": "tool_argument_unknown"}, {"-flag": "none"}, {}):
        query = {"state": "done", "finish": "stop", "limit": "50"} | wanted
        found = client.get(f"/runs/{run['id']}/samples", params=query).json()["items"]
        if found:
            break
    shown = max(found, key=lambda row: row["completion_tokens"] if row["completion_tokens"] < 120 else 0)
    pages = {"sample": f"/samples/{shown['id']}", "run": f"/runs/{run['id']}", "samples": f"/runs/{run['id']}/samples"}
    pages["backend"] = f"/backends/{run['backend_ids'][0]}"
    OUT.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(f"{url}/login")
            page.fill("input[name=token]", token)
            page.click("button.primary")
            page.wait_for_url(lambda address: "login" not in address)
            for name, path in pages.items():
                page.goto(url + path)
                page.wait_for_timeout(1500)
                page.screenshot(path=OUT / f"{name}{'' if scheme == 'light' else '-dark'}.png")
            context.close()
        browser.close()
    print(f"written to {OUT}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
