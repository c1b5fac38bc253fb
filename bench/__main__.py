"""`make bench`: the table of the README, measured in one run on one machine against one null engine.

    python -m bench [--samples 3000] [--tokens 2000] [--no-peers]
    python -m bench --only-supervision

Ratios between rows are the result; the absolute figures are this machine's.
"""

import argparse
import os
import platform
import subprocess
import sys

import psutil

from bench.draftmill import whole_path
from bench.inline import report
from bench.measure import ROOT, Peak, Row, cpu_of, null_engine
from bench.peers import specforge, speculators
from bench.supervision import report as report_supervision


def floor(url: str, samples: int, in_flight: int) -> Row:
    """The bare loop in a process of its own, so that its CPU and memory are its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.floor", url, str(samples), str(in_flight)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    watched = psutil.Process(process.pid)
    with Peak(watched) as peak:
        assert process.stdout is not None
        wall = float(process.stdout.readline())
        cpu = cpu_of(watched)
    process.wait()
    return Row("bare aiohttp loop (decodes, keeps nothing)", in_flight, samples, wall, cpu, peak.mb)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument(
        "--only-supervision", action="store_true", help="how soon a server's state is known, and what it costs"
    )
    options = parser.parse_args()
    print(
        f"{options.samples:,} samples of {options.tokens:,} output ids; {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    print(f"load before: {os.getloadavg()[0]:.1f}\n", flush=True)
    if options.only_supervision:
        report_supervision()
        return
    print("| Client | in flight | samples/s | CPU-s per 1,000 samples | peak MB |\n|---|---|---|---|---|", flush=True)
    per_id = start_up = 0.0
    with null_engine(options.tokens) as url:
        for in_flight in (64, 512):
            row, per_id, start_up = whole_path(url, options.samples, in_flight)
            print(row.markdown(), flush=True)
            print(floor(url, options.samples, in_flight).markdown(), flush=True)
        if not options.no_peers:
            print(speculators(url, options.samples, 64).markdown(), flush=True)
            print(specforge(64).markdown(), flush=True)
    print(f"\nids on disk: {per_id:.2f} bytes per output id (made-up ids, one in ten rare)")
    print(f"once a worker, not in the table (start, tokenizer, probe): {start_up:.1f} CPU-s")
    print()
    report(options.tokens)
    print()
    report_supervision()


if __name__ == "__main__":
    main()
