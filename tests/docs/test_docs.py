"""What is written about Draftmill is true: settings, commands, rooms, flags and calls; and the text speaks of the product alone."""

import ast
import dataclasses
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from pip._internal.models.index import PyPI

from inference.export.options import ExportOptions, read_options
from inference.quality.flags import FLAG_CODES
from inference.settings import Settings
from inference.tokens.declaration import TokenFormat
from inference.tokens.formats import all_formats
from tests.e2e.test_cookbook import cookbook

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()

FLAGS_OF_THIS_VERSION = """
reasoning_missing reasoning_empty reasoning_unclosed reasoning_unexpected close_without_open extra_close nested_open
multiple_reasoning content_empty output_empty truncated ends_inside_character finish_mismatch role_marker_in_output
control_in_content repetition_loop tool_call_in_reasoning tool_call_unclosed tool_section_unbalanced tool_json_invalid
tool_arguments_invalid tool_name_unreadable tool_unknown tool_argument_unknown tool_argument_missing tool_argument_type after_stop
delimiter_spelled content_lost control_in_prompt double_bos none_in_prompt reasoning_stripped near_repetition header_malformed
retokenization_drift language_mismatch length_outlier duplicate_answer
"""
FORMATS_OF_THIS_VERSION = {
    "qwen3",
    "qwen3_coder",
    "kimi_k2",
    "deepseek_r1",
    "deepseek_v3",
    "deepseek_v31",
    "deepseek_v32",
    "glm45",
    "gpt_oss",
    "minimax_m2",
    "magistral",
    "hermes",
    "llama3",
    "step3",
    "nemotron",
    "hunyuan",
    "none",
}
TOKEN_FORMATS = (ROOT / "docs" / "token-formats.md").read_text()


def elsewhere() -> tuple[str, ...]:
    """What names this machine or a package index: asked of the machine, so that none of it stands here."""
    indexes = (PyPI.netloc, PyPI.file_storage_domain)
    options = [f"--{kind}index-url" for kind in ("", "extra-")]
    return (f"{ROOT}/", f"{Path.home()}/", *indexes, *options)


def section(title: str) -> str:
    """A section of the README, up to the next of its level."""
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def first_cells(text: str) -> list[str]:
    """The code words in the first cell of each row of a Markdown table."""
    return [
        word
        for line in text.splitlines()
        if line.startswith("| `")
        for word in re.findall(r"`([^`]+)`", line.split("|")[1])
    ]


def tracked() -> list[Path]:
    """Every file of the repository, as git knows it."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [path for name in names.split("\0") if name and (path := ROOT / name).is_file()]


def test_every_setting_is_in_the_readme_and_nothing_else():
    assert sorted(first_cells(section("Settings"))) == sorted(name.upper() for name in Settings.model_fields)


def test_every_setting_says_what_it_decides():
    assert [name for name, field in Settings.model_fields.items() if not (field.description or "").endswith(".")] == []


def test_every_command_is_explained_by_make_help_and_named_in_the_docs():
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    explained = dict(re.findall(r"^([a-z-]+):.*## (.+)$", makefile, re.MULTILINE))
    assert sorted(explained) == sorted(phony.split())
    docs = README + CONTRIBUTING
    missing = [name for name in explained if f"make {name}" not in docs and f"`{name}`" not in docs]
    assert missing == []


def test_the_map_of_the_house_names_every_room():
    named = {word.strip("/") for word in first_cells(section("The map of the house"))}
    rooms = {path.relative_to(ROOT).parts for path in tracked()}
    top = {parts[0] for parts in rooms if len(parts) > 1 and not parts[0].startswith(".")} - {"docs", "inference"}
    inside = {f"inference/{parts[1]}" for parts in rooms if parts[0] == "inference" and len(parts) > 2}
    assert named == top | inside


def test_every_path_in_the_docs_is_there():
    text = README + CONTRIBUTING + TOKEN_FORMATS
    wanted = set(re.findall(r"`((?:api|db|docs|inference|scripts|tests|web)/[\w/.-]*)`", text))
    wanted |= set(re.findall(r"\]\((?!https?:)([^)#]+)\)", README + CONTRIBUTING))
    assert sorted(path for path in wanted if not (ROOT / path).exists()) == []


def test_no_place_is_left_for_something_to_come():
    assert re.findall(r"^[A-Z]+(?:_[A-Z]+)+$|\b(?:TODO|FIXME|TBD|XXX)\b", README + CONTRIBUTING, re.MULTILINE) == []


def test_the_flags_of_this_version_are_declared():
    assert set(FLAGS_OF_THIS_VERSION.split()) <= set(FLAG_CODES)


def test_every_code_that_the_source_raises_is_declared():
    """What is written as `flag("code", …)`, `Note("code", …)` or `RenderWarning("code", …)` must be a code people can look up."""
    raised = set()
    for path in [*(ROOT / "inference").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                named = node.func.id in {"flag", "Note", "RenderWarning"}
                if named and isinstance(first, ast.Constant) and isinstance(first.value, str):
                    raised.add(first.value)
    assert len(raised) > 15
    assert raised - set(FLAG_CODES) == set()


def test_every_field_of_a_declaration_is_in_the_recipe():
    named = set(re.findall(r"`(\w+)`|\b(\w+)=", TOKEN_FORMATS))
    words = {word for pair in named for word in pair}
    unnamed = (
        {field.name for field in dataclasses.fields(TokenFormat)} - words - {"messages", "segmenter", "tools_argument"}
    )
    assert unnamed == set()


def test_every_code_in_the_rules_is_declared():
    assert set(re.findall(r"\(`(\w+)`\)", TOKEN_FORMATS)) <= set(FLAG_CODES)


def test_the_token_formats_of_this_version_are_declared():
    assert {known.name for known in all_formats()} >= FORMATS_OF_THIS_VERSION


def test_the_cookbooks_export_options_are_options():
    (options,) = re.findall(r'"options": (\{.*?\})', cookbook())
    chosen = read_options(ast.literal_eval(options.replace("true", "True").replace("null", "None")))
    assert isinstance(chosen, ExportOptions)


def test_every_lint_exclusion_says_why():
    text = (ROOT / "pyproject.toml").read_text()
    ignore = text[text.index("\nignore = [") : text.index("[tool.ruff.lint.per-file-ignores]")]
    unexplained = [line for line in ignore.splitlines() if re.match(r'\s+"', line) and "#" not in line]
    assert unexplained == []
    assert tomllib.loads(text)["tool"]["ruff"]["lint"]["select"] == ["ALL"]


def words_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""  # a picture


@pytest.mark.parametrize("forbidden", elsewhere())
def test_no_text_names_this_or_that_machine_or_a_registry(forbidden):
    found = [str(path.relative_to(ROOT)) for path in tracked() if forbidden in words_of(path)]
    assert found == []
