"""Run by SGLang's own interpreter: what its reasoning parsers make of the texts on stdin.

Reads JSON [[key, forced, text], …] and writes JSON [[reasoning, content], …] in the same order.
"""

import json
import sys


def main() -> None:
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    answers = []
    for key, forced, text in json.load(sys.stdin):
        parser = ReasoningParser(model_type=key, stream_reasoning=False, force_reasoning=forced)
        answers.append(parser.parse_non_stream(text))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
