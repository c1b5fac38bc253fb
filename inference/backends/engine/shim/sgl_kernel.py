"""Takes the place of SGLang's compiled CPU kernels, which no index carries.

With SGLANG_USE_CPU_ENGINE=1 SGLang imports `*_cpu` names from here while it loads, and calls them for speculative decoding
alone: so every such name exists, and says what is missing when it is called.
"""


def __getattr__(name):
    if name.endswith("_cpu"):

        def kernel(*_args, **_kwargs):
            raise NotImplementedError(f"sgl_kernel.{name} is a compiled kernel that this CPU installation does not have")

        return kernel
    raise AttributeError(f"module 'sgl_kernel' has no attribute {name!r}")
