"""Everything of Ray that is private or unstable and used all the same, with the versions that it was seen in."""

from __future__ import annotations

import inspect
import logging
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray._private import worker
from ray._private.state import available_resources_per_node
from ray._raylet import AuthenticationMode, AuthenticationTokenLoader, Config, GcsClient, get_authentication_mode
from ray.core.generated import autoscaler_pb2

if TYPE_CHECKING:
    from ray import tune

_logger = logging.getLogger(__name__)

# --- Tune's session: what tune.report, tune.get_checkpoint and tune.get_context ask in a process of a trial ---


def in_session() -> bool:
    """Whether this process runs a function trainable. 2.52 to 2.60: the public functions warn where there is none."""
    from ray.train._internal import session

    return session.get_session() is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowersSession:
    """Tune's session in a rank that Tune did not start: it knows what rank 0's knows, and its reports go nowhere.

    2.52 to 2.60: the public functions read these attributes of the session, and call `report`.

    Attributes:
        trial_id: this and all others: what `tune.get_context` and `tune.get_checkpoint` tell.
    """

    trial_id: str
    trial_name: str
    trial_dir: str
    experiment_name: str
    trial_resources: tune.PlacementGroupFactory
    loaded_checkpoint: tune.Checkpoint | None
    world_rank: None = None
    run_id: None = None

    def report(self, metrics: Mapping[str, Any], checkpoint: tune.Checkpoint | None = None) -> None:
        """Nothing: rank 0's report counts."""


def follow(session_of_rank_0: FollowersSession) -> None:
    """Let Tune's functions answer so in this process. 2.52 to 2.60: they ask the global `_session`."""
    from ray.train._internal import session

    holder: Any = session
    holder._session = session_of_rank_0


# --- nodes and the cluster ---


def head_address(folder: Path) -> str:
    """Where a head whose temporary folder this is can be reached; empty before it can.

    2.52 to 2.60: `ray start` writes it into this file once all its processes run; nothing public tells a port that the
    system has chosen.
    """
    try:
        return (folder / "ray_current_cluster").read_text().strip()
    except OSError:
        return ""


def start_apart(params: Any, head: bool) -> None:
    """Called by `ray start`, where RAY_START_HOOK names it: give a node sockets in its own TMPDIR.

    2.52 to 2.60: nodes that start at one time in one folder take each other's sockets, and 2.52 has only the head's
    folder; both let this hook change what a node is started with.
    """
    if not head:
        folder = tempfile.gettempdir()
        params.plasma_store_socket_name = f"{folder}/plasma_store"
        params.raylet_socket_name = f"{folder}/raylet"


def greet(address: str) -> None:
    """Ask a cluster's head for its name, which `ray.init` does, too, but without saying what was wrong.

    2.52 to 2.60: a wrong token is an AuthenticationError here at once, and "Failed to connect" there after 20 s.

    Raises:
        AuthenticationError: it refuses the token.
        RuntimeError: it does not answer as Ray.
    """
    GcsClient(address=address)


def connect(address: str, ip: str | None) -> None:
    """Connect this process to a cluster.

    2.52 to 2.60: `_node_ip_address` alone chooses among several Ray nodes of one machine. `ray.init` replaces the
    program's handler of SIGTERM, by which it ends its runs in order; it is put back. What happens to nodes Ray prints
    to standard output, by `print_to_stdstream` of its worker module, and nothing turns that off; there the program's
    own answer goes, so these lines are logged until `disconnect`.

    Args:
        address: ``host:port``, or ``auto``.
        ip: of the node on this machine to connect through; any when None.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            # 2.52 warns once of a change to come in what tasks without GPUs see of them.
            warnings.filterwarnings("ignore", "Tip: In future versions of Ray", FutureWarning)
            ray.init(address=address, _node_ip_address=ip, log_to_driver=False, configure_logging=False)
        worker.print_to_stdstream = _log_lines
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def disconnect() -> None:
    """Undo `connect`."""
    ray.shutdown()
    worker.print_to_stdstream = _print_lines


_print_lines = worker.print_to_stdstream


def _log_lines(data: Mapping[str, Any], ignore_prefix: bool) -> None:
    for line in data["lines"]:
        _logger.info("(%s) %s", data["pid"], line)


def reread_token() -> None:
    """Have this process read mode and token of the authentication from the environment again.

    2.60: both are kept from their first use on; a process that has used another cluster would send that one's token.
    """
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def token() -> str | None:
    """The token that this process sends; None where authentication is off. 2.60: nothing public tells it."""
    if get_authentication_mode() != AuthenticationMode.TOKEN:
        return None
    return str(AuthenticationTokenLoader.instance().get_raw_token()) or None


def drain(address: str, node_id: str, reason: str) -> bool:
    """Ask an idle node to leave; False where it is busy. An idle one leaves by itself within seconds.

    2.52 to 2.60: `GcsClient` is unstable, and the only way to take a node away that is refused while it is in use.
    """
    idle = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_IDLE_TERMINATION")
    accepted, _ = GcsClient(address=address).drain_node(node_id, idle, reason, 0)
    return bool(accepted)


def free_resources() -> Mapping[str, Mapping[str, float]]:
    """What is free on each living node, by Ray's id of it; may be a second old. 2.52 to 2.60: DeveloperAPI."""
    free: Mapping[str, Mapping[str, float]] = available_resources_per_node()
    return free


# --- the user's code ---


