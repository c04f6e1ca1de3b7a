"""Checkpoints in S3, or in anything that speaks its language, through pyarrow.

Every push has a name of its own, so no object is ever written twice, and nothing complete is ever replaced by
something that is not. A folder's list of files is written last.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from rb_core.errors import DamagedCheckpoint, InvalidInput, StoreFailure, UnusableCheckpoint
from rb_core.training import checksums
from rb_ray.depots import outage

KEY = "run.storage"
"""What the address is called in errors."""

_PIECE_BYTES = 8 << 20
_TOGETHER = 8
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def s3_depot(*, uri: str) -> S3Depot:
    """The depot at an address such as ``s3://bucket/prefix``; contacts nothing.

    Its endpoint is AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL, else Amazon's own; region and credentials are found as
    by all of Amazon's tools. Nodes are told endpoint and region, and find credentials by themselves.

    Raises:
        InvalidInput: not such an address, or pyarrow is missing.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise InvalidInput(KEY, "s3:// needs pyarrow: pip install 'rubberband-tune[ray]'")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return S3Depot(uri=uri if uri.count("/") <= 2 else uri.rstrip("/"), endpoint=endpoint).in_region()


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Depot:
    """A `rb_core.ports.Depot` below a prefix of a bucket.

    Attributes:
        uri: ``s3://bucket/prefix``.
        endpoint: address of the service; empty for Amazon's own.
        region: of the bucket; empty for what the machine is set to.
    """

    uri: str
    endpoint: str = ""
    region: str = ""

    def __post_init__(self) -> None:
        bucket, _, prefix = self.uri.removeprefix("s3://").partition("/")
        parts = prefix.split("/") if prefix else []
        if not self.uri.startswith("s3://") or not _BUCKET.fullmatch(bucket) or not all(map(_plain, parts)):
            raise InvalidInput(
                KEY,
                "must be s3://BUCKET or s3://BUCKET/PREFIX, the prefix of letters, digits and any of ._=+@- between "
                f"slashes, got {self.uri!r}",
            )

    def in_region(self) -> Self:
        """The same with the region that this machine is set to."""
        # The SDK reads the environment once in a process.
        named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        return type(self)(uri=self.uri, endpoint=self.endpoint, region=named or str(self._store.region))

    def check(self) -> None:
        """See to it that it can be used. Raises `InvalidInput`."""
        name, word = f".probe-{secrets.token_hex(8)}", secrets.token_bytes(16)
        key = f"{self._root}/{name}"
        try:
            with self._asking(f"{self.uri} cannot be used as a store of checkpoints"):
                self._below()  # of all requests the soonest to fail where nothing answers
                with self._store.open_output_stream(key) as out:
                    out.write(word)
                with self._store.open_input_stream(key) as source:
                    read = source.read()
                listed = {info.base_name for info in self._below()}
                self._store.delete_file(key)
        except StoreFailure as error:
            raise InvalidInput(KEY, str(error)) from None
        if read != word or name not in listed:
            raise InvalidInput(
                KEY, f"{self.uri} did not give back, or did not list, what was just written to it; use another store"
            )

    def push(self, checkpoint: Path, folder: str) -> str:
        """Keep a copy of a checkpoint, file or folder."""
        stem, suffix = (checkpoint.name, "") if checkpoint.is_dir() else (checkpoint.stem, checkpoint.suffix)
        place = f"{folder}/{stem}-{secrets.token_hex(4)}{suffix}"
        key = f"{self._root}/{place}"
        if checkpoint.is_dir():
            self._push_folder(checkpoint, key)
        else:
            self._upload(checkpoint, key)
        return f"{self.uri}/{place}"

    def fetch(self, reference: str, path: Path) -> None:
        """Put a checkpoint's copy at a path of this machine."""
        key = self._key(reference)
        doing = f"checkpoint {reference} cannot be fetched"
        with self._asking(doing):
            found = self._store.get_file_info(key)
            files = self._below(reference) if _is(found, "Directory") else []
            if _is(found, "NotFound"):
                bucket = self._root.partition("/")[0]
                if _is(self._store.get_file_info(bucket), "NotFound"):
                    raise OSError(f"AWS Error {outage.NO_BUCKET}")
                raise DamagedCheckpoint(f"checkpoint {reference} is gone; go on from an earlier one")
        if not files:
            self._download(key, path, doing)
            return
        with _writing(reference):
            path.mkdir()
            for info in files:
                inner = path / info.path.removeprefix(f"{key}/")
                (inner if _is(info, "Directory") else inner.parent).mkdir(parents=True, exist_ok=True)
        names = [info.path for info in files if _is(info, "File")]
        _together(lambda name: self._download(name, path / name.removeprefix(f"{key}/"), doing), names)

    def delete(self, reference: str) -> None:
        """Remove a checkpoint."""
        key = self._key(reference)
        with self._asking(f"checkpoint {reference} cannot be deleted"):
            found = self._store.get_file_info(key)
            try:
                if _is(found, "Directory"):
                    self._store.delete_dir(key)
                elif _is(found, "File"):
                    self._store.delete_file(key)
            except FileNotFoundError:
                return  # somebody else was quicker

    def references(self) -> list[str]:
        """What lies in it, complete or not."""
        with self._asking(f"{self.uri} cannot be listed"):
            below = [info.path.removeprefix(f"{self._root}/").split("/") for info in self._below()]
        return sorted({f"{self.uri}/{parts[0]}/{parts[1]}" for parts in below if len(parts) > 1})

    @property
    def _root(self) -> str:
        """Bucket and prefix."""
        return self.uri.removeprefix("s3://")

    @property
    def _store(self) -> Any:
        return _filesystem(self.endpoint, self.region)

    def _key(self, reference: str) -> str:
        if not reference.startswith(f"{self.uri}/"):
            raise UnusableCheckpoint(f"checkpoint {reference} is not one of {self.uri}")
        return reference.removeprefix("s3://")

    def _below(self, uri: str = "") -> list[Any]:
        from pyarrow.fs import FileSelector

        key = uri.removeprefix("s3://") or self._root
        found: list[Any] = self._store.get_file_info(FileSelector(key, recursive=True, allow_not_found=True))
        return found

    def _push_folder(self, folder: Path, key: str) -> None:
        within = sorted(folder.rglob("*"))
        for path in within:
            if path.is_symlink():
                raise UnusableCheckpoint(
                    f"checkpoint {folder} holds the symbolic link {path.relative_to(folder)}, which {self.uri} cannot "
                    "keep; copy what it leads to"
                )
        files = [path for path in within if path.is_file() and path != folder / checksums.LIST]
        _together(lambda path: self._upload(path, f"{key}/{path.relative_to(folder)}"), files)
        for path in within:
            if path.is_dir() and not any(path.iterdir()):
                with self._asking(f"checkpoint {folder} cannot be kept"):
                    self._store.create_dir(f"{key}/{path.relative_to(folder)}")
        self._upload(folder / checksums.LIST, f"{key}/{checksums.LIST}")

    def _upload(self, path: Path, key: str) -> None:
        with (
            self._asking(f"checkpoint s3://{key} cannot be kept"),
            path.open("rb") as source,
            self._store.open_output_stream(key) as out,
        ):
            shutil.copyfileobj(source, out, _PIECE_BYTES)

    def _download(self, key: str, path: Path, doing: str) -> None:
        with self._asking(doing):
            try:
                source = self._store.open_input_stream(key)
            except FileNotFoundError:
                raise DamagedCheckpoint(f"checkpoint s3://{key} is gone; go on from an earlier one") from None
        with source, _writing(f"s3://{key}"), path.open("wb") as out:
            while True:
                with self._asking(doing):
                    piece = source.read(_PIECE_BYTES)
                if not piece:
                    return
                out.write(piece)

    @contextmanager
    def _asking(self, doing: str) -> Iterator[None]:
        """Put what pyarrow raises into words: what could not be done, and the remedy."""
        try:
            yield
        except OSError as error:
            raise StoreFailure(f"{doing}: {outage.in_words(error)}") from error


@cache
def _filesystem(endpoint: str, region: str) -> Any:
    """One for each place: it holds connections and threads. Not to be made before a fork."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    return S3FileSystem(
        endpoint_override=endpoint or None,
        region=region or None,
        connect_timeout=outage.CONNECT_S,
        request_timeout=outage.SILENCE_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=outage.ATTEMPTS),
    )


@contextmanager
def _writing(name: str) -> Iterator[None]:
    """Of this machine's disk, not of the store."""
    try:
        yield
    except OSError as error:
        raise UnusableCheckpoint(
            f"checkpoint {name} cannot be written to this node's disk: {error.strerror or error}; free some space, or "
            "let TMPDIR be on another disk"
        ) from error


def _together(action: Any, items: Any) -> None:
    with ThreadPoolExecutor(_TOGETHER) as pool:
        for _ in pool.map(action, items):
            pass


def _plain(part: str) -> bool:
    return re.fullmatch(r"[\w.=+@-]+", part, re.ASCII) is not None and part not in (".", "..")


def _is(info: Any, kind: str) -> bool:
    return bool(info.type.name == kind)
