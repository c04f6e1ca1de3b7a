"""The store against a real server, and against one that fails in every way."""

from __future__ import annotations

import os
import pickle
import secrets
import time
from pathlib import Path

import pytest
from rb_ray.depots import outage
from rb_ray.depots import s3 as store
from rb_ray.depots.s3 import S3Depot, s3_depot
from s3server import ANSWERS, CREDENTIALS, Bucket, Proxy, s3_server

from rb_core.errors import DamagedCheckpoint, InvalidInput, StoreFailure, UnusableCheckpoint
from rb_core.testing import DepotContract
from rb_core.training import checkpoint, checksums

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(scope="module", autouse=True)
def credentials():
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        patch.setattr(outage, "SILENCE_S", 1.0)
        patch.setattr(outage, "ATTEMPTS", 2)
        yield


@pytest.fixture(scope="module")
def server(credentials):
    with s3_server() as endpoint:
        Bucket(endpoint).make()
        yield endpoint


@pytest.fixture
def depot(server) -> S3Depot:
    return S3Depot(uri=f"s3://bucket/{secrets.token_hex(4)}/run", endpoint=server)


@pytest.fixture
def proxy(server):
    proxy = Proxy(target=int(server.rpartition(":")[2]))
    yield proxy
    proxy.close()


def beyond(proxy: Proxy, depot: S3Depot) -> S3Depot:
    return S3Depot(uri=depot.uri, endpoint=proxy.endpoint)


@pytest.fixture
def state(tmp_path) -> Path:
    path = tmp_path / "iteration-00000003.pt"
    path.write_bytes(b"state" * 1000)
    return path


@pytest.fixture
def folder(tmp_path) -> Path:
    with checkpoint.filling_folder(tmp_path / "trial", 3) as (draft, final):
        for name in "abc":
            (draft / name).write_text(name)
    return final


class TestS3Depot(DepotContract):
    @pytest.fixture(autouse=True)
    def place(self, depot):
        self.depot = depot

    def make(self, tmp_path):
        return self.depot


def test_a_large_file_goes_up_in_parts_and_comes_back(depot, tmp_path):
    path = tmp_path / "iteration-00000001.pt"
    path.write_bytes(secrets.token_bytes(11 << 20))
    depot.fetch(depot.push(path, "trial-0000"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == path.read_bytes()


def test_names_tell_trial_and_iterations(depot, state, folder, server):
    assert depot.push(state, "trial-0002").removesuffix(".pt").startswith(f"{depot.uri}/trial-0002/iteration-00000003-")
    assert depot.push(folder, "trial-0002").startswith(f"{depot.uri}/trial-0002/iteration-00000003-")
    assert len(Bucket(server).below(f"{depot.uri}/trial-0002/")) == 5


def test_a_check_that_succeeds_leaves_no_object(depot, server):
    depot.check()
    assert Bucket(server).below(depot.uri) == []


def test_the_list_of_a_folder_goes_up_last(depot, folder, proxy):
    beyond(proxy, depot).push(folder, "trial-0000")
    put = [line for line in proxy.seen if line.startswith("PUT")]
    assert [checksums.LIST in line for line in put] == [False, False, False, True]


def test_a_push_that_was_cut_short_is_listed_and_refused(depot, folder, proxy, tmp_path):
    proxy.fault, proxy.left = "denied", 1
    with pytest.raises(StoreFailure):
        beyond(proxy, depot).push(folder, "trial-0000")
    (reference,) = depot.references()
    depot.fetch(reference, tmp_path / "back")
    with pytest.raises(DamagedCheckpoint, match=r"its list of files, \.rb-checksums, is missing"):
        checkpoint.verify(tmp_path / "back", reference)
    depot.delete(reference)
    assert depot.references() == []


def test_a_symbolic_link_is_refused_before_anything_goes_up(depot, tmp_path):
    with checkpoint.filling_folder(tmp_path / "trial", 3) as (draft, final):
        (draft / "weights").write_text("w")
        (draft / "latest").symlink_to("weights")
    with pytest.raises(UnusableCheckpoint, match=r"holds the symbolic link latest, which s3://.* cannot keep"):
        depot.push(final, "trial-0000")
    assert depot.references() == []


def test_a_reference_of_another_run_is_not_touched(depot, state):
    other = S3Depot(uri=f"{depot.uri}-other", endpoint=depot.endpoint)
    reference = other.push(state, "trial-0000")
    with pytest.raises(UnusableCheckpoint, match="is not one of"):
        depot.delete(reference)
    assert other.references() == [reference]


def test_a_bucket_that_vanished_is_not_a_checkpoint_that_is_gone(server, state, tmp_path):
    bucket = Bucket(server, "fleeting")
    bucket.make()
    depot = S3Depot(uri="s3://fleeting/run", endpoint=server)
    reference = depot.push(state, "trial-0000")
    bucket.remove()
    with pytest.raises(StoreFailure, match="there is no such bucket; make it, or name another one"):
        depot.fetch(reference, tmp_path / "back")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("denied", r"access is refused \(403\); let the credentials of this machine .* put, get, list and delete"),
        ("moved", r"the bucket is in another region; set AWS_REGION"),
        ("busy", r"no answer of use came in 3 attempts.*see to the network, or to AWS_ENDPOINT_URL"),
        ("drop", r"no answer of use came in 3 attempts"),
        ("hang", r"no answer of use came in 3 attempts"),
    ],
)
def test_a_check_says_what_is_wrong_within_a_bounded_time(depot, proxy, fault, said):
    proxy.fault = fault
    began_s = time.monotonic()
    with pytest.raises(InvalidInput, match=rf"^run\.storage: s3://bucket/.*/run cannot be used .*: {said}"):
        beyond(proxy, depot).check()
    assert time.monotonic() - began_s < 60
    assert fault not in ("denied", "moved") or len(proxy.seen) == 1


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE", "POST"])
def test_a_check_notices_each_right_that_is_missing(depot, proxy, method):
    proxy.fault, proxy.spare = "denied", tuple({"PUT", "GET", "DELETE", "HEAD", "POST"} - {method})
    with pytest.raises(InvalidInput, match=r"access is refused \(403\)"):
        beyond(proxy, depot).check()


