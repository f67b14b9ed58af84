"""The tables of an annotation task in SQLite or PostgreSQL, and connections to them.

Each answer is stored with what was offered, in which order, to whom, and whether the example was
drawn at random: the distribution of answers depends on it. `naysay.annotation` writes the tables,
and `naysay.datasets.own` reads them.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError, StatementError

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, NaysayError
from naysay._base.files import DATABASE_URLS

VERSION = 1  # of the tables
_SYNCHRONOUS = "FULL"  # a transaction is on disk when it is committed
APPLICATION_ID = 0x6E617973  # "nays", in the header of an SQLite file

# The state of a deal: a question that was dealt to a person.
LEASED, ANSWERED, RELEASED, LATER = range(4)

tables = sa.MetaData()
_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers INTEGER keys by itself

task_table = sa.Table(
    "naysay_task",
    tables,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),  # JSON
)
item_table = sa.Table(
    "naysay_item",
    tables,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),  # the path below the folder of data, or the row
    sa.Column("cells", sa.Text),  # JSON; the columns of a table, or a text
    sa.Column("known", sa.Integer),  # true class
    sa.Column("place", _Id, nullable=False),  # in the order of questions
    sa.Column("pool", sa.SmallInteger, nullable=False),  # 0: in random order, 1: a model may choose
    sa.Column("room", sa.Integer, nullable=False),  # answers wanted, less those given or leased
    sa.Column("chosen", sa.SmallInteger, nullable=False),  # whether a model chose the place
)


def _index(name: str, *columns: sa.Column[Any], where: Any, unique: bool = False) -> None:
    """Index the rows for which a condition holds."""
    sa.Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


_index("naysay_item_queue", item_table.c.pool, item_table.c.place, where=item_table.c.room > 0)
_index("naysay_item_known", item_table.c.place, where=item_table.c.known.is_not(None))
person_table = sa.Table(
    "naysay_person",
    tables,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("token", sa.Text, unique=True),  # SHA-256 of the token in the link
    sa.Column("is_owner", sa.Boolean, nullable=False),
    sa.Column("joined", sa.Double, nullable=False),
)
deal_table = sa.Table(
    "naysay_deal",
    tables,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("item", sa.ForeignKey(item_table.c.id), nullable=False),
    sa.Column("person", sa.ForeignKey(person_table.c.id), nullable=False),
    sa.Column("question", sa.Text, nullable=False),  # "which", "in order" or "yes-no"
    sa.Column("offered", sa.Text, nullable=False),  # JSON: classes in the order shown
    sa.Column("asked_by", sa.Text, nullable=False),  # "random", "model" or "known"
    sa.Column("dealt", sa.Double, nullable=False),
    sa.Column("until", sa.Double, nullable=False),  # when the lease ends
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.UniqueConstraint("person", "item"),  # never dealt twice to one person
)
_index("naysay_deal_leases", deal_table.c.until, where=deal_table.c.state == LEASED)
_index(
    "naysay_deal_unfinished",
    deal_table.c.person,
    deal_table.c.state,
    where=deal_table.c.state != ANSWERED,
)
answer_table = sa.Table(
    "naysay_answer",
    tables,
    sa.Column("id", sa.Text, primary_key=True),  # drawn by the page, so that nothing is doubled
    sa.Column("deal", sa.ForeignKey(deal_table.c.id), nullable=False),
    sa.Column("said", sa.Text, nullable=False),  # "not", "yes", "no", "none" or "unknown"
    sa.Column("label", sa.Integer),  # the class chosen or suggested
    sa.Column("seconds", sa.Double),
    sa.Column("answered", sa.Double, nullable=False),
    sa.Column("withdrawn", sa.Double),  # when it was undone or reopened
)
IS_VALID = answer_table.c.withdrawn.is_(None)
#: Answers with their question, example and person.
EVERY_ANSWER = answer_table.join(deal_table).join(item_table).join(person_table)
_index("naysay_answer_deal", answer_table.c.deal, where=IS_VALID, unique=True)
estimate_table = sa.Table(
    "naysay_estimate",
    tables,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("made", sa.Double, nullable=False),
    sa.Column("n_answers", sa.Integer, nullable=False),
    sa.Column("report", sa.Text, nullable=False),  # JSON
)


def database_url(target: str | Path) -> sa.URL:
    """Convert a path or URL to the URL of a database."""
    text = str(target)
    if not text.startswith(DATABASE_URLS):
        return sa.URL.create("sqlite", database=text)
    try:
        url = sa.make_url(text)
    except SQLAlchemyError:
        raise InvalidInput(
            "A database must be a path, or a URL such as postgresql://user@host/name. "
            f"Got {text.partition('@')[2] or text!r}."
        ) from None
    return url if url.get_backend_name() == "sqlite" else url.set(drivername="postgresql+psycopg")


def name_of(url: sa.URL) -> str:
    """Name a database for a reader, without its password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(drivername="postgresql").render_as_string(hide_password=True)


