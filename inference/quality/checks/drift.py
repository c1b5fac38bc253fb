"""Retokenisation drift, for whoever asks for it."""

from inference.quality.drift import drift_flag, find_drift
from inference.quality.flags import Flag
from inference.quality.reading import Reading


def check_drift(reading: Reading) -> list[Flag]:
    """The first place of the answer whose text would be encoded to other ids."""
    end = len(reading.ids) if reading.segmentation.stop is None else reading.segmentation.stop
    drift = find_drift(reading.tokenizer, reading.ids[:end])
    return [] if drift is None else [drift_flag(reading.tokenizer, drift)]
