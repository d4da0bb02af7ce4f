import signal
import threading

import pytest
import torch

from dpgnn.core.storage import Store
from dpgnn.training.loop import Stopped, run_steps
from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import OptimizerConfig


def optimizer_of(num_steps=10):
    return Optimizer(OptimizerConfig(name="sgd", lr=1.0), torch.zeros(2), num_steps)


def go(optimizer, store, progress, *, num_steps=10, stop_at=None, number=signal.SIGTERM, **options):
    taken = []

    def take_step(step):
        taken.append(step)
        optimizer.step(torch.full((2,), float(step)))
        if step == stop_at:
            signal.raise_signal(number)

    history = run_steps(
        take_step, optimizer, num_steps, name="train", store=store, progress=progress,
        row=lambda step: {"double": 2 * step}, **options,
    )  # fmt: skip
    return taken, history


def test_rows_are_evenly_spread_and_the_last_step_has_one(quiet):
    _, history = go(optimizer_of(), Store(None), quiet, num_rows=3)
    assert [row["step"] for row in history] == [3, 6, 9, 10]
    assert history[-1] == {"step": 10, "double": 20}


def test_sigterm_saves_and_stops_and_a_second_run_goes_on(quiet, tmp_path):
    store = Store(tmp_path, "same")
    first = optimizer_of()
    with pytest.raises(Stopped) as stopped:
        go(first, store, quiet, stop_at=4)
    assert stopped.value.code == 143
    second = optimizer_of()
    taken, history = go(second, store, quiet)
    assert taken == [5, 6, 7, 8, 9, 10]
    whole = optimizer_of()
    _, expected = go(whole, Store(None), quiet)
    assert torch.equal(second.parameters, whole.parameters)
    assert history == expected


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_saves_and_stops_and_a_second_run_goes_on(quiet, tmp_path, capfd):
    store = Store(tmp_path, "same")
    with pytest.raises(KeyboardInterrupt):
        go(optimizer_of(), store, quiet, stop_at=4, number=signal.SIGINT)
    assert "stopping after this step" in capfd.readouterr().err
    taken, _ = go(optimizer_of(), store, quiet)
    assert taken == [5, 6, 7, 8, 9, 10]


def test_a_signal_in_the_last_step_is_not_lost(quiet, tmp_path):
    store = Store(tmp_path, "same")
    with pytest.raises(Stopped):
        go(optimizer_of(), store, quiet, stop_at=10)
    taken, history = go(optimizer_of(), store, quiet)
    assert taken == []
    assert history[-1]["step"] == 10


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_ctrl_c_stops_in_the_middle_of_a_step(quiet, tmp_path):
    taken = []

    def take_step(step):
        taken.append(step)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        taken.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        run_steps(
            take_step, optimizer_of(), 10, name="train", store=Store(tmp_path, "same"),
            progress=quiet, row=lambda step: {},
        )  # fmt: skip
    assert taken == [1]
    assert list(tmp_path.iterdir()) == []


def test_a_ctrl_c_that_was_ignored_still_is(quiet):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        taken, _ = go(optimizer_of(), Store(None), quiet, stop_at=4, number=signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(taken) == 10


def test_the_signal_handlers_of_before_are_put_back(quiet):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    go(optimizer_of(), Store(None), quiet)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_finished_run_is_not_run_again(quiet, tmp_path):
    store = Store(tmp_path, "same")
    go(optimizer_of(), store, quiet)
    taken, history = go(optimizer_of(), store, quiet)
    assert taken == []
    assert history[-1]["step"] == 10


def test_a_checkpoint_of_another_run_is_not_used(quiet, tmp_path):
    go(optimizer_of(), Store(tmp_path, "one"), quiet)
    taken, _ = go(optimizer_of(), Store(tmp_path, "two"), quiet)
    assert taken == list(range(1, 11))


def test_checkpoints_are_written_every_few_seconds_only(quiet, tmp_path):
    class Counting(Store):
        saves = 0

        def save(self, name, arrays, values):
            self.saves += 1
            super().save(name, arrays, values)

    rare, often = Counting(tmp_path / "a", "x"), Counting(tmp_path / "b", "x")
    go(optimizer_of(), rare, quiet, checkpoint_seconds=1000.0)
    go(optimizer_of(), often, quiet, checkpoint_seconds=0.0)
    assert (rare.saves, often.saves) == (1, 10)


def test_the_loop_runs_in_a_thread_where_signals_cannot_be_caught(quiet):
    found = []
    thread = threading.Thread(target=lambda: found.append(go(optimizer_of(), Store(None), quiet)))
    thread.start()
    thread.join()
    assert found[0][0] == list(range(1, 11))
