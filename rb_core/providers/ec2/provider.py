"""Rents nodes on EC2, for one run, and loses none of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from rb_core.clock import pause
from rb_core.errors import InvalidInput, LaunchFailure, NoAnswer, RubberBandError
from rb_core.hardware import Cloud, InstanceType
from rb_core.inspection import Finding, Intent
from rb_core.ports import Bootstrap, Clock, Inbox, NodeNews, NodeNotice, Record, Slot
from rb_core.providers.ec2 import listing
from rb_core.providers.ec2.attempts import Attempts
from rb_core.providers.ec2.clients import CONNECT_S, LAUNCH_READ_S, Clients
from rb_core.providers.ec2.fleet import Fleet
from rb_core.providers.ec2.identity import check_same
from rb_core.providers.ec2.inspection import inspect
from rb_core.providers.ec2.launching import Launching
from rb_core.providers.ec2.lifeline import Lifeline, NodePhase, NodeReport
from rb_core.providers.ec2.lookout import Lookout
from rb_core.providers.ec2.parameter import SecretEntry, entry_name
from rb_core.providers.ec2.pools import Scarcity
from rb_core.providers.ec2.quotes import Quotes
from rb_core.providers.ec2.refusals import CallRefused, RefusalKind, StrandedNodes
from rb_core.providers.ec2.request import last_resort
from rb_core.providers.ec2.settings import Ec2Settings, region_of
from rb_core.providers.ec2.surroundings import Surroundings
from rb_core.providers.ec2.tether import LifelineFactory, Tether, driver_address

FORGET_S = (1.0, 2.0)
"""Pauses between the tries to remove the run's secret, which nobody would remove later but a collection."""

_logger = logging.getLogger(__name__)


