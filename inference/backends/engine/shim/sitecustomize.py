"""Lets an unmodified SGLang 0.5.23 start where torch is a CPU build and triton is absent.

Python imports a module of this name at start-up from PYTHONPATH. It only registers an import hook: nothing is loaded, and
nothing in site-packages is changed, until SGLang asks for one of two modules:

* torchvision: its wheel is built for CUDA, and with a CPU torch `import torchvision` stops at two operators that were never
  registered. Their signatures are declared just before the import; nobody calls them.
* triton: SGLang carries a stand-in for machines without it (it uses that on macOS). The stand-in is loaded from SGLang's own
  folder and completed with the names that torch and SGLang touch while they are imported.
"""

import importlib.machinery
import importlib.util
import sys

STAND_IN = "_platform_stubs"


class _Hook:
    """A meta-path finder for the two modules; everything else falls through to Python's own."""

    operators = None

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "torchvision" and cls.operators is None:
            cls.operators = _declare_operators()
        if name == "triton" and importlib.machinery.PathFinder.find_spec("triton") is None:
            return importlib.machinery.ModuleSpec("triton", _TritonLoader, is_package=True)
        return None


class _TritonLoader:
    @staticmethod
    def create_module(spec):
        return _build_triton()

    @staticmethod
    def exec_module(module):
        """All was done when the module was made."""


def _declare_operators():
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library  # kept alive by the hook: the declarations go when it does


def _build_triton():
    folder = importlib.util.find_spec("sglang").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location(f"_sglang{STAND_IN}", f"{folder}/{STAND_IN}.py")
    stubs = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = stubs
    spec.loader.exec_module(stubs)
    sys.meta_path.insert(0, stubs._TritonFinder())

    def stub_class(name, base=None):
        return type(name, (base or stubs._StubBase,), {})

    def constant(self, value=None):
        self.value = value

    parts = {
        "triton": {
            "__version__": "3.0.0",
            "cdiv": stubs._cdiv,
            "next_power_of_2": stubs._next_power_of_2,
            "Config": stubs._Config,
        },
        "triton.language": {"constexpr": type("constexpr", (), {"__init__": constant})},
        "triton.language.extra": {},
        "triton.language.extra.libdevice": {},
        "triton.runtime": {},
        "triton.runtime.jit": {name: stub_class(name) for name in ("JITFunction", "KernelInterface")},
        "triton.runtime.cache": {"triton_key": stubs._triton_key},
        "triton.runtime.autotuner": {name: stub_class(name, Exception) for name in ("OutOfResources", "PTXASError")},
        "triton.runtime.driver": {},
        "triton.compiler": {"CompiledKernel": stub_class("CompiledKernel")},
        "triton.compiler.compiler": {"ASTSource": stub_class("ASTSource"), "triton_key": stubs._triton_key},
        "triton.testing": {},
        "triton.tools": {},
        "triton.tools.tensor_descriptor": {},
        "triton.backends": {},
        "triton.backends.compiler": {"GPUTarget": stub_class("GPUTarget")},
    }
    for name, attributes in parts.items():
        module = stubs._make_mock(name)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
        for attribute, value in attributes.items():
            setattr(module, attribute, value)
    return sys.modules["triton"]


sys.meta_path.insert(0, _Hook)
