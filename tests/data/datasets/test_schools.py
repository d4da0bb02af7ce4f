"""The hundred schools of Facebook100."""

from dpgnn.data.datasets.schools import SCHOOLS


def test_there_are_a_hundred_schools_numbered_once_each() -> None:
    numbers = [
        int(name.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")) for name in SCHOOLS
    ]
    assert len(SCHOOLS) == 100
    assert sorted(numbers) == list(range(1, 101))
    assert {"Rutgers89", "UIllinois20"} <= SCHOOLS
