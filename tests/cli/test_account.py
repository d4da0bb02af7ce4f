"""`dpgnn account`: the issue's example, sound mode, comparison and figure, errors in one line."""

import json
import re

import pytest

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
    text = run(capsys, *EXAMPLE)
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
    "drw": "--num-train-nodes 90941 --batch-size 20000 --walk-length 1 --noise-multiplier 4 "
    "--num-steps 20",
    "dpar": "--num-train-nodes 2000 --batch-size 60 --subsample-rate 0.09 --num-steps 100 "
    "--target-epsilon 2",
    "caribou": "--contraction 0.9 --num-steps 4 --target-epsilon 4 --sensitivity 1.2728",
    "gap": "--sensitivity 4.4722 --num-steps 2 --target-epsilon 4 --privacy-unit node-bounded "
    "--relation null-one --degree-bound 20 --training-noise 3 --training-steps 40 --training-rate 0.1",
    "dpdgc": "--sensitivity 1.4143 --num-steps 1 --target-epsilon 4 --training-noise 2 "
    "--training-steps 40 --training-rate 0.1",
    "gaussian": "--num-steps 3 --noise-multiplier 2",
}


@pytest.mark.parametrize("method", OTHERS)
@pytest.mark.parametrize("mode", ["published", "sound"])
def test_every_method_answers_in_both_modes(capsys, method, mode):
    arguments = ["account", method, *OTHERS[method].split(), "--delta", "1e-6", "--mode", mode]
    values = json.loads(run(capsys, *arguments, "--json", "--compare"))
    assert values["method"] == method
    assert values["epsilon"] > 0
    assert len(values["in_words"]) == len(values["claims"])
    assert values["compare"][-1]["num_steps"] == values["num_steps"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (EXAMPLE[:-2], "two of the three"),
        ([*EXAMPLE, "--out", "x.png"], "--out must come with --compare"),
        ([*EXAMPLE, "--compare", "--out", "x.gif"], "out must end in .png or .svg"),
        ([*EXAMPLE, "--privacy-unit", "node-bounded"], "promises nothing for node-bounded"),
        (["account", "gap", "--num-steps", "2", "--noise-multiplier", "1", "--delta", "1e-5",
          "--training-noise", "1"], "add --training-steps, --training-rate"),
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
    for delta, said in (("0.5", True), ("1e-4", False)):
        for mode in ("sound", "published"):
            values = json.loads(run(capsys, *words, "--delta", delta, "--mode", mode))
            assert all(("delta-too-large" in c["caveats"]) == said for c in values["claims"])
    words = ["account", "gaussian", "--num-steps", "1", "--noise-multiplier", "2", "--json"]
    assert "delta-too-large" in run(capsys, *words, "--delta", "0.5", "--mode", "sound")


def test_the_output_says_which_units_delta_is_compared_with(capsys):
    words = ["--num-train-nodes", "2000", "--batch-size", "60", "--num-steps", "10"]
    words += ["--noise-multiplier", "20"]
    for rate, units in (("0.09", 22222), ("1.0", 2000)):
        dpar = ["account", "dpar", *words, "--subsample-rate", rate, "--json"]
        for delta, said in ((0.9 / (10 * units), False), (1.1 / (10 * units), True)):
            values = json.loads(run(capsys, *dpar, "--delta", repr(delta)))
            assert ("delta-too-large" in values["claims"][0]["caveats"]) == said
        assert values["delta_units"] == f"{units} (nodes before the subsample)"
    text = run(capsys, "account", "dp_mlp", *words, "--delta", "1e-5")
    assert "2000 (only training nodes were counted" in text
    text = run(capsys, "account", "gaussian", *words[4:], "--delta", "1e-5")
    assert "not counted (no number of nodes was asked)" in text
