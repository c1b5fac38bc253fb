"""Live figures in Prometheus' text format, as SGLang gives them with `--enable-metrics`.

Only the few series that are shown are read (names: srt/observability/metrics_collector.py); lines that cannot be read are
passed over. Every rank of a tensor-parallel group may report the same scheduler, and a queue is given in all and by priority:
neither may count twice.
"""

from collections import defaultdict

from prometheus_client.parser import text_string_to_metric_families

from inference.backends.server.figures import Rank

SERIES = {
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "queued",
    "sglang:token_usage": "kv_usage",
    "sglang:max_total_num_tokens": "capacity",
    "sglang:gen_throughput": "tokens_per_s",
    "sglang:cache_hit_rate": "cache_hit",
}
MAX_TEXT = 8 * 1024 * 1024
"""Characters of an answer that are looked at"""

_MOST = 1e15
_COPIES = ("tp_rank", "pp_rank", "moe_ep_rank")
"""Labels in which ranks of one scheduler differ; what else differs is another one."""


def read_metrics(text: str) -> list[Rank]:
    """One `Rank` for each scheduler in it, in the order they appear; empty where it has none of SGLang's series."""
    found: dict[frozenset[tuple[str, str]], dict[str, dict[tuple[str, ...], float]]] = {}
    for name, labels, value in _samples(text):
        copy = tuple(labels.get(label, "") for label in (*_COPIES, "priority"))
        scheduler = frozenset((label, said) for label, said in labels.items() if label not in {*_COPIES, "priority"})
        found.setdefault(scheduler, defaultdict(dict))[SERIES[name]][copy] = value
    ranks = []
    for series in found.values():
        values = {field: _one(copies) for field, copies in series.items()}
        if "running" in values:
            ranks.append(Rank(**values))
    return ranks


def _samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    samples = []
    for line in text[:MAX_TEXT].splitlines():
        if line.partition("{")[0].partition(" ")[0] not in SERIES:
            continue
        try:
            read = [sample for family in text_string_to_metric_families(line + "\n") for sample in family.samples]
        except (ValueError, IndexError):
            continue
        samples += [(sample.name, sample.labels, float(sample.value)) for sample in read if 0 <= sample.value <= _MOST]
    return samples


def _one(copies: dict[tuple[str, ...], float]) -> float:
    """The value of the first rank that reports it: its total where it gives one, else the sum over priorities."""
    first = min(copies)[:-1]
    own = {priority: value for (*rank, priority), value in copies.items() if tuple(rank) == first}
    return own[""] if "" in own else sum(own.values())
