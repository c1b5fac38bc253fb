"""What a fake server is (its launch arguments, as it reports them) and how it misbehaves (knobs that a test may turn at any time)."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Facts:
    """The server's arguments; names as in `/server_info`."""

    model_path: str = "models/think"
    tokenizer_path: str = ""
    served_model_name: str = ""
    version: str = "0.5.23"
    weight_version: str = "default"
    context_length: int = 4096
    vocab_size: int = 151_936
    max_total_num_tokens: int = 40_000
    max_running_requests: int = 4096
    reasoning_parser: str | None = "qwen3"
    tool_call_parser: str | None = "qwen"
    allow_auto_truncate: bool = False
    skip_tokenizer_init: bool = False
    api_key: str | None = None
    admin_api_key: str | None = None

    def __post_init__(self) -> None:
        self.tokenizer_path = self.tokenizer_path or self.model_path
        self.served_model_name = self.served_model_name or self.model_path.rsplit("/", 1)[-1]

    @property
    def max_req_input_len(self) -> int:
        """The longest prompt the scheduler takes."""
        return min(self.context_length - 1, self.max_total_num_tokens - 1) - 5

    def model_info(self) -> dict[str, Any]:
        """The body of `/model_info`."""
        return {
            "model_path": self.model_path,
            "served_model_name": self.served_model_name,
            "tokenizer_path": self.tokenizer_path,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": self.weight_version,
            "load_format": "auto",
            "reasoning_parser": self.reasoning_parser,
            "tool_call_parser": self.tool_call_parser,
            "disaggregation_mode": "null",
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": "qwen3",
            "architectures": ["Qwen3ForCausalLM"],
        }

    def server_info(self, port: int) -> dict[str, Any]:
        """The body of `/server_info`: the real one has 556 keys; these are the telling ones, keys in clear included."""
        arguments: dict[str, Any] = {
            "model_path": self.model_path,
            "tokenizer_path": self.tokenizer_path,
            "skip_tokenizer_init": self.skip_tokenizer_init,
            "context_length": None,
            "dtype": "auto",
            "mem_fraction_static": 0.716,
            "max_running_requests": None,
            "max_total_tokens": self.max_total_num_tokens,
            "tp_size": 1,
            "pp_size": 1,
            "dp_size": 1,
            "device": "cpu",
            "host": "127.0.0.1",
            "port": port,
            "api_key": self.api_key,
            "admin_api_key": self.admin_api_key,
            "served_model_name": self.served_model_name,
            "weight_version": self.weight_version,
            "reasoning_parser": self.reasoning_parser,
            "tool_call_parser": self.tool_call_parser,
            "allow_auto_truncate": self.allow_auto_truncate,
            "attention_backend": "torch_native",
            "random_seed": 0,
            "watermark_key": "<redacted>",
        }
        return {
            **arguments,
            "launch_command": f"--host 127.0.0.1 --port {port} --model-path {self.model_path} --api-key {self.api_key}",
            "status": "ready",
            "max_total_num_tokens": self.max_total_num_tokens,
            "max_req_input_len": self.max_req_input_len,
            "kv_events": None,
            "startup_time": 23.1,
            "internal_states": [
                {
                    **arguments,
                    "last_gen_throughput": 0.0,
                    "effective_max_running_requests_per_dp": self.max_running_requests,
                }
            ],
            "version": self.version,
            "frontend": "python",
        }


@dataclass
class Knobs:
    """How it behaves now. Times are seconds.

    `health`: "ok" (200, empty body), "starting" or "busy" (503), "hang", a status code, or "body:<text>" (200 with that body).
    `ready`: the same for `/ready`; None follows `health`. `missing`: paths that answer 404. `batch`: whether lists of prompts
    are served. `echo_prompt_ids`: whether `return_prompt_token_ids` is honoured. `abort_by_prefix`: the other world of
    `/abort_request`. `loads`: the answer of `/v1/loads` instead of its own. `metrics`: the text of `/metrics`, which is not there
    without. `die_after`: dies at the n-th prompt. `death_delay`: how long it hangs before it dies.
    """

    health: str | int = "ok"
    health_delay: float = 0.0
    ready: str | int | None = None
    missing: set[str] = field(default_factory=set)
    batch: bool = True
    echo_prompt_ids: bool = True
    abort_by_prefix: bool = False
    throughput: float = 0.0
    die_after: int | None = None
    death_delay: float = 0.0
    disconnect_grace: float = 0.02
    draining: bool = False
    token_time: float = 0.0
    loads: object = None
    metrics: str | None = None