def store_folder(folder: Path, *, most_bytes: int) -> str | None:
    """Lay a copy of a folder up with the cluster, for runtime environments; None where it is too large.

    2.52 to 2.60: the runtime environment of an actor takes a folder only as the URI of such a copy, which Ray makes by
    itself for `ray.init` alone, before it is known what is trained. Newer ones ask whether to respect .gitignore.

    Args:
        folder: what is copied, without what `.gitignore`, `.rayignore` and Ray's own list name.
        most_bytes: the limit.

    Returns:
        Its URI.
    """
    from ray._private.runtime_env import packaging

    quiet = logging.getLogger(f"{__name__}.packaging")
    quiet.disabled = True
    found_bytes = 0

    def add(path: Path) -> None:
        nonlocal found_bytes
        found_bytes += path.stat().st_size if path.is_file() else 0
        if found_bytes > most_bytes:
            raise OverflowError

    excludes = packaging._get_excludes(folder, _LEFT_BEHIND)
    try:
        _call(packaging._dir_travel, folder, [excludes], add, include_gitignore=True, logger=quiet)
    except OverflowError:
        return None
    uri = str(_call(packaging.get_uri_for_directory, str(folder), include_gitignore=True, excludes=_LEFT_BEHIND))
    with tempfile.TemporaryDirectory() as scratch:
        _call(
            packaging.upload_package_if_needed,
            uri,
            scratch,
            str(folder),
            include_gitignore=True,
            excludes=_LEFT_BEHIND,
            logger=quiet,
        )
    return uri


_LEFT_BEHIND = [".git", ".venv", "venv", "__pycache__"]


def _call(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call it with those of the named arguments that it has in this version."""
    known = inspect.signature(function).parameters
    return function(*args, **{name: value for name, value in named.items() if name in known})


# --- Tune's controller: what a scheduler needs of it beside TrialScheduler's callbacks ---


def controller(of: Any) -> Any:
    """The controller behind the wrapper that Tune hands to schedulers; None where it is no real one.

    2.52 to 2.60: the wrapper keeps it as `_tune_controller`, and warns of whatever it does not list.
    """
    from ray.tune.execution.tune_controller import TuneController

    inner = getattr(of, "__dict__", {}).get("_tune_controller", of)
    return inner if isinstance(inner, TuneController) else None


def set_status(of: Any, trial: tune.experiment.Trial, status: str) -> None:
    """Change the status of a trial that was added, with Tune's own lists of trials by status.

    2.52 to 2.60: `_set_trial_status` is what HyperBandForBOHB used, and still stands on the list of what schedulers may
    call; `Trial.set_status` alone leaves the lists as they are.
    """
    behind = controller(of)
    if behind is None:
        trial.set_status(status)
    else:
        behind._set_trial_status(trial, status)


def starts_many(of: Any) -> bool:
    """Whether Tune asks for the slots of many pending trials at once, and not of one after another.

    2.52 to 2.60: `_max_pending_trials` is 1 with searchers that no ConcurrencyLimiter wraps.
    """
    behind = controller(of)
    return behind is not None and behind._max_pending_trials > 1


def actors(of: Any) -> int:
    """Actors of trials that hold a placement group or wait for one, those that are being stopped included.

    2.52 to 2.60: `_actor_manager` frees a placement group when it forgets the actor.
    """
    behind = controller(of)
    return 0 if behind is None else behind._actor_manager.num_total_actors


def holds_slots(of: Any, trial: tune.experiment.Trial) -> bool:
    """Whether a trial's placement group is there; its actor may still be starting. 2.52 to 2.60."""
    behind = controller(of)
    actor = None if behind is None else behind._trial_to_actor.get(trial)
    return actor is not None and actor in behind._actor_manager._live_actors_to_ray_actors_resources


def node_ids(of: Any, trial: tune.experiment.Trial) -> tuple[str, ...]:
    """Ray's ids of the nodes that a trial's placement group lies on, bundle by bundle; none where it has none.

    2.52 to 2.60: `_live_actors_to_ray_actors_resources` holds the group that was acquired for an actor.
    """
    behind = controller(of)
    actor = None if behind is None else behind._trial_to_actor.get(trial)
    held = None if behind is None else behind._actor_manager._live_actors_to_ray_actors_resources.get(actor)
    if held is None:
        return ()
    placed = ray.util.placement_group_table(held[1].placement_group)["bundles_to_node_id"]
    return tuple(placed[index] for index in sorted(placed))


def begin_saving(of: Any) -> bool:
    """Write Tune's state and begin to carry it to the storage; False while it is still busy with the last one.

    2.52 to 2.60: `checkpoint(force=True)` waits for a copy that is under way, so it is not called then.
    """
    behind = controller(of)
    if behind is None or behind._storage is None:
        return True
    if is_saving(of):
        return False
    behind.checkpoint(force=True)
    return True


def is_saving(of: Any) -> bool:
    """Whether Tune's state is being carried to the storage. 2.52 to 2.60: `Syncer` says it only by waiting."""
    behind = controller(of)
    copying = None if behind is None or behind._storage is None else behind._storage.syncer._sync_process
    return copying is not None and bool(copying.is_running)


def reuses_actors(of: Any) -> bool:
    """Whether `TuneConfig(reuse_actors=True)` is set. 2.52 to 2.60."""
    behind = controller(of)
    return behind is not None and bool(behind._reuse_actors)


def add_callback(of: Any, callback: tune.Callback) -> None:
    """Have Tune call a callback of ours too. 2.52 to 2.60: schedulers are not told that an experiment has ended."""
    behind = controller(of)
    if behind is not None:
        behind._callbacks._callbacks.append(callback)


def mark_changed(of: Any, trial: tune.experiment.Trial) -> None:
    """Have Tune's next state hold this trial as it is. 2.52 to 2.60: one stopped while paused stays as it was there."""
    behind = controller(of)
    if behind is not None:
        behind._mark_trial_to_checkpoint(trial)
