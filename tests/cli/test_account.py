"""`dpgnn account`: what it prints, comparison and figure, errors in one line."""

import json
import re

import pytest
from helpers import tells

from dpgnn import methods
from dpgnn.__main__ import main

EXAMPLE = [
    "account", "dp_gnn", "--num-train-nodes", "90941", "--batch-size", "10000", "--max-degree", "7",
    "--num-hops", "1", "--noise-multiplier", "2", "--delta", "1.0996096e-06",
    "--target-epsilon", "12",
]  # fmt: skip


def run(capsys, *arguments):
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def test_the_published_example_prints_668_steps(capsys):
    values = json.loads(run(capsys, *EXAMPLE, "--mode", "published", "--json"))
    assert values["num_steps"] == 668
    assert values["epsilon"] == pytest.approx(11.99, abs=5e-3)
    assert values["claims"][0]["status"] == "as-published"
    assert values["noise_stddev"] / values["clipping_norm"] == 32.0


def test_sound_mode_claims_the_same_noise_and_steps(capsys):
    values = json.loads(run(capsys, *EXAMPLE, "--mode", "sound", "--json"))
    assert values["num_steps"] == 668
    assert values["noise_stddev"] / values["clipping_norm"] == 32.0
    assert values["epsilon"] == pytest.approx(6.768, abs=1e-3)
    assert values["claims"][0]["status"] == "proved"
    assert values["steps_within_target"] > 1700


def test_a_table_for_readers_is_the_default(capsys):
    text = run(capsys, *EXAMPLE, "--mode", "published")
    assert re.search(r"^steps +668$", text, flags=re.MULTILINE)
    assert re.search(r"^epsilon +11\.99$", text, flags=re.MULTILINE)
    assert "not proved here" in text


def test_comparison_prints_three_columns_and_draws(capsys, tmp_path):
    for ending in ("png", "svg"):
        out = tmp_path / f"curve.{ending}"
        text = run(capsys, *EXAMPLE, "--compare", "--out", str(out))
        assert re.search(r"steps +paper +RDP +PLD", text)
        last = re.findall(r"^ +668 +([\d.]+) +([\d.]+) +([\d.]+)$", text, flags=re.MULTILINE)[0]
        paper, rdp, pld = map(float, last)
        assert (paper, rdp, pld) == pytest.approx((11.990, 7.221, 6.768), abs=2e-3)
        head = out.read_bytes()[:8]
        assert head == b"\x89PNG\r\n\x1a\n" if ending == "png" else head.startswith(b"<?xml")
        drawn = out.read_bytes()
        run(capsys, *EXAMPLE, "--compare", "--out", str(out))
        assert out.read_bytes() == drawn


OTHERS = {
    "dp_mlp": "--num-train-nodes 90941 --batch-size 10000 --noise-multiplier 1 --target-epsilon 12",
    "dp_mlp_smooth": "--num-train-nodes 9094 --batch-size 1000 --num-steps 30 --target-epsilon 12",
    "drw": "--num-train-nodes 90941 --batch-size 20000 --walk-length 1 --noise-multiplier 4 "
    "--num-steps 20",
    "caribou": "--num-nodes 2708 --contraction 0.9 --num-steps 4 --target-epsilon 4",
    "gap": "--num-nodes 2708 --num-train-nodes 1895 --num-steps 2 --target-epsilon 4 --max-degree 20 "
    "--privacy-unit node-bounded --relation null-one --encoder-epochs 10 --head-epochs 10",
}
WITHOUT_COMPARISON = {
    "dp_linear": "--num-train-nodes 2400 --num-steps 50 --target-epsilon 4",
    "dpar": "--num-train-nodes 2000 --batch-size 60 --subsample-rate 0.09 --num-steps 100 "
    "--target-epsilon 2",
    "dpdgc": "--num-train-nodes 1895 --target-epsilon 4 --encoder-epochs 10",
    "edgerand": "--num-nodes 2708 --target-epsilon 8",
    "votes": "--num-nodes 4000 --num-train-nodes 2400 --mean-degree 60 --num-steps 50 --target-epsilon 4",
    "lapgraph": "--num-nodes 2708 --target-epsilon 8",
    "pertgraph": "--num-nodes 2708 --target-epsilon 8",
    "lpgnet": "--num-nodes 2708 --num-steps 2 --target-epsilon 8",
    "progap": "--num-nodes 2708 --num-steps 2 --target-epsilon 8",
    "selected": "--num-train-nodes 2400 --target-epsilon 4 --set base=dp_linear",
    "heterpoisson": "--num-train-nodes 9094 --batch-size 1000 --target-epsilon 8",
}


