"""Storages that outlive one process: a real PostgreSQL server for the whole run, and a database of it for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import postgres
import pytest
import sqlalchemy
from optuna.storages import RDBStorage

_databases = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A PostgreSQL server that accepts connections; fails, never skips, where none is installed."""
    with postgres.running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: postgres.Server) -> str:
    """The URL of an empty database of the test's own."""
    database = f"test_{next(_databases)}"
    engine = sqlalchemy.create_engine(postgres_server.url("postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {database}"))
    engine.dispose()
    return postgres_server.url(database)


@pytest.fixture
def postgres_storage(postgres_url: str) -> Iterator[Callable[..., RDBStorage]]:
    """Connects to ``postgres_url``, with options of ``RDBStorage``; every connection is closed after the test."""
    with ExitStack() as stack:

        def connect(**options: Any) -> RDBStorage:
            storage = RDBStorage(postgres_url, **options)
            stack.callback(storage.engine.dispose)
            return storage

        yield connect