class Ec2Provider:
    """Nodes are instances in the zones of one VPC; each knows when to end itself.

    It has no thread but the lifeline's: it looks at its instances by timers of the clock, while it holds any.

    Args:
        cloud: region, settings and latencies.
        clock: the time.
        inbox: where notices go.
        clients: how AWS is asked; made of boto3's own chain of credentials when not given.
        lifeline: makes the lifeline of nodes that run a command.

    Raises:
        InvalidInput: the cloud has no region, or its settings are wrong.
    """

    name = "ec2"

    def __init__(
        self,
        *,
        cloud: Cloud,
        clock: Clock,
        inbox: Inbox,
        clients: Clients | None = None,
        lifeline: LifelineFactory = Lifeline,
    ) -> None:
        self._settings = Ec2Settings.of(cloud)
        self._clients = clients or Clients(region_of(cloud), max_attempts=self._settings.max_attempts)
        self._clock = clock
        self._inbox = inbox
        self._make_lifeline = lifeline
        self._recorded: Record | None = None
        self._attempts = Attempts(clock, self._settings.grace_s)
        self._fleet = Fleet(
            lambda: self._clients.control,
            self._attempts,
            clock,
            boot_s=cloud.launch_s.mean,
            grace_s=self._settings.grace_s,
        )
        self._lookout = Lookout(clock, self._fleet, self._glance)
        self._quotes = Quotes(lambda: self._clients.control, clock)
        self._scarcity = Scarcity()
        self._max_nodes = cloud.max_nodes
        self._around = Surroundings(self._clients, self._settings)
        self._command: Callable[[str, InstanceType], Bootstrap] | None = None
        self._tether: Tether | None = None
        self._run = ""
        self._one_zone = False

    def check(self, cloud: Cloud) -> None:
        """Raise `InvalidInput` when this cloud cannot be served, as far as can be told without asking AWS."""
        Ec2Settings.of(cloud)
        if self._command is None:
            raise InvalidInput(
                "run.launcher", "must be \"ray\" with provider 'ec2': its nodes have to join what starts trials on them"
            )
        self._clients.check()

    def inspect(self, intent: Intent) -> Sequence[Finding]:
        """Look at all that a run needs of AWS and of this machine. Changes nothing."""
        return inspect(self._clients, self._settings, intent, self._clock)

    def record(self, record: Record) -> None:
        """Write each renting call into this log, and know those that it tells of.

        Raises:
            InvalidInput: the run was begun in another account or region than this program is in now.
            NoAnswer: AWS does not say which account it is.
        """
        if record is self._recorded:
            return
        for launch in record.launches.values():
            self._run = self._run or str(launch.request.get("run", ""))
        if record.launches:
            check_same(record.launches, region=self._clients.region, account=self._around.identity.account)
        self._recorded = record
        self._attempts.recall(record, CONNECT_S + LAUNCH_READ_S)

    def reach(self) -> str:
        """The address at which nodes find this machine. Raises `InvalidInput` where it is not known."""
        return driver_address(self._settings)

    def boot(self, command: Callable[[str, InstanceType], Bootstrap]) -> None:
        """Have each node that is launched from now on run a command when it is up."""
        self._command = command

    def together(self, wanted: bool) -> None:
        """Whether all nodes that are held at one time are to stand in one zone."""
        self._one_zone = wanted

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """Request one instance for each name. Idempotent by name.

        Raises:
            LaunchFailure: there is no capacity or quota for any of them; nothing was requested.
            NoAnswer: EC2 may or may not have obeyed; asked again, the very same call is repeated. Or there would be
                more than `max_nodes` instances beside those that were given back and that EC2 does not show yet.
            InvalidInput: credentials, rights, image, type or subnets are not as they must be.
            StrandedNodes: AWS does not let this program do anything any more, and instances are alive.
        """
        self._run = run
        self._fleet.hold(list(dict.fromkeys(names)), instance_type)
        try:
            if self._fleet.unplaced(names) and self._fleet.size > self._max_nodes:
                raise NoAnswer(f"nodes that were given back are still up: with these there would be {self._fleet.size}")
            missing = self._rent(names, instance_type)
        except CallRefused as refused:
            self._fleet.drop(names)
            raise self._grave(refused) from refused
        except RubberBandError as error:
            if not isinstance(error, NoAnswer):
                self._fleet.drop(names)
            raise
        finally:
            self._fleet.placed()
            self._lookout.stir()
        lost = self._fleet.unplaced(names)
        if not lost:
            return
        self._fleet.drop(lost)
        if len(lost) == len(set(names)):
            raise LaunchFailure(missing)
        for name in lost:
            self._inbox.put(NodeNotice(node=name, kind=NodeNews.LOST, reason=missing))

    def adopt(self, nodes: Mapping[str, InstanceType], *, run: str) -> None:
        """Take over nodes of an earlier process. Calls of its own are never repeated: what came of them is looked for.

        Raises:
            NoAnswer: EC2 did not answer; asked again, this goes on.
        """
        self._run = run
        try:
            self._tell(nodes)
            self._say(self._fleet.adopt(nodes))
            if not self._fleet.idle:
                self._look()
        except CallRefused as refused:
            raise self._grave(refused) from refused
        finally:
            self._lookout.stir()

    def slots(self, name: str) -> Sequence[Slot]:
        """The slots of a node that runs, in order. Raises KeyError for one that does not, or is not held."""
        node = self._fleet.get(name)
        if node is None or not node.running:
            raise KeyError(name)
        devices = self._around.shape(node.instance_type).devices(node.instance_type.slots)
        return tuple(Slot(node=name, index=index, device=device) for index, device in enumerate(devices))

    def release(self, names: Sequence[str]) -> None:
        """Give nodes back: what is visible ends at once, the rest when it becomes visible. From any thread.

        Raises:
            NoAnswer: EC2 did not answer; the nodes are ended later all the same while the clock's timers run.
            StrandedNodes: AWS does not let this program end them.
        """
        if self._tether is not None:
            self._tether.dismiss(names)
        if not self._fleet.give_back(names):
            return
        try:
            self._fleet.close(listing.of_run(self._clients.control, self._run))
        except CallRefused as refused:
            raise self._grave(refused) from refused

    def owned(self, run: str) -> Sequence[str]:
        """Names of all nodes that are alive by their tags, or may be without being visible yet.

        An instance of the run that the log knows nothing of goes by its id.
        """
        try:
            seen = listing.of_run(self._clients.control, run)
        except CallRefused as refused:
            raise self._grave(refused) from refused
        if self._run and run != self._run:
            return [each.instance for each in seen if not each.state.over]
        self._run = run
        return self._fleet.owned(seen)

    def close(self) -> None:
        """Let go of connections and of the lifeline. The run's secret goes when nothing of the run is left."""
        self._lookout.stop()
        tether, self._tether = self._tether, None
        told, self._command = self._command is not None, None
        try:
            # A process that took up a run whose nodes were gone has no tether, and the secret of the one before.
            if told and self._recorded is not None and (tether is not None or self._recorded.launches):
                self._forget()
        except RubberBandError as error:
            _logger.warning("the run's secret is still in the parameter store: %s", error)
        finally:
            if tether is not None:
                tether.close()
            self._clients.close()

    def _forget(self) -> None:
        """Remove the run's secret, unless a node is left that has to read it."""
        for pause_s in FORGET_S:
            try:
                return self._remove_secret()
            except NoAnswer:
                pause(self._clock, pause_s)
        return self._remove_secret()

    def _remove_secret(self) -> None:
        if not self.owned(self._run):
            SecretEntry(self._clients.service("ssm"), entry_name(self._run), {}).delete()

    @property
    def _record(self) -> Record:
        if self._recorded is None:
            raise RubberBandError(
                "nothing is rented on EC2 that is not in a log first, and this provider was given none; call its "
                "record() before its launch() or adopt()"
            )
        return self._recorded

    def _rent(self, names: Sequence[str], instance_type: InstanceType) -> str:
        """Make the calls; why some nodes could not be had."""
        ground = self._around.ground(self._record.launches)
        self._around.check_fits(instance_type, ground)
        self._tell(dict.fromkeys(self._fleet.unplaced(names), instance_type))
        launching = Launching(
            clients=self._clients,
            settings=self._settings,
            ground=ground,
            attempts=self._attempts,
            scarcity=self._scarcity,
            record=self._record,
            clock=self._clock,
            script=self._script,
        )
        for attempt in self._attempts.unanswered(names):
            launching.repeat(attempt)
        missing = self._fleet.unplaced(names)
        if not missing:
            return ""
        zones = self._fleet.zones
        places = [each for each in ground.places if not (self._one_zone and zones) or each.zone in zones]
        # A zone is chosen for all that follow: rather one that has room for all of these.
        whole = self._one_zone and not zones
        return launching.rent(missing, instance_type, run=self._run, places=places, whole=whole)

    def _script(self, token: str, nodes: Sequence[str], instance_type: InstanceType) -> str:
        if self._tether is None:
            return last_resort(self._settings.lifetime_s)
        return self._tether.script(token, nodes)

    def _tell(self, nodes: Mapping[str, InstanceType]) -> None:
        """Have what these nodes run, and where this program listens, ready for them."""
        if self._command is None or not nodes:
            return
        if self._tether is None:
            self._tether = Tether(
                self._command,
                self._hear,
                clients=self._clients,
                settings=self._settings,
                run=self._run,
                owner=self._around.identity.name,
                lifeline=self._make_lifeline,
            )
        self._tether.ready(nodes)

    def _hear(self, report: NodeReport) -> None:
        """A node reports; in the lifeline's thread."""
        notice = None
        if report.phase is NodePhase.ENDED:
            notice = self._fleet.lose(report.node, f"its command ended: {report.said}")
        elif report.leaves_in_s is not None:
            notice = self._fleet.leave(report.node, "EC2 takes its spot instance back", report.leaves_in_s)
        if notice is not None:
            self._inbox.put(notice)

    def _look(self) -> bool:
        """List the run's instances, say what is new, and end what was given back; whether anything was new."""
        seen = listing.of_run(self._clients.control, self._run)
        said = self._fleet.take(seen, self._record)
        self._say(self._quotes.priced(said, self._fleet.types, self._record.warn))
        self._fleet.close(seen)
        self._remark()
        return bool(said)

    def _glance(self) -> bool:
        """Look, as far as that is possible now."""
        if self._fleet.idle:
            self._remark()
            return False
        try:
            return self._look()
        except NoAnswer as error:
            _logger.warning("looking at the run's instances: %s", error)
        except CallRefused as refused:
            self._record.warn(f"{self._grave(refused)}; until then nobody sees what becomes of them")
        return False

    def _remark(self) -> None:
        for text in self._fleet.remarks():
            self._record.warn(text)

    def _say(self, notices: Sequence[NodeNotice]) -> None:
        for notice in notices:
            self._inbox.put(notice)

    def _grave(self, refused: CallRefused) -> RubberBandError:
        """What a refusal means for the run: an error of its input, or nodes that nobody here can end any more."""
        alive = self._attempts.alive()
        lost = (RefusalKind.EXPIRED, RefusalKind.CREDENTIALS, RefusalKind.RIGHTS)
        if alive and refused.kind in lost:
            return StrandedNodes(refused, alive, self._settings.lease_s)
        return refused.as_input()