@pytest.mark.parametrize("method", [*OTHERS, *WITHOUT_COMPARISON])
@pytest.mark.parametrize("mode", ["published", "sound"])
def test_every_method_answers_in_its_modes(capsys, method, mode):
    if mode not in methods.get(method).modes:
        return
    words = (OTHERS | WITHOUT_COMPARISON)[method].split()
    if (method, mode) == ("heterpoisson", "published"):
        words += ["--privacy-unit", "node"]  # the paper claims no other
    arguments = ["account", method, *words, "--delta", "1e-6", "--mode", mode]
    compared = ["--compare"] if method in OTHERS else []
    values = json.loads(run(capsys, *arguments, "--json", *compared))
    assert (values["method"], values["mode"]) == (method, mode)
    assert values["epsilon"] > 0
    assert len(values["in_words"]) == len(values["claims"])
    if compared:
        assert values["compare"][-1]["num_steps"] == values["num_steps"]
    assert run(capsys, *arguments).splitlines()[0].split() == ["method", f"{method},", mode]


def test_every_method_of_the_table_can_be_asked(capsys):
    asked = {"dp_gnn", *OTHERS, *WITHOUT_COMPARISON}
    for method in set(methods.TABLE) - asked:
        assert methods.get(method).title in run(capsys, "account", method)
    for method in ("gap", "gaussian"):
        with pytest.raises(SystemExit) as stopped:
            main(["account", method, "--help"])
        assert stopped.value.code == 0
        assert "--noise-multiplier" in capsys.readouterr().out


def test_a_choice_says_what_one_run_may_cost(capsys):
    words = [
        "account",
        "selected",
        "--num-nodes",
        "2708",
        "--num-train-nodes",
        "1625",
        "--set",
        "base=dp_linear",
    ]
    text = run(capsys, *words, "--delta", "3.69e-5", "--target-epsilon", "4")
    assert re.search(
        r"^choice/train +the best of 3.91 runs in the mean, each planned for epsilon 2.7",
        text,
        flags=re.M,
    )
    tells(text, "noise stddev 5 on the score", "choices were made privately and are counted")


def test_a_unit_with_a_fixed_number_of_rounds_is_asked_without_steps(capsys):
    words = ["account", "votes", "--privacy-unit", "edge", "--num-nodes", "5000", "--delta", "1e-5"]
    values = json.loads(run(capsys, *words, "--target-epsilon", "4", "--json"))
    assert values["noise_stddev"] == pytest.approx(2.162324, abs=1e-6)
    assert values["num_steps"] == 2
    given = ["--noise-multiplier", repr(values["noise_multiplier"]), "--json"]
    assert json.loads(run(capsys, *words, *given))["epsilon"] == pytest.approx(4.0)
    assert main([*words, "--target-epsilon", "4", "--num-steps", "3"]) == 1
    tells(capsys.readouterr().err, "num_steps must not")


@pytest.mark.parametrize("words", ["edgerand --num-nodes 2708", "gaussian"])
def test_a_budget_may_be_given_as_elsewhere(words: str, capsys):
    words = ["account", *words.split(), "--delta", "1e-5", "--json"]
    told = run(capsys, *words, "--epsilon", "4")
    assert told == run(capsys, *words, "--target-epsilon", "4")


def test_gaussian_releases_are_exact(capsys):
    words = ["account", "gaussian", "--num-steps", "3", "--delta", "1e-6", "--json"]
    values = json.loads(run(capsys, *words, "--target-epsilon", "2", "--sensitivity", "5"))
    assert values["epsilon"] == pytest.approx(2.0)
    assert values["noise_stddev"] == pytest.approx(5 * values["noise_multiplier"])
    again = json.loads(run(capsys, *words, "--noise-multiplier", repr(values["noise_multiplier"])))
    assert again["epsilon"] == pytest.approx(2.0)