def connect(target: str | Path, *, writes: bool = False, creates: bool = False) -> sa.Engine:
    """Connect to a database; transactions that write begin by locking an SQLite file.

    The file itself is never opened here: closing it would release the locks of other connections of
    this process, and another process would then take the database for unused.
    """
    url = database_url(target)
    if url.get_backend_name() != "sqlite":
        try:  # who writes tries again; who reads finds out first whether the connection is lost
            return sa.create_engine(
                url, pool_pre_ping=not writes, connect_args={"connect_timeout": 10}
            )
        except ModuleNotFoundError:
            raise InvalidInput(
                "A PostgreSQL database needs psycopg. Install it: pip install 'naysay[annotate]'"
            ) from None
    path = Path(str(url.database))
    if not creates and not path.is_file():
        raise FileNotFoundError(
            f"There is no database {path}. To start a task, run: naysay annotate DATA "
            f"--classes … --out {path}"
        )
    engine = sa.create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin where `begin` below says so
        connection.execute("PRAGMA foreign_keys = ON")
        if writes:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS}")

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


# Errors that values raise which no task has.
_MISFITS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def _foreign(name: str, why: str) -> InvalidData:
    return InvalidData(
        f"{name} must be the database of an annotation task, which naysay annotate writes. It is "
        f"none: {why}. It was not changed."
    )


@contextmanager
def clear_errors(name: str) -> Generator[None]:
    """Turn errors of a database, and of values in it that no task has, into one clear line."""
    try:
        yield
    except NaysayError:
        raise
    except _MISFITS as error:
        raise InvalidData(
            f"The database {name} must be as naysay annotate wrote it. It is damaged, or was "
            f"changed by another program: {type(error).__name__}: {shorten(str(error))}."
        ) from error
    except StatementError as error:  # of the database, or of a value that a column cannot hold
        reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else "no reason"
        raise InvalidData(f"The database {name} cannot be used: {reason}.") from None


def read_settings(connection: sa.Connection, name: str) -> dict[str, Any]:
    """Read the settings of a task; databases of other programs or newer versions are an error."""
    try:
        found = sa.inspect(connection).has_table(task_table.name)
        rows = connection.execute(sa.select(task_table)).all() if found else []
        values = {row.key: json.loads(row.value) for row in rows}
        version, settings = values["version"], values["settings"]
    except OperationalError:
        raise  # the server cannot be reached, for example
    except (KeyError, ValueError, TypeError, RecursionError, SQLAlchemyError) as error:
        is_other = isinstance(error, DBAPIError) and "not a database" in str(error.orig)
        why = "it is not an SQLite database" if is_other else "it has no table of a task"
        raise _foreign(name, why) from None
    if type(version) is not int or not isinstance(settings, dict):
        raise _foreign(name, "its version or its settings are damaged")
    if version > VERSION:
        raise InvalidData(
            f"{name} was written by a newer version of naysay (tables of version {version}, this "
            f"version reads {VERSION}). It was not changed. Update: pip install -U naysay"
        )
    return settings
