"""The frame: every caveat that voids a claim has a demonstration that can be run.

A demonstration is a test that shows the claim failing, or its price, in code that runs; this file only
checks that each named test is there. To add a caveat: add its id here with its test.
"""

import ast
from pathlib import Path

import pytest

from dpgnn.accountants.caveats import CAVEATS

TESTS = Path(__file__).parents[1]

# caveat -> file::test
DEMONSTRATIONS = {
    "clip-thresholds-from-data": "soundness/test_dp_gnn_caveats.py::"
    "test_thresholds_from_gradients_tell_neighbours_apart_by_the_noise_alone",
    "sampler-ripple": "soundness/test_dp_gnn_training.py::"
    "test_the_published_sampler_moves_the_sum_beyond_what_its_noise_was_made_for",
    "undirected-edges": "soundness/test_dp_gnn_caveats.py::"
    "test_with_mirrored_edges_a_removed_node_changes_the_lists_of_its_neighbours",
    "layerwise-noise": "training/test_noise.py::"
    "test_noise_in_proportion_to_each_norm_alone_costs_the_root_of_the_number_of_parts",
    "with-replacement-batches": "accountants/test_published.py::test_batches_with_replacement",
    "feature-level-only": "soundness/test_disjoint_walks.py::"
    "test_isolating_a_node_changes_several_subgraphs_on_average",
    "population-estimate": "soundness/test_disjoint_walks.py::"
    "test_the_number_of_subgraphs_depends_on_the_edges",
    "fixed-size-as-poisson": "methods/gap/test_method.py::"
    "test_replace_one_as_published_counts_fixed_batches_as_poisson",
    "epsilon-times-rate": "accountants/test_amplification.py::"
    "test_multiplying_epsilon_by_the_rate_understates_every_large_budget",
    "batch-sensitivity": "soundness/test_dpar_gradient_shift.py::"
    "test_a_node_of_column_norm_one_moves_the_sum_by_many_times_the_claim",
    "expectation-argument": "methods/dpar/test_plan.py::"
    "test_one_affected_root_alone_costs_more_than_claimed",
    "appr-sensitivity": "methods/dpar/test_plan.py::"
    "test_events_of_the_proved_plan_have_the_true_sensitivities",
    "corollary-range": "accountants/test_published_dpar.py::"
    "test_the_corollary_holds_up_to_44_and_fails_at_89",
    "unnoised-last-layer": "soundness/test_unnoised_last_layer.py::"
    "test_the_released_code_shows_the_edge_for_every_noise",
    "node-sensitivity": "methods/caribou/test_sensitivity.py::"
    "test_the_published_node_constant_fails_on_explicit_graphs",
    "minimum-degree-from-data": "soundness/test_aggregation_caveats.py::"
    "test_minimum_degree_one_edge_less_changes_the_noise",
    "operator-without-self-loops": "methods/caribou/test_sensitivity.py::"
    "test_the_published_edge_constant_fails_without_self_loops",
    "head-not-private": "soundness/test_aggregation_caveats.py::"
    "test_head_not_private_one_label_changes_the_released_weights_without_noise",
    "directed-sensitivity": "soundness/test_aggregation_caveats.py::"
    "test_directed_sensitivity_an_undirected_edge_breaks_the_stated_epsilon",
    "normalization-not-applied": "methods/dpdgc/test_method.py::"
    "test_the_unscaled_release_moves_far_more_than_its_noise",
    "degree-bound-unstable": "soundness/test_aggregation_caveats.py::"
    "test_degree_bound_removing_a_hub_changes_other_nodes_lists",
    "own-row-uncounted": "soundness/test_aggregation_caveats.py::"
    "test_own_row_uncounted_the_nodes_own_sum_breaks_the_stated_epsilon",
    "two-directions-perturbed": "soundness/test_aggregation_caveats.py::"
    "test_two_directions_the_answers_of_one_edge_cost_twice",
    "stop-rule-overshoot": "soundness/test_stop_rule.py::"
    "test_an_adversary_who_sees_the_steps_breaks_the_stated_epsilon_and_not_that_of_the_plan",
    "fixed-batches": "soundness/test_dpar_published_rules.py::"
    "test_cached_batches_break_the_claim_that_counts_fresh_ones",
    "classical-gaussian-range": "soundness/test_dpar_published_rules.py::"
    "test_the_classical_gaussian_formula_fails_above_its_range",
    "output-universe": "soundness/test_dpar_published_rules.py::"
    "test_with_an_added_node_outputs_appear_that_were_impossible",
    "exact-neighbours": "soundness/test_dpar_published_rules.py::"
    "test_exact_neighbours_tell_the_worlds_apart_with_certainty",
    "noise-reused": "soundness/test_lpgnet_caveats.py::"
    "test_noise_reused_one_known_row_gives_the_degrees_of_others",
    "sml-as-univariate": "accountants/test_published_heterpoisson.py::"
    "test_in_many_dimensions_the_scale_of_the_noise_is_seen",
    "batch-padding": "soundness/test_heterpoisson_caveats.py::"
    "test_one_large_example_changes_the_gradients_of_all_others_in_its_batch",
    "dedupe-order": "soundness/test_heterpoisson_caveats.py::"
    "test_a_root_stays_in_the_examples_of_roots_before_it",
    "steps-undercounted": "accountants/test_published_heterpoisson.py::"
    "test_steps_that_are_not_counted_cost_by_the_codes_own_formula",
    "density-noise-scale": "soundness/test_aggregation_caveats.py::"
    "test_density_noise_one_edge_moves_a_block_far_beyond_its_noise",
}


def names_of(path: Path) -> set[str]:
    """The test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_voiding_caveat_is_demonstrated():
    voiding = {name for name, caveat in CAVEATS.items() if caveat.voids}
    assert voiding <= DEMONSTRATIONS.keys()


@pytest.mark.parametrize("caveat", sorted(DEMONSTRATIONS))
def test_the_demonstration_exists(caveat):
    assert caveat in CAVEATS
    file, name = DEMONSTRATIONS[caveat].split("::")
    assert name in names_of(TESTS / file)
