from __future__ import annotations

import signal
import threading

import pytest

from rb_plugins.interrupts import SIGNALS, heeded, held, interruptible


@pytest.mark.parametrize("number", SIGNALS)
def test_every_signal_interrupts_twice_and_the_third_does_nothing(number):
    before = [signal.getsignal(signal_) for signal_ in SIGNALS]
    with interruptible():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        signal.raise_signal(number)
    assert [signal.getsignal(signal_) for signal_ in SIGNALS] == before


def test_words_are_said_at_the_first_signal_alone(capfd):
    with interruptible("stopping"):
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    assert capfd.readouterr().err == "\nstopping\n"


def test_an_inner_block_leaves_the_signals_to_the_outer_one():
    with interruptible():
        handler = signal.getsignal(signal.SIGINT)
        with interruptible("unsaid"):
            assert signal.getsignal(signal.SIGINT) is handler
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is handler
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_outside_the_main_thread_signals_stay_as_they_are():
    seen = []

    def look():
        with interruptible():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def raised_within(block, then=lambda: None):
    with block():
        signal.raise_signal(signal.SIGINT)
        then()


def test_a_held_signal_waits_for_the_end_of_the_outermost_block():
    done = []

    def outer():
        with held():
            raised_within(held, lambda: done.append("inner"))
            done.append("outer")

    with interruptible(), pytest.raises(KeyboardInterrupt):
        outer()
    assert done == ["inner", "outer"]


def test_signals_that_are_held_together_interrupt_once():
    with interruptible():
        with pytest.raises(KeyboardInterrupt):
            raised_within(held, lambda: signal.raise_signal(signal.SIGTERM))
        with held():
            pass


def test_an_error_within_a_held_block_comes_first_and_the_signal_at_the_next_end():
    def fail():
        raise ValueError("first")

    with interruptible():
        with pytest.raises(ValueError, match="first"):
            raised_within(held, fail)
        with pytest.raises(KeyboardInterrupt), held():
            pass


def test_a_block_that_heeds_signals_is_ended_by_one_that_comes_and_by_one_that_waits():
    with interruptible(), held():
        with pytest.raises(KeyboardInterrupt):
            raised_within(heeded, lambda: pytest.fail("went on"))
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), heeded():
            pytest.fail("began")


def test_without_an_interruptible_block_nothing_is_held():
    with pytest.raises(KeyboardInterrupt):
        raised_within(held, lambda: pytest.fail("was held"))
