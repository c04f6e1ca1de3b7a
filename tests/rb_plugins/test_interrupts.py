from __future__ import annotations

import signal
import threading

import pytest

from rb_plugins.interrupts import SIGNALS, interruptible


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
