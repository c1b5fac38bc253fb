"""The launch itself is at fault: SGLang reads its arguments and refuses them."""

from inference.backends.logs.known.failure import Known

ARGUMENTS = (
    Known(
        "unknown_flag",
        r"error: unrecognized arguments: (.+)",
        "SGLang does not know the flag {0}.",
        "Take it out of the launch, or use an SGLang version that has it.",
        "sglang serve: error: unrecognized arguments: --no-such-flag",
        permanent=True,
        before=0,  # above it stands a usage text of 2,800 lines
    ),
    Known(
        "bad_flag_value",
        r"error: argument (\S+): (.+)",
        "SGLang refuses the value of {0}: {1}.",
        "Correct the value in the launch.",
        "sglang serve: error: argument --dtype: invalid choice: 'int3' (choose from auto, half, float16)",
        permanent=True,
        before=0,
    ),
    Known(
        "missing_flag",
        r"error: the following arguments are required: (.+)",
        "SGLang misses the flag {0}.",
        "Add it to the launch.",
        "sglang serve: error: the following arguments are required: --model-path/--model",
        permanent=True,
        before=0,
    ),
    Known(
        "context_too_long",
        r"context_length \((\d+)\) is greater than the derived context_length \((\d+)\)",
        "context_length {0} is more than the model's own {1} tokens.",
        "LOWER launch.context_length to {1} or less, or leave it out.",
        "ValueError: Warning: User-specified context_length (100000) is greater than the derived context_length (4096).",
        permanent=True,
    ),
    Known(
        "cpu_ranks",
        r"total number of ranks .* should be smaller than or equal to number of numa node on the machine (\d+)",
        "The CPU engine takes one rank for each NUMA node, and this machine has {0}.",
        "LOWER launch.tp_size to {0}, or leave it out.",
        "AssertionError: the total number of ranks (tp_size = 2) should be smaller than or equal to number of numa node on "
        "the machine 1. If you need more",
        permanent=True,
    ),
    Known(
        "ranks_do_not_divide",
        r"(?:AssertionError|ValueError): (\d+) is not divisible by (\d+)|[Tt]otal number of attention heads \((\d+)\) must be",
        "The model cannot be split over so many ranks: a size of it does not divide by their number.",
        "Set launch.tp_size to a divisor of the model's number of attention heads (num_attention_heads in its config.json).",
        "AssertionError: 14 is not divisible by 4",
        permanent=True,
    ),
    Known(
        "too_few_gpus",
        r"invalid device ordinal",
        "The launch asks for more GPUs than SGLang can see.",
        "LOWER launch.tp_size (or dp_size, pp_size), or give it more GPUs.",
        "torch.AcceleratorError: CUDA error: invalid device ordinal",
        permanent=True,
    ),
)
