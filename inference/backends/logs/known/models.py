"""The model is at fault: not there, not whole, not allowed, not supported, or not to be had from the hub."""

from inference.backends.logs.known.failure import Known

_LOADED = r"Load weight end"
"""A hub is tried again, and a model that was loaded had come from somewhere."""

MODELS = (
    Known(
        "remote_code_needed",
        r"trust_remote_code=True|requires you to execute the (?:configuration|modeling) file|Do you wish to run the custom code"
        r"|EOFError: EOF when reading a line",  # its question on a stdin that we keep empty
        "This checkpoint brings Python code of its own and SGLang will not run it unasked.",
        "If you trust it: set DRAFTMILL_ALLOW_REMOTE_CODE=true and launch.trust_remote_code=true.",
        "Please pass the argument `trust_remote_code=True` to allow custom code to be run.",
        permanent=True,
        hangs=True,
    ),
    Known(
        "hub_model_not_found",
        r"RepositoryNotFoundError|Repository Not Found for url|is not a local folder and is not a valid model identifier"
        r"|RevisionNotFoundError|Revision Not Found for url",
        "The model hub knows no model of that name, or hides it from us.",
        "Correct launch.model_path (organisation/name, and extra_flags revision); for a private model set HF_TOKEN for Draftmill.",
        "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1)",
        permanent=True,
        hangs=True,
    ),
    Known(
        "gated_model",
        r"GatedRepoError|Cannot access gated repo|Access to model .* is restricted|(?:401|403) Client Error",
        "The model hub refuses access to this model.",
        "Accept the model's terms on the hub and set HF_TOKEN for Draftmill, or use a local folder.",
        "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1)",
        permanent=True,
        hangs=True,
    ),
    Known(
        "hub_busy",
        r"429 Client Error|Too Many Requests for url",
        "The model hub answers that it was asked too often.",
        "Wait, or set HF_TOKEN for Draftmill; better, download the model into a model root once and give that folder.",
        "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://example.org/api",
        hangs=True,
        overcome=_LOADED,
    ),
    Known(
        "model_not_found",
        r"Repo id must be in the form .*?: '([^']+)'|does not appear to have a file named (?:config|params)\.json"
        r"|No such file or directory: '[^']*/config\.json'",
        "There is no model where model_path points to.",
        "Correct launch.model_path: a folder with config.json under a model root, or a hub id.",
        "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/nonexistent/model'. Use `repo_type`",
        permanent=True,
    ),
    Known(
        "hub_offline",
        r"outgoing traffic has been disabled|offline mode is enabled",
        "The model is not on this machine, and looking it up on the hub is switched off (HF_HUB_OFFLINE).",
        "Give the model's folder as launch.model_path, or start Draftmill without HF_HUB_OFFLINE.",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache and outgoing "
        "traffic has been disabled.",
        permanent=True,
        hangs=True,
    ),
    Known(
        "hub_unreachable",
        r"couldn't connect to 'https?://|LocalEntryNotFoundError"
        r"|^(?!.*(?:127\.0\.0\.1|localhost)).*(?:Max retries exceeded with url|NameResolutionError|Temporary failure in name resolution)",
        "The model is not on this machine and the hub cannot be reached.",
        "Mend the connection, or download the model into a model root first and give that folder as launch.model_path.",
        "OSError: We couldn't connect to 'https://example.org' to load the files, and couldn't find them in the cached files.",
        hangs=True,
        overcome=_LOADED,
    ),
    Known(
        "download_broken",
        r"IncompleteRead\(|ChunkedEncodingError|Consistency check failed: file should be of size|peer closed connection without"
        r" sending complete message body|Connection broken: |Data processing error: .*CAS|ReadTimeoutError|httpx\.ReadTimeout",
        "The download of the model broke off.",
        "Start it again: a download goes on where it stopped. If it recurs, download into a model root first.",
        "requests.exceptions.ChunkedEncodingError: ('Connection broken: IncompleteRead(1048576 bytes read)')",
        hangs=True,
        overcome=_LOADED,
    ),
    Known(
        "weights_broken",
        r"SafetensorError: (.+)|PytorchStreamReader failed|_pickle\.UnpicklingError: invalid load key",
        "A weight file of the model is cut short or is no weight file.",
        "Download the model again and compare the files' sizes: a broken copy and a Git LFS pointer (130 bytes) look like this.",
        "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered",
        permanent=True,
    ),
    Known(
        "weights_missing",
        r"Cannot find any model weights with `([^`]+)`|No model weights found",
        "The model's folder holds no weight files.",
        "Complete the download, or point launch.model_path to the folder that holds *.safetensors.",
        "RuntimeError: Cannot find any model weights with `/models/empty`",
        permanent=True,
    ),
    Known(
        "weights_do_not_fit_config",
        r"Attempted to load weight \(torch\.Size|size mismatch for |The size of tensor a \(\d+\) must match the size of tensor b",
        "The weights have other shapes than the model's config.json says.",
        "Put the config.json that belongs to these weights beside them, or drop a launch.quantization that they were not made for.",
        "AssertionError: Attempted to load weight (torch.Size([1536, 576])) into parameter (torch.Size([1537, 576]))",
        permanent=True,
    ),
    Known(
        "tokenizer_broken",
        r"Can't load tokenizer for|Couldn't instantiate the backend tokenizer|Unable to load vocabulary from file"
        r"|Exception: data did not match any variant",
        "The model's tokenizer files are missing or broken.",
        "Put tokenizer.json and tokenizer_config.json beside the model, or name their folder in launch.tokenizer_path.",
        "OSError: Can't load tokenizer for '/models/one'. If you were trying to load it from 'https://example.org'",
        permanent=True,
        only_before_ready=True,
    ),
    Known(
        "config_broken",
        r"It looks like the config file at '([^']+)' is not a valid JSON file",
        "The model's config.json is not valid JSON.",
        "Download the model's config.json again.",
        "OSError: It looks like the config file at '/models/one/config.json' is not a valid JSON file.",
        permanent=True,
    ),
    Known(
        "unrecognized_model",
        r"Unrecognized model in (\S+)\. Should have a `model_type`|model type `([^`]+)` but Transformers does not recognize",
        "SGLang does not know what kind of model this is.",
        "Check that the folder's config.json is whole, and that this SGLang supports the model.",
        "ValueError: Unrecognized model in /models/empty. Should have a `model_type` key in its config.json.",
        permanent=True,
    ),
    Known(
        "unsupported_architecture",
        r"Model architectures \[?([^\]]+)\]? (?:(?:are|is) not supported|failed to be inspected)"
        r"|Cannot find model module\. '(\w+)'",
        "This SGLang cannot run the model's architecture.",
        "Use an SGLang version that supports it.",
        "ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: dict_keys([])",
        permanent=True,
    ),
    Known(
        "unsupported_quantization",
        r"The quantization method (\S+) is not supported for the current GPU|is not supported for quantization method (\S+)\."
        r"|(?:Invalid|Unknown) quantization method: (\S+)|Quantization method specified in the model config \((\S+)\) does not"
        r"|Cannot find the config file for (\w+)$",
        "This quantization cannot be used with this model on this machine.",
        "Leave launch.quantization out where the model is not quantized; else choose a launch.dtype or GPU that it supports.",
        "ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 80.",
        permanent=True,
    ),
    Known(
        "unsupported_fp8",
        r"fp8e4nv not supported in this architecture|(?:Error|Exception): .*[Ff][Pp]8.{0,40}(?:not supported|only supported|requires) .{0,60}(?:GPU|device|capability|SM)",
        "This GPU has no arithmetic for the FP8 numbers that the launch asks for.",
        "Use weights that are not FP8, set launch.kv_cache_dtype to auto, or use a GPU of compute capability 8.9 or more.",
        "ValueError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')",
        permanent=True,
    ),
    Known(
        "model_unreadable",
        r"PermissionError: \[Errno 13\] Permission denied: '([^']+)'",
        "SGLang may not read or write {0}.",
        "Give the user that Draftmill runs as the right to it (model folders: read; cache folders: read and write).",
        "PermissionError: [Errno 13] Permission denied: '/models/one/model.safetensors'",
        permanent=True,
    ),
)
