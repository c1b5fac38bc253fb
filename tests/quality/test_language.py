"""An answer in another script than the prompt's is noted where nothing explains it; every doubt is silence."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.quality.checks.language import check_language
from inference.quality.reading import Reading
from tests.quality.reading import cited, read
from tests.support.families import Family

TEXTS = {
    "en": "Photosynthesis is the process by which plants, algae and some bacteria use the energy of light to turn carbon dioxide and "
    "water into sugar, and to release oxygen. It happens in the chloroplasts, where chlorophyll takes up sunlight.",
    "de": "Die Photosynthese ist ein Vorgang, mit dem Pflanzen und Algen die Energie des Lichts nutzen, um aus Kohlendioxid und "
    "Wasser Zucker zu machen. Er findet in den Chloroplasten statt, und dabei entsteht der Sauerstoff, den wir atmen.",
    "zh": "光合作用是植物、藻类和某些细菌利用光能把二氧化碳和水转化为有机物并释放氧气的过程。这个过程发生在叶绿体中，叶绿素吸收阳光，"
    "将其能量储存在糖类分子里。它是地球上几乎所有生命的能量来源，也维持着大气中的氧气含量。",
    "ja": "光合成とは、植物や藻類、一部の細菌が光のエネルギーを使って二酸化炭素と水から有機物を作り出し、酸素を放出する過程です。"
    "この過程は葉緑体で起こり、クロロフィルが太陽光を吸収します。地球上のほとんどの生命のエネルギー源となっています。",
    "ko": "광합성은 식물과 조류, 그리고 일부 세균이 빛 에너지를 이용하여 이산화탄소와 물로부터 유기물을 만들고 산소를 내보내는 과정입니다. "
    "이 과정은 엽록체에서 일어나며, 엽록소가 햇빛을 흡수하여 그 에너지를 당에 저장합니다.",
    "ru": "Фотосинтез — это процесс, при котором растения, водоросли и некоторые бактерии используют энергию света, чтобы превращать "
    "углекислый газ и воду в сахар и выделять кислород. Он происходит в хлоропластах, где хлорофилл поглощает солнечный свет.",
    "ar": "التمثيل الضوئي هو العملية التي تستخدم بها النباتات والطحالب وبعض البكتيريا طاقة الضوء لتحويل ثاني أكسيد الكربون والماء إلى "
    "سكر وإطلاق الأكسجين. وهي تحدث في البلاستيدات الخضراء حيث يمتص اليخضور ضوء الشمس.",
    "hi": "प्रकाश संश्लेषण वह प्रक्रिया है जिसमें पौधे सूर्य के प्रकाश की ऊर्जा का उपयोग करके कार्बन डाइऑक्साइड और पानी से भोजन बनाते हैं और "
    "ऑक्सीजन छोड़ते हैं। यह प्रक्रिया पत्तियों में होती है। पौधे इस ऊर्जा को शर्करा के रूप में जमा करते हैं।",
}
ASKED = {
    "en": "Explain photosynthesis to me, please.",
    "de": "Erkläre mir bitte, wie die Photosynthese funktioniert.",
    "zh": "请给我解释一下光合作用是什么。",
    "ja": "光合成について分かりやすく説明してください。",
    "ko": "광합성이 무엇인지 설명해 주세요.",
    "ru": "Объясни мне, что такое фотосинтез.",
    "ar": "اشرح لي ما هو التمثيل الضوئي من فضلك.",
    "hi": "कृपया मुझे प्रकाश संश्लेषण समझाइए।",
}
SCRIPTS = {
    "en": "Latin",
    "de": "Latin",
    "zh": "Chinese",
    "ja": "Japanese",
    "ko": "Hangul",
    "ru": "Cyrillic",
    "ar": "Arabic",
    "hi": "Devanagari",
}
CODE = """```python
def sort_values(values):
    # the order of the values is kept for those that are equal
    result = list(values)
    for index in range(len(result)):
        for other in range(index + 1, len(result)):
            if result[other] < result[index]:
                result[index], result[other] = result[other], result[index]
    return result
```"""
FAR = [
    (asked, given)
    for asked in ASKED
    for given in TEXTS
    if SCRIPTS[asked] != SCRIPTS[given] and (asked, given) != ("zh", "ja")
]


def codes(family: Family, prompt: str, content: str) -> list[str]:
    return [flag.code for flag in read(family, content, prompt)]


@pytest.mark.parametrize(("asked", "given"), FAR)
def test_an_answer_in_another_script_is_noted(qwen3: Family, asked: str, given: str) -> None:
    (found,) = read(qwen3, TEXTS[given], ASKED[asked])
    assert (found.code, found.severity) == ("language_mismatch", "info")
    assert SCRIPTS[asked] in found.message.partition(", the answer")[0]
    assert SCRIPTS[given] in found.message.partition(", the answer")[2]
    assert cited(qwen3, TEXTS[given], found) == TEXTS[given]


@pytest.mark.parametrize("language", TEXTS)
def test_an_answer_in_the_prompts_language_is_none(qwen3: Family, language: str) -> None:
    assert codes(qwen3, ASKED[language], TEXTS[language]) == []


def test_thinking_in_another_language_is_nobodys_business(qwen3: Family) -> None:
    assert read(qwen3, TEXTS["en"], ASKED["en"], reasoning=TEXTS["zh"]) == ()


def test_code_around_the_answer_does_not_hide_it(qwen3: Family) -> None:
    assert codes(qwen3, "请用Python写一个排序函数，并解释它。", f"{TEXTS['en']}\n\n{CODE}") == ["language_mismatch"]


@pytest.mark.parametrize(
    ("prompt", "content"),
    [
        # a translation, or a language named
        ("Translate this to Russian: plants turn light into sugar.", TEXTS["ru"]),
        ("How would a Japanese teacher explain photosynthesis?", TEXTS["ja"]),
        ("Answer in Arabic, please: what is photosynthesis?", TEXTS["ar"]),
        ("请用英文解释一下光合作用。", TEXTS["en"]),
        ("把下面的话翻译出来：植物把光变成糖。", TEXTS["en"]),
        ("Объясни по-английски, что такое фотосинтез.", TEXTS["en"]),
        ("光合成について英語で説明してください。", TEXTS["en"]),
        ("광합성을 영어로 설명해 주세요.", TEXTS["en"]),
        ("Übersetze das bitte ins Russische: Die Pflanzen machen Zucker.", TEXTS["ru"]),
        ("Write the alphabet of the Slavs and tell me about it.", TEXTS["ru"]),
        # the answer's script stood in the prompt
        ("What does 光合作用 mean, and how does it work?", TEXTS["zh"]),
        (f"请总结下面这段话：{TEXTS['en']}", TEXTS["en"]),
        ("请继续写下去： the plants use the energy of light", TEXTS["en"]),
        # code, formulas, links and names are no language
        ("请用Python写一个排序函数。", CODE),
        ("请用Python写一个排序函数。", f"这是排序函数：\n{CODE}\n它返回结果。"),
        (
            "请用C写一个排序函数。",
            "int main(void) { int a[] = {3, 1, 2}; "
            + "for (int i = 0; i < 3; i++) { a[i] = a[i] + i; } " * 8
            + "return 0; }",
        ),
        ("请计算这个积分的值。", "$\\int_0^1 x \\, dx = \\frac{1}{2}$ " * 20),
        (
            "请给我这些网页的链接。",
            "https://example.com/the/road/of/the/plants and https://example.com/to/the/light " * 6,
        ),
        (
            "请列出十位著名的科学家。",
            "Albert Einstein, Isaac Newton, Marie Curie, Niels Bohr, Max Planck, Galileo Galilei, " * 3,
        ),
        ("Which letters stand for these constants?", "α β γ δ ε ζ η θ"),
        # a language typed in other letters than its own
        ("mujhe photosynthesis ke bare me batao bhai", TEXTS["hi"]),
        ("obyasni pozhaluysta chto takoe fotosintez", TEXTS["ru"]),
        ("qing jieshi yixia guanghe zuoyong", TEXTS["zh"]),
        ("光合成説明", TEXTS["ja"]),
        # too little to tell
        ("", TEXTS["zh"]),
        ("42 + 17 = ?", TEXTS["zh"]),
        (ASKED["en"], "是的。"),
        (ASKED["zh"], "Yes, it is."),
        (ASKED["zh"], f"{TEXTS['zh']} {TEXTS['en']}"),
    ],
)
def test_what_explains_another_script_is_silence(qwen3: Family, prompt: str, content: str) -> None:
    assert codes(qwen3, prompt, content) == []


@settings(max_examples=200, deadline=None)
@given(prompt=st.text(max_size=80), answer=st.text(max_size=400), of=st.sampled_from(sorted(TEXTS)))
def test_any_texts_are_judged(qwen3: Family, prompt: str, answer: str, of: str) -> None:
    import numpy as np

    ids = np.array(qwen3.ids(f"<think>a</think>{answer}{TEXTS[of]}<|im_end|>"), dtype=np.uint32)
    reading = Reading(qwen3.bound, qwen3.tokenizer, prompt, ids, qwen3.bound.segment(None, ids))
    for flag in check_language(reading):
        assert flag.code == "language_mismatch"
        assert 0 <= (flag.start or 0) < (flag.end or 0) <= len(ids)