@pytest.mark.parametrize(
    ("uri", "endpoint", "said"),
    [
        ("s3://nobodys/x", "", "there is no such bucket"),
        ("s3://bucket/x", NOBODY, "no answer of use came"),
    ],
)
def test_a_place_that_there_is_not_is_named(server, uri, endpoint, said):
    with pytest.raises(InvalidInput, match=f"^run.storage: {uri} cannot be used as a store of checkpoints: {said}"):
        S3Depot(uri=uri, endpoint=endpoint or server).check()


def test_what_fails_once_is_tried_again(depot, proxy, state, tmp_path):
    beyond_it = beyond(proxy, depot)
    for fault in ("drop", "busy"):
        proxy.fault, proxy.left = fault, 1
        reference = beyond_it.push(state, "trial-0000")
        proxy.left = 1
        beyond_it.fetch(reference, tmp_path / fault)
        assert (tmp_path / fault).read_bytes() == state.read_bytes()


def test_a_fault_in_mid_run_names_the_checkpoint_and_the_remedy(depot, proxy, state, tmp_path):
    reference = depot.push(state, "trial-0000")
    beyond_it = beyond(proxy, depot)
    proxy.fault = "denied"
    with pytest.raises(StoreFailure, match=r"^checkpoint s3://.*/iteration-00000003-.*\.pt cannot be kept: access is"):
        beyond_it.push(state, "trial-0000")
    with pytest.raises(StoreFailure, match=f"^checkpoint {reference} cannot be fetched: access is refused"):
        beyond_it.fetch(reference, tmp_path / "back")
    with pytest.raises(StoreFailure, match=f"^checkpoint {reference} cannot be deleted: access is refused"):
        beyond_it.delete(reference)
    with pytest.raises(StoreFailure, match=f"^{depot.uri} cannot be listed: access is refused"):
        beyond_it.references()
    assert depot.references() == [reference]


def test_a_node_without_room_is_not_the_stores_fault(depot, state, folder):
    for path in (state, folder):
        reference = depot.push(path, "trial-0000")
        with pytest.raises(UnusableCheckpoint, match="cannot be written to this node's disk: Not a dir") as caught:
            depot.fetch(reference, Path("/dev/null/x"))
        assert not isinstance(caught.value, StoreFailure | DamagedCheckpoint)


@pytest.mark.parametrize(
    "uri",
    ["s3://", "s3:///x", "s3://B/x", "s3://bucket//x", "s3://bucket/a b", "s3://bucket/../x", "s3://bucket/x?a=b"],
)
def test_what_is_no_address_is_refused(uri):
    with pytest.raises(InvalidInput, match=r"^run\.storage: must be s3://BUCKET or s3://BUCKET/PREFIX, .* got 's3://"):
        s3_depot(uri=uri)


def test_endpoint_and_region_are_found_as_amazons_tools_find_them(monkeypatch):
    assert s3_depot(uri="s3://bucket/x/") == S3Depot(uri="s3://bucket/x", region="us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", NOBODY)
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    assert s3_depot(uri="s3://bucket") == S3Depot(uri="s3://bucket", endpoint=NOBODY, region="eu-west-3")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    assert s3_depot(uri="s3://bucket").endpoint == "http://127.0.0.1:2"


def test_ranks_are_told_no_secret(depot):
    depot.references()
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode() not in pickle.dumps(depot)


def test_pyarrow_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(store.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"^run\.storage: s3:// needs pyarrow: pip install 'rubberband-tune\[ray\]'"):
        s3_depot(uri="s3://bucket/x")


def test_every_fault_of_the_proxy_is_tried():
    assert set(ANSWERS) == {"denied", "busy", "moved"}
