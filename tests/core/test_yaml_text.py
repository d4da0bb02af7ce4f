"""YAML read strictly."""

import time

import pytest

from dpgnn.core.config import ConfigError
from dpgnn.core.yaml_text import MAX_DEPTH, parse_yaml, read_yaml


def test_a_merge_key_and_its_own_keys_are_not_keys_that_stand_twice() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b\n  <<: *a\n  x: 3\nc:\n  <<: *b\n  y: 4\n"
    assert parse_yaml(text, "t") == {
        "a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"x": 3, "y": 4},
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"^t, line 3: key 'x' must stand once, .* line 2"):
        parse_yaml("a:\n  x: 1\n  x: 1\n", "t")
    with pytest.raises(ConfigError, match=r"^t must be YAML: "):
        parse_yaml("a: [", "t")


def laughs(levels: int, text: str = "a: &a0 lol\n") -> str:
    lines = [f"b{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, levels)]
    return text + "".join(lines)


def test_aliases_are_written_out_up_to_a_size() -> None:
    assert parse_yaml(laughs(3), "t")["b2"][8][8] == "lol"
    started = time.process_time()
    with pytest.raises(ConfigError, match=r"^t, line 8: b7 must make 10000000 characters or fewer"):
        parse_yaml(laughs(200), "t")
    with pytest.raises(ConfigError, match=r"line 5: b4 must make"):
        parse_yaml(laughs(9, "a: &a0 " + "x" * 10_000 + "\n"), "t")
    assert time.process_time() - started < 5


def test_merged_mappings_count_as_aliases() -> None:
    lines = [f"b{i}: &b{i}\n  <<: [{', '.join([f'*b{i - 1}'] * 9)}]\n" for i in range(1, 200)]
    with pytest.raises(ConfigError, match="must make 10000000 characters or fewer"):
        parse_yaml("b0: &b0 {x: 1}\n" + "".join(lines), "t")


def test_depth_has_a_limit_by_nesting_and_by_aliases() -> None:
    assert parse_yaml("[" * 90 + "]" * 90, "t")
    for text in (
        "[" * 100_000,
        "a: &a0 1\n" + "".join(f"b{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000)),
    ):
        with pytest.raises(ConfigError, match=f"nested {MAX_DEPTH} deep or less"):
            parse_yaml(text, "t")
    with pytest.raises(ConfigError, match=r"^t, line 1: a\[1\] must not hold itself"):
        parse_yaml("a: &a [1, *a]", "t")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a:\n  b: 2024-13-01", r"^t, line 2: a\.b must be a timestamp \(month must be in 1..12\)"),
        ("a: [0, 2024-02-30]", r"^t, line 1: a\[1\] must be a timestamp .*, got '2024-02-30'$"),
        ("a: " + "7" * 5000, r"^t, line 1: a must be a number of 300 digits or fewer, got '777"),
        ("a: 0x" + "7" * 5000, "a must be a number of 300 digits or fewer"),
        ("a: !!bool perhaps", r"a must be a bool \('perhaps'\), or in quotes"),
        ("a: !!int ''", "a must be a int"),
        ("a: !!timestamp soon", "a must be a timestamp"),
        ("a: !!python/object/apply:os.system [ls]", "^t must be YAML: could not determine"),
        ("a: \x00", "^t must be YAML: "),
    ],
)
def test_a_value_that_is_none_is_named_in_one_line(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as found:
        parse_yaml(text, "t")
    assert len(str(found.value)) < 500
    assert "\n" not in str(found.value)


def test_a_folder_and_a_missing_file_are_named(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"^study .* must be a regular file, got 'a folder'"):
        read_yaml(tmp_path, "study")
    with pytest.raises(ConfigError, match=r"^study .*none does not exist"):
        read_yaml(tmp_path / "none", "study")
    (tmp_path / "latin").write_bytes(b"a: \xe9")
    with pytest.raises(ConfigError, match=r"must be YAML: .*utf-8"):
        read_yaml(tmp_path / "latin")
