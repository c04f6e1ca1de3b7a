import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rb_core.training.frames import FrameReader, pack, receive_frame, receive_frame_with_descriptors, send_frame


@given(payloads=st.lists(st.binary(max_size=40)), cut=st.integers(1, 9))
def test_frames_come_together_from_any_pieces(payloads, cut):
    stream = b"".join(map(pack, payloads))
    reader = FrameReader()
    pieces = [stream[start : start + cut] for start in range(0, len(stream), cut)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == payloads


def test_frames_and_descriptors_cross_a_socket():
    here, there = socket.socketpair()
    with here, there, open(os.devnull) as file:
        send_frame(here, b"with", [file.fileno()])
        send_frame(here, b"")
        payload, descriptors = receive_frame_with_descriptors(there)
        assert (payload, len(descriptors)) == (b"with", 1)
        assert os.path.sameopenfile(descriptors[0], file.fileno())
        os.close(descriptors[0])
        assert receive_frame(there) == b""


@pytest.mark.parametrize("receive", [receive_frame, receive_frame_with_descriptors])
@pytest.mark.parametrize("sent", [b"", b"\0\0\0", pack(b"payload")[:-1]])
def test_a_line_that_closes_early_is_an_end_of_file(receive, sent):
    here, there = socket.socketpair()
    with there:
        with here:
            here.sendall(sent)
        with pytest.raises(EOFError):
            receive(there)
