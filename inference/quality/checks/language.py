"""An answer in another writing system than the prompt's, which did not ask for it.

Judged by script alone, and only where both sides are clear: prose without code, formulas and links; a prompt that names no
language, quotes none of the answer's script and does not ask for a translation. A prompt in Latin letters counts only where it has
the small words of a language that is written so: much of the world types its own language in Latin letters.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.quality.flags import Flag, flag
from inference.quality.reading import Reading

_NAMES = (
    *(
        "no letters",
        "Latin letters",
        "Cyrillic letters",
        "Greek letters",
        "Arabic letters",
        "Hebrew letters",
        "Devanagari",
    ),
    *("Thai letters", "Hangul", "Chinese characters", "Japanese characters", "other letters"),
)
_NONE, _LATIN, _HANGUL, _HAN, _KANA, _OTHER = 0, 1, 8, 9, 10, 11
_BLOCKS = (
    *((0x41, 0x5B, _LATIN), (0x61, 0x7B, _LATIN), (0xC0, 0x250, _LATIN), (0x1E00, 0x1F00, _LATIN)),
    *(
        (0x370, 0x400, 3),
        (0x1F00, 0x2000, 3),
        (0x400, 0x530, 2),
        (0x590, 0x600, 5),
        (0x600, 0x780, 4),
        (0x8A0, 0x900, 4),
    ),
    *((0x900, 0x980, 6), (0x980, 0xE00, _OTHER), (0xE00, 0xE80, 7), (0xE80, 0x1100, _OTHER), (0x1100, 0x1200, _HANGUL)),
    *((0x1200, 0x1380, _OTHER), (0x1780, 0x1800, _OTHER), (0x3040, 0x3100, _KANA), (0x3130, 0x3190, _HANGUL)),
    *(
        (0x3400, 0x4DC0, _HAN),
        (0x4E00, 0xA000, _HAN),
        (0xAC00, 0xD7B0, _HANGUL),
        (0xF900, 0xFB00, _HAN),
        (0xFB50, 0xFE00, 4),
    ),
    *((0xFE70, 0xFF00, 4), (0xFF66, 0xFF9F, _KANA)),
)


def _table() -> NDArray[np.uint8]:
    """`uint8[0x10000]`: the script of each code point of the basic plane."""
    table = np.zeros(0x10000, dtype=np.uint8)
    for start, end, script in _BLOCKS:
        table[start:end] = script
    table.flags.writeable = False
    return table


_SCRIPTS = _table()
_WEIGHTS = np.array([0, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 1])
"""A syllable or character says about as much as three letters"""
_LONGEST = 20_000  # characters that are looked at
_CLEAR = 0.8  # share of an answer's letters that makes its script
_CLEAR_OF_PROMPT = 0.7
_LEAST_OF_ANSWER, _LEAST_OF_PROMPT = 150, 12  # letters, weighed
_KANA_OF_JAPANESE = 0.08  # share of a Japanese text's characters; most have several times as many
_HAN_OF_BOTH = 40  # characters of a prompt without kana that may still be Japanese
_QUOTED = 2  # letters of the answer's script in the prompt: it was given there
_MOST_QUOTED_LATIN = 0.25

_NOT_PROSE = re.compile(
    r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)|`[^`\n]{1,200}`|https?://\S+|<[^<>\n]{1,200}>"
    r"|\$\$.{1,400}?\$\$|\$[^$\n]{1,200}\$|\\\[.{1,400}?\\\]|\\\(.{1,200}?\\\)",
    re.MULTILINE | re.DOTALL,
)
"""Code, links, markup and formulas; bounded, so that what is opened and never closed costs little"""
_ASKS = re.compile(
    r"translat|transliterat|romaniz|romanis|pinyin|romaji|kanji|alphabet|cyrillic|bilingual|multilingual|native (?:script|language)"
    r"|in (?:any|another|other|different|several|many|multiple) languages?|languages|tradu|übersetz|vertaal|tłumacz|çevir|terjemah"
    r"|english|chinese|mandarin|cantonese|japanese|korean|russian|ukrainian|bulgarian|serbian|arabic|persian|farsi|urdu|hebrew"
    r"|hindi|sanskrit|marathi|nepali|bengali|tamil|telugu|thai|greek|armenian|georgian|amharic|burmese|khmer|tibetan|mongolian"
    r"|китайск|английск|японск|корейск|русск|перев|немецк|французск|испанск|арабск|латин|英|中文|汉语|漢語|日语|日語|日本語|韩|韓|法语|德语"
    r"|俄语|西班牙|外语|拉丁|翻译|翻譯|翻訳|訳し|訳して|語で|영어|한국어|일본어|중국어|번역|ترجم|إنجليزي|انجليزي|الصينية|अंग्रे|अनुवाद|हिंदी|हिन्दी"
    r"|อังกฤษ|แปล|אנגלית|תרגם|αγγλικ|μετάφρα",
    re.IGNORECASE,
)
"""Words that name a language or ask for a translation: then another script is what was wanted"""
_WORDS = """
the of and what how why who where when which does are was were with for from this that these please write explain give
your you about should would can could have has my it its in an not by as be or between into than more describe list
tell el los las una por qué cómo que es con para del y le les des une est et dans pour avec sur qui quoi quel quelle
der die das und ist nicht ein eine mit für von wie warum il gli della che di perché come sono um uma não os são het
een van hoe wat jest nie się jak bir ve için nasıl là của và các yang dan untuk dengan och att för hur
"""
_SMALL_WORDS = frozenset(_WORDS.split())
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ɏḀ-ỿ]+")
_LATIN_QUOTE = re.compile(r"[A-Za-z]{2,}(?:[ ,'-]+[A-Za-z]{2,}){3,}")
_READ = 4_000  # characters are enough to know prose by
_LEAST_SMALL = 0.12  # share of small words in any prose; English has about 0.4


class _Script(NamedTuple):
    """The script that most letters of a text are of, their share, and how many letters there are (weighed)."""

    script: int
    share: float
    letters: int


def check_language(reading: Reading) -> list[Flag]:
    """The content's script is clearly another than the prompt's, and nothing in the prompt explains it."""
    prompt, parts = reading.prompt_text[:_LONGEST], [part for part in reading.parts if part.kind == "content"]
    if not prompt or not parts:
        return []
    answer = "\n".join([part.text for part in parts])[:_LONGEST]
    asked, given = _script(_counts(prompt)), _script(_counts(answer))
    if asked.script == given.script or asked.letters < _LEAST_OF_PROMPT or given.letters < _LEAST_OF_ANSWER:
        return []  # the common case, before anything is taken out
    answer, bare = _NOT_PROSE.sub(" ", answer), _NOT_PROSE.sub(" ", prompt)
    asked, given = _script(_counts(bare)), _script(_counts(answer))
    clear = given.share >= _CLEAR and asked.share >= _CLEAR_OF_PROMPT
    enough = given.letters >= _LEAST_OF_ANSWER and asked.letters >= _LEAST_OF_PROMPT
    if not (clear and enough) or asked.script == given.script or _OTHER in {asked.script, given.script}:
        return []
    if _explained(prompt, bare, answer, asked, given):
        return []
    message = f"The prompt is in {_NAMES[asked.script]}, the answer in {_NAMES[given.script]}."
    return [flag("language_mismatch", parts[0].start, parts[-1].end, message)]


def _explained(prompt: str, bare: str, answer: str, asked: _Script, given: _Script) -> bool:
    """Whether the prompt wanted the other script, gave it, or may be in the answer's language after all."""
    if _ASKS.search(prompt):
        return True
    counts = _counts(prompt)
    if given.script == _LATIN:
        quoted = _LATIN_QUOTE.search(prompt) is not None or counts[_LATIN] > _MOST_QUOTED_LATIN * int(counts @ _WEIGHTS)
        return quoted or not _has_small_words(answer)
    if given.script == _HAN and asked.script == _KANA:
        return bool(_counts(answer)[_KANA])
    if given.script == _KANA and asked.script == _HAN:
        return int(counts[_HAN]) < _HAN_OF_BOTH
    if asked.script == _LATIN and not _has_small_words(bare):
        return True
    theirs = counts[_HAN] + counts[_KANA] if given.script in {_HAN, _KANA} else counts[given.script]
    return int(theirs) >= _QUOTED


def _counts(text: str) -> NDArray[np.intp]:
    """`intp[12]`: the letters of each script."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return np.bincount(_SCRIPTS.take(points, mode="clip"), minlength=len(_NAMES))


def _script(counts: NDArray[np.intp]) -> _Script:
    weighed = counts * _WEIGHTS
    total = int(weighed.sum())
    if not total:
        return _Script(_NONE, 0.0, 0)
    both = int(weighed[_HAN] + weighed[_KANA])
    main = int(weighed.argmax())
    if main in {_HAN, _KANA}:
        japanese = weighed[_KANA] >= _KANA_OF_JAPANESE * both
        return _Script(_KANA if japanese else _HAN, both / total, total)
    return _Script(main, int(weighed[main]) / total, total)


def _has_small_words(text: str) -> bool:
    words = [word.lower() for word in _LATIN_WORD.findall(text[:_READ])]
    small = sum(word in _SMALL_WORDS for word in words)
    return small >= _LEAST_SMALL * len(words) and (small > 1 or small * 4 >= len(words) > 0)
