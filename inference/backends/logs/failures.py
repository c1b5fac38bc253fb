"""The failures of SGLang that are known by a line of its log: pattern → what it means → what to change, in the right direction.

From the most telling to the most general: the first that any line matches wins. The rows stand in `logs/known/`, a module
for each kind; `Known` says what a row holds.
"""

from inference.backends.logs.known.arguments import ARGUMENTS
from inference.backends.logs.known.crashes import CRASHES, WARM_UP
from inference.backends.logs.known.failure import Known
from inference.backends.logs.known.machine import MACHINE
from inference.backends.logs.known.memory import MEMORY
from inference.backends.logs.known.models import MODELS

KNOWN_FAILURES: tuple[Known, ...] = (*ARGUMENTS, *WARM_UP, *MEMORY, *MODELS, *MACHINE, *CRASHES)
