from dpgnn.core.wording import count, listed


def test_a_number_comes_with_its_noun() -> None:
    assert [count(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert count(2, "entry", "entries") == "2 entries"


def test_a_list_ends_with_and() -> None:
    assert [listed(["a", "b", "c"][:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