def test_sound_is_the_default_and_any_option_can_be_set(capsys):
    values = json.loads(run(capsys, *EXAMPLE, "--json"))
    assert values["mode"] == "sound"
    words = ["account", "gap", "--num-nodes", "100", "--target-epsilon", "1", "--delta", "1e-5"]
    two = json.loads(run(capsys, *words, "--num-steps", "2", "--json"))
    same = json.loads(run(capsys, *words, "--num-steps", "2", "--set", "head.hidden=8", "--json"))
    assert two["noise_stddev"] == same["noise_stddev"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (EXAMPLE[:-2], "two of the three"),
        ([*EXAMPLE, "--out", "x.png"], "--out must come with --compare"),
        ([*EXAMPLE, "--compare", "--out", "x.gif"], "out must end in .png or .svg"),
        ([*EXAMPLE, "--privacy-unit", "node-bounded"], "degree_bound must be declared"),
        (["account", "gap", "--num-steps", "2", "--noise-multiplier", "1", "--delta", "1e-5"],
         "--num-train-nodes or --num-nodes must be given"),
        (["account", "gapp", "--delta", "1e-5"], "unknown method 'gapp'"),
        ([*EXAMPLE[:-2], "--target-epsilon", "-1"], "target_epsilon must be > 0"),
        ([*EXAMPLE, "--set", "max_degree"], "--set must have the form OPTION=VALUE"),
        ([*EXAMPLE, "--set", "max_degre=3"], "did you mean"),
        (["account", "gaussian", "--delta", "1e-5"], "must be given, one of the two"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line_with_the_remedy(capsys, arguments, message):
    assert main([*arguments]) == 1
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_parsing_needs_no_heavy_module():
    import subprocess
    import sys

    code = "import sys, argparse; from dpgnn.cli import account; " \
        "account.add_parser(argparse.ArgumentParser().add_subparsers()); " \
        "print([m for m in ('numpy', 'scipy', 'torch', 'matplotlib') if m in sys.modules])"  # fmt: skip
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_delta_that_is_too_large_is_said_of_the_claims(capsys):
    size = ["--num-train-nodes", "1000", "--batch-size", "100"]
    words = ["account", "dp_mlp", *size, "--num-steps", "10", "--noise-multiplier", "2", "--json"]
    for delta, said in (("5e-4", True), ("1e-4", False)):
        for mode in ("sound", "published"):
            values = json.loads(run(capsys, *words, "--delta", delta, "--mode", mode))
            assert all(("delta-too-large" in c["caveats"]) == said for c in values["claims"])
            assert values["delta_units"] == "1000 nodes"


@pytest.mark.parametrize("method", ["dp_mlp", "edgerand", "gap"])
@pytest.mark.parametrize("delta", ["0.9", "0.001"])
@pytest.mark.parametrize("mode", ["sound", "published"])
def test_a_delta_of_one_over_the_nodes_is_refused(capsys, method, delta, mode):
    assert main(["account", method, "--num-nodes", "1000", "--target-epsilon", "1", "--mode", mode,
                 *([] if method == "edgerand" else ["--num-steps", "2"]), "--delta", delta]) == 1  # fmt: skip
    said = capsys.readouterr().err
    tells(said, "delta", "< 0.001", "1000 nodes", float(delta))


def test_declared_numbers_of_nodes_leave_no_caveat(capsys):
    words = ["account", "dp_mlp", "--num-train-nodes", "1000", "--num-nodes", "2000", "--json",
             "--num-steps", "10", "--noise-multiplier", "2", "--delta", "1e-6"]  # fmt: skip
    found = {}
    for flag in ((), ("--public-population",)):
        for relation in ("add-remove", "null-one"):
            values = json.loads(run(capsys, *words, "--relation", relation, *flag))
            (claim,) = values["claims"]
            found[bool(flag), relation] = (
                claim["caveats"], "number of nodes" in claim["assumed_public"], claim["epsilon"]
            )  # fmt: skip
    epsilon = found[False, "add-remove"][2]
    assert found[False, "add-remove"] == (["population-changes"], True, epsilon)
    assert found[True, "add-remove"] == ([], False, epsilon)
    assert (
        found[True, "null-one"]
        == found[False, "null-one"]
        == ([], True, found[True, "null-one"][2])
    )
