"""Values are found where a program uses them, and not where their characters merely occur."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_metric.checks.matching import Haystack


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("0.1", ["0.10"]),
        ("0.001", ["--lr=1e-3"]),
        ("128", ["128.0"]),
        ("1.", ["1"]),
        (".5", ["0.5"]),
        ("-1.0", ["--t=-1"]),
        ("8", ["8,10"]),
        ("1", ["cuda:1"]),
        ("32", ["[32,32]"]),
        ("7.0", ["scale set to 7.0."]),
        ("152", ["ResNet152"]),
        ("2.0", ["dev-v2.0.json"]),
        ("1024", ["label2city_1024_g1"]),
        ("5", ["-j5"]),
    ],
)
def test_number_is_found_where_a_number_of_its_value_stands(value: str, tokens: list[str]) -> None:
    assert Haystack(tokens).has_value(value)


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("1", ["10"]),
        ("1", ["0.1"]),
        ("1", ["conv1"]),
        ("1", ["1e1"]),
        ("1", ["-1"]),
        ("15", ["-15"]),
        ("15", ["150"]),
        ("15", ["v1.15"]),
        ("1.1", ["v1.1.2"]),
        ("0.1", ["10.1"]),
        ("3", ["32"]),
        ("0", ["False"]),
        ("1", ["True"]),
        ("5", []),
    ],
)
def test_number_is_not_found_in_another_number(value: str, tokens: list[str]) -> None:
    assert not Haystack(tokens).has_value(value)


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("x.csv", ["./data/x.csv"]),
        ("./data/x.csv", ["data//x.csv"]),
        ("data/x", ["./data/./x/"]),
        ("./data", ["--root=./data/x"]),
        ("./model/a_b", ["./model/a_b/c.json"]),
        ("./a_b", ["./model/a_b/c.json"]),
        ("out/", ["-o", "out"]),
        ("./", ["./"]),
        ("./", ["--out=."]),
        ("../w", ["../w/"]),
        ("/data", ["--d=/data"]),
        ("example.jpg", ["a look at 'example.jpg,' please."]),
        ("train.py", ["train.py"]),
    ],
)
def test_path_is_found_as_whole_components(value: str, tokens: list[str]) -> None:
    assert Haystack(tokens).has_value(value)


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("x.csv", ["max.csv"]),
        ("x.csv", ["x.csv.gz"]),
        ("x.csv", ["my_x.csv"]),
        ("x.csv", ["X.csv"]),
        ("./cased_L-12", ["./model/uncased_L-12"]),
        ("./cased_L-12", ["./multi_cased_L-12"]),
        ("pic/a.jpg", ["output_pic/a.jpg"]),
        ("/data", ["b/data"]),
        ("data/pitch", ["data", "pitch"]),
        ("./", ["./a"]),
        ("../w", ["w"]),
    ],
)
def test_path_is_not_found_in_pieces_of_names(value: str, tokens: list[str]) -> None:
    assert not Haystack(tokens).has_value(value)


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("city", ["label2city_512"]),
        ("test", ["test_dcp.py"]),
        ("InfoGAN", ["infogan.py"]),
        ("ResNet", ["ResNet50"]),
        ("CrissCross", ["CrissCrossAttention"]),
        ("Attention", ["CrissCrossAttention"]),
        ("blip", ["blip2_t5"]),
        ("laion2b-s13b", ["mscoco_laion2B-s13B-b90k"]),
        ("torch", ["torch.nn"]),
        ("inpaint", ["inpainting"]),
        ("cat", ["two cats"]),
        ("living room", ["living room"]),
        ("living  room", ["a living\nroom"]),
        ("True", ["--x=true"]),
        ("LA", ["--dataset", "LA"]),
        ("B", ["--chain", "B"]),
        ("-u", ["-u"]),
        ("--pool", ["-pool"]),
        ("*", ["*"]),
        ("我长大", ["我长大"]),
    ],
)
def test_text_is_found_between_the_ends_of_words(value: str, tokens: list[str]) -> None:
    assert Haystack(tokens).has_value(value)


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("ink", ["thinking"]),
        ("cat", ["concatenate"]),
        ("cat", ["category"]),
        ("face", ["interface"]),
        ("test", ["latest"]),
        ("gan", ["ebgan.py"]),
        ("mlp", ["amlpx"]),
        ("v1", ["v10"]),
        ("IF-v1.0", ["IF-v1.0.1"]),
        ("B", ["b"]),
        ("B", ["AB"]),
        ("A", ["a.b"]),
        ("-u", ["u"]),
        ("--pool", ["--pooling"]),
        ("living room", ["living_room"]),
        ("*", ["a*b"]),
        ("cat", []),
    ],
)
def test_text_is_not_found_within_words(value: str, tokens: list[str]) -> None:
    assert not Haystack(tokens).has_value(value)


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("-j 2", ["-j", "2"]),
        ("-j 2", ["-j2"]),
        ("-j 2", ["-j=2"]),
        ("-j2", ["-j", "2"]),
        ("--lr 0.10", ["--lr", "1e-1"]),
        ("-batch_size 8", ["--batch_size", "8"]),
        ("(50,49,512)", ["torch.randn", "50", "49", "512"]),
        ("8,10", ["window_size=8,10"]),
        ("3 256 320", ["--input-size", "3", "256", "320"]),
        ("a photo of a cat", ["a", "photo", "of", "a", "cat"]),
        ("plane': 'A plane is", ["plane", "A plane is flying"]),
        ("lr=0.1", ["lr", "0.1"]),
        ("a a b", ["a", "a", "a", "b"]),
    ],
)
def test_items_of_a_value_are_found_one_after_another(value: str, tokens: list[str]) -> None:
    assert Haystack(tokens).has_value(value)


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        ("-j 2", ["-j", "8", "2"]),
        ("-j 2", ["-j", "22"]),
        ("-j 2", ["j", "2"]),
        ("--epochs 200", ["--epochs", "20"]),
        ("--noise True", ["--noise", "avg", "True"]),
        ("(50,49,512)", ["50", "49", "5120"]),
        ("8,10", ["8", "100"]),
    ],
)
def test_items_of_a_value_are_not_found_apart(value: str, tokens: list[str]) -> None:
    assert not Haystack(tokens).has_value(value)


@pytest.mark.parametrize(
    ("name", "tokens", "expected"),
    [
        ("save_samples", ["--save-samples"], True),
        ("save samples", ["--save_samples=1"], True),
        ("prefix", ["--prefix", "x"], True),
        ("reverse", ["reverse"], True),
        ("reverse", ["--reversed"], False),
        ("reverse", ["--no-reverse"], False),
        ("beat", ["--with_beat"], False),
    ],
)
def test_argument_without_a_value_asks_for_its_name(name: str, tokens: list[str], expected: bool) -> None:
    assert Haystack(tokens).has_name(name) is expected


@pytest.mark.parametrize(
    "value", ["1e9999", "1e99999", "9" * 500, "1_000", "inf", "nan", "٣", "+", ".", "-", "--", "\0", "\ud800", "İ"]
)
def test_odd_values_do_no_harm(value: str) -> None:
    assert Haystack([value]).has_value(value)
    assert not Haystack(["other"]).has_value(value)


@given(st.text(alphabet="aB1 .,-_/=:'\"()[]\n", min_size=1, max_size=12).filter(lambda text: bool(text.strip())))
def test_value_that_is_a_token_of_its_own_is_found(value: str) -> None:
    assert Haystack(["x", value.strip(), "y"]).has_value(value.strip())


@given(st.decimals(min_value=-1000, max_value=1000, places=4), st.integers(min_value=0, max_value=3))
def test_number_is_found_in_each_of_its_spellings(number: Decimal, zeros: int) -> None:
    spelled = [f"{number:f}" + "0" * zeros, f"{number:e}", f"{number:E}"]
    for value in spelled:
        assert all(Haystack([token]).has_value(value) for token in spelled)
        assert not Haystack([f"{number + 1:f}"]).has_value(value)
