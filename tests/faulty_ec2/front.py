"""The pretended EC2 as a server: what calls meet, and what becomes of them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server

from faulty_ec2 import ending, launching, lifecycle, moto_side, spot_requests, volumes
from faulty_ec2.access import Access
from faulty_ec2.faults import Fault, Kind, first_met
from faulty_ec2.metadata import Metadata
from faulty_ec2.wire import Answer, Call, Refusal, error, read_call
from faulty_ec2.world import Told, World

_AMIS = "MOTO_EC2_LOAD_DEFAULT_AMIS"
_REFUSED = ("CreateFleet", "RequestSpotInstances", "RequestSpotFleet")


class _Gone(ConnectionResetError):
    """The connection was closed on purpose; the server lets it pass in silence."""


class _Handler(MotoRequestHandler):
    def log(self, *args: Any) -> None:
        """Say nothing."""


class Front(World):
    """A context manager: the server is up within it.

    Attributes:
        url: the endpoint, once up.
        calls: every call, in the order of arrival.
        access: whose credentials are good for what.
        on_boot: told of an instance that got running; called from the server's threads.
        on_end: told of one that stopped running or being about to.
    """

    _up: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, *, on_boot: Told | None = None, on_end: Told | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.on_boot = on_boot
        self.on_end = on_end
        self.url = ""
        self.calls: list[Call] = []
        self.access = Access()
        self._metadata = Metadata(self, self.access)
        self._faults: list[Fault] = []
        self._broken: list[Exception] = []
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._server: BaseWSGIServer | None = None
        self._thread: threading.Thread | None = None
        self._amis_before: str | None = None

    # Up and down

    def __enter__(self) -> Self:
        if not Front._up.acquire(blocking=False):
            raise RuntimeError("a FaultyEC2 is up in this process, and moto has one state a process: leave that first")
        try:
            self._amis_before = os.environ.get(_AMIS)
            os.environ[_AMIS] = "false"
            moto_side.reset()
            self.backend(self.region)
            self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=_Handler)
            self.url = f"http://127.0.0.1:{self._server.server_port}"
            self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
            self._thread.start()
        except BaseException:
            Front._up.release()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
        if self._amis_before is None:
            os.environ.pop(_AMIS, None)
        else:
            os.environ[_AMIS] = self._amis_before
        Front._up.release()
        if self._broken and exc[1] is None:
            raise RuntimeError("the pretended EC2, or a callback of it, failed in a call") from self._broken[0]
        if self._broken and isinstance(exc[1], BaseException):
            exc[1].add_note(f"the pretended EC2, or a callback of it, failed in a call: {self._broken[0]!r}")

    # What instances and the clock do

    def guest_shutdown(self, instance: str) -> None:
        """`shutdown -h now` within an instance: it terminates or stops, as its launch said."""
        with self._lock:
            record = self.records[instance]
            if record.made.instance_initiated_shutdown_behavior == "terminate":
                lifecycle.end(self, record, self.now(), lifecycle.GUEST)
            else:
                lifecycle.halt(self, record, self.now(), lifecycle.GUEST)
        self.tick()

    def tick(self) -> None:
        """Do what is due, and tell the callbacks."""
        with self._lock:
            lifecycle.tick(self)
        self._tell()

    # HTTP

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The WSGI application."""
        try:
            answer = self._answer(environ)
        except _Gone:
            raise
        except Exception as bug:
            self._broken.append(bug)
            raise
        headers = [("Content-Type", answer.kind), ("Content-Length", str(len(answer.body))), *answer.headers]
        start_response(f"{answer.status} {'OK' if answer.status == 200 else 'Not OK'}", headers)
        return [answer.body]

    def _answer(self, environ: dict[str, Any]) -> Answer:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        path = environ["PATH_INFO"]
        if path.startswith("/ctl/shutdown/"):
            self.guest_shutdown(path.rpartition("/")[2])
            return Answer(body=b"ok", kind="text/plain")
        with self._lock:
            if path.startswith("/imds/"):
                _, _, instance, below = path.split("/", 3)
                call = Call(
                    at_s=self.now(),
                    service="imds",
                    action=below,
                    region="",
                    params={"instance": instance, "path": below},
                )
            else:
                call = read_call(environ, body, self.now(), self.region)
            self.calls.append(call)
            fault = first_met(self._faults, call)
        kind = None if fault is None else fault.kind
        if fault is not None and kind is Kind.ERROR:
            call.outcome = fault.code
            return error(call.service, fault.code, f"injected {fault.code}")
        if kind is Kind.DROP_BEFORE:
            call.outcome = "dropped"
            raise self._drop(environ)
        if fault is not None and kind is Kind.DELAY:
            self._closing.wait(fault.seconds)
        with self._lock:
            lifecycle.tick(self)
            answer = self._imds(environ, call) if call.service == "imds" else self._aws(environ, call)
            for region, made in self._backends.items():
                self.volumes.see(region, made, self.now())
            lifecycle.tick(self)
        self._tell()
        if kind is Kind.DROP_AFTER:
            call.outcome = "lost"
            raise self._drop(environ)
        if kind is Kind.HANG:
            call.outcome = "hung"
            self._closing.wait()
            raise self._drop(environ)
        return answer

    def _imds(self, environ: Mapping[str, Any], call: Call) -> Answer:
        return self._metadata.answer(
            environ["REQUEST_METHOD"],
            call.params["instance"],
            call.params["path"],
            environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN", ""),
            environ.get("HTTP_X_AWS_EC2_METADATA_TOKEN_TTL_SECONDS", ""),
        )

    def _aws(self, environ: Mapping[str, Any], call: Call) -> Answer:
        try:
            self.access.check(call, environ)
            answer = self._ec2(environ, call) if call.service == "ec2" else moto_side.ask(environ, call.body)
        except Refusal as refusal:
            call.outcome = refusal.code
            return error(call.service, refusal.code, refusal.message)
        if answer.status >= 400:
            call.outcome = str(answer.status)
        return answer

    def _ec2(self, environ: Mapping[str, Any], call: Call) -> Answer:
        self.backend(call.region)
        action = call.action
        if action in _REFUSED:
            raise Refusal("UnsupportedOperation", f"{action} is not imitated here")
        if action == "RunInstances":
            return launching.launch(self, call, lambda body: moto_side.ask(environ, body))
        if call.params.get("DryRun") == "true":
            raise Refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
        own = _OWN.get(action)
        if own is not None:
            return own(self, call)
        if action == "DescribeVolumes":
            with volumes.without(self.backend(call.region), {r.id for r in self.records.values() if not r.shown}):
                return moto_side.ask(environ, call.body)
        if action == "DeleteSecurityGroup":
            ending.check_group_unused(self, call)
        return moto_side.ask(environ, call.body)

    def _notices(self, instance: str) -> dict[str, str]:
        return self._metadata.notices.setdefault(instance, {})

    def _tell(self) -> None:
        with self._lock:
            happened, self.happened = self.happened, []
        for what, instance in happened:
            told = self.on_boot if what == "boot" else self.on_end
            if told is not None:
                told(instance)

    @staticmethod
    def _drop(environ: Mapping[str, Any]) -> _Gone:
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return _Gone()


_OWN: dict[str, Callable[[World, Call], Answer]] = {
    "CancelSpotInstanceRequests": spot_requests.cancel,
    "DescribeSpotPriceHistory": spot_requests.price_history,
    "StartInstances": ending.start,
    "StopInstances": ending.stop,
    "TerminateInstances": ending.terminate,
}
