"""Leases of Stanchion, for Python 3.9 and later. One file, the standard library alone.

    import stanchion

    client = stanchion.Client(["https://n1:8420", "https://n2:8420", "https://n3:8420"], api_key)
    with client.acquire("ledger-close", "2026-06-30", wait=30) as lease:
        for row in rows:
            lease.check()                  # raises stanchion.Lost: stop
            write(row, lease.token)        # the resource refuses a token that is too old
    client.close()

What a lease is worth without a guard at the resource
-----------------------------------------------------
lease.check() is true for the moment in which it looks, and no longer. Between that moment and the write this process can be
paused: by the scheduler, a page fault, the garbage collector, a debugger, a laptop that sleeps. A virtual machine may be
stopped without any of its clocks noticing. When the process goes on, the lease may be somebody else's, and the write happens all
the same. A write that is on its way in a network may arrive later still. No client of any lock service can prevent that, and
this one does not. Use a lease without a guard only where two at work at once cost effort, and never a wrong result.

Where it must not happen, the resource itself compares tokens. They only grow, so the resource refuses one that is lower than
one it has seen. The token is entered first, before anything is read, and the writes are in the same transaction:

    with database:                         # one transaction
        cursor = database.execute(
            "UPDATE account SET fence = ? WHERE id = ? AND fence <= ?", (lease.token, account, lease.token))
        if cursor.rowcount != 1:
            raise stanchion.Error("the token is stale: somebody else has the lease")
        balance, = database.execute("SELECT balance FROM account WHERE id = ?", (account,)).fetchone()
        database.execute("UPDATE account SET balance = ? WHERE id = ? AND fence = ?", (balance - 5, account, lease.token))

Threads
-------
Everything may be called from many threads. A client has a thread that keeps its leases, and up to three that send for it,
however many leases; it has none of them while it holds nothing. Callbacks are called in threads of their own. All are daemon
threads: a process that ends without Client.close() leaves its leases to run out. A client and its leases belong to the process
that made them, and not to one that was forked from it.

What is not bounded: looking up an endpoint's name, for which the standard library knows no time limit.
"""

from __future__ import annotations

import collections
import http.client
import io
import json
import logging
import math
import os
import random
import secrets
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import quote, urlsplit

__all__ = ["UNLIMITED", "AlreadyHeld", "Cancelled", "Claim", "Client", "CloseFailed", "Closed", "DeadlinePassed", "Error",
           "Expired", "Held", "Leadership", "Lease", "Lost", "NotInForce", "NotObtained", "Problem", "QueueFull", "Reading",
           "Released", "Revoked", "SystemClock", "Unavailable", "WaitTimeout", "Watch"]

UNLIMITED = math.inf  # a wait without end, where the class allows it

_log = logging.getLogger("stanchion")
_log.addHandler(logging.NullHandler())

# Times inside are integers: nanoseconds.
_SECOND = 1_000_000_000
_MILLI = 1_000_000


# ---- what goes wrong ----

class Error(Exception):
    """Whatever goes wrong here is one of these."""


class Problem(Error):
    """A problem document of the platform.

    code is its stable name, detail what happened, remedy what to do, and retry how to go on: "same_id", "new_id", "later" or
    "never". status is the HTTP status; field, reason, scope and request_id are "" where there is none; document has everything.
    """

    def __init__(self, document: Dict[str, Any], status: int = 0):
        self.document = document
        self.status = status
        for name in ("code", "title", "detail", "retry", "remedy", "field", "reason", "scope", "request_id"):
            value = document.get(name)
            setattr(self, name, value if isinstance(value, str) else "")
        super().__init__(f"{self.code}: {self.detail or self.title}")


class NotObtained(Error):
    """A lease was not obtained. problem is what the platform answered, or None; cause is what failed last, or None."""

    text = "not obtained"

    def __init__(self, class_name: str, key: str, cause: Optional[BaseException] = None):
        self.class_name, self.key, self.cause = class_name, key, cause
        self.problem = cause if isinstance(cause, Problem) else None
        super().__init__(f"acquire {class_name} {key!r}: {self.text}" + (f" ({cause})" if cause else ""))


class Held(NotObtained):
    """Somebody else holds the key, and the request does not queue. Ask again later, or queue."""

    text = "somebody else holds the key"


class WaitTimeout(NotObtained):
    """The request queued as long as it asked to. Ask again if the work is still wanted."""

    text = "waited as long as asked, and was not granted"


class QueueFull(NotObtained):
    """As many wait as the class allows. Ask again later."""

    text = "as many wait for the key as its class allows"


class AlreadyHeld(NotObtained):
    """This client has the key already, or waits for it. Use the lease that it has, or a client for each party that contends."""

    text = "this client has the key already"


class NotInForce(NotObtained):
    """The class has no signed version in force, or is retired, and grants nothing."""

    text = "the class grants nothing"


class Unavailable(NotObtained):
    """No node decided in time. What was asked is withdrawn as soon as a node answers."""

    text = "no node decided in time"


class Cancelled(NotObtained):
    """The caller's timeout or event ended the asking. The request is withdrawn."""

    text = "the asking was ended"


class Closed(NotObtained):
    """The client was closed, or belongs to the process from which this one was forked."""

    text = "the client is closed"


class CloseFailed(Error):
    """Closing did not give back everything. failed lists the errors; what they name ends by itself when its lease runs out."""

    def __init__(self, failed: Sequence[BaseException]):
        self.failed = list(failed)
        super().__init__("close: " + "; ".join(str(e) for e in failed))


class Lost(Error):
    """A hold is over: token is the one that it had, detail the platform's own reason ("" without one), last the failure of the
    last heartbeat, where there was one. It is DeadlinePassed, Revoked, Expired or Released."""

    text = "the hold is over"

    def __init__(self, class_name: str, key: str, token: int, detail: str = "", last: Optional[BaseException] = None):
        self.class_name, self.key, self.token, self.detail, self.last = class_name, key, token, detail, last
        super().__init__(f"{class_name} {key!r} (token {token}): {self.text}" + (f": {detail}" if detail else "")
                         + (f"; last heartbeat: {last}" if last else ""))


class DeadlinePassed(Lost):
    """The local deadline passed before the lease could be renewed. It may be somebody else's by now."""

    text = "the local deadline has passed"


class Revoked(Lost):
    """The hold was ended from outside. Stop now and release: until then, or until the lease runs out, nobody else is granted."""

    text = "the hold was ended from outside"


class Expired(Lost):
    """The platform says that the lease is over. It may be somebody else's by now."""

    text = "the lease has ended"


class Released(Lost):
    """The holder gave the lease back, or closed the client."""

    text = "the lease was released"


class _NoAnswer(Error):
    """There was no answer; the request may have been carried out all the same."""


class _Interrupted(Exception):
    """The asking ended while a request was under way."""


_REASONS = {"held": Held, "wait_timeout": WaitTimeout, "queue_full": QueueFull, "already_held": AlreadyHeld,
            "class_not_in_force": NotInForce, "class_retired": NotInForce}

# Problems that pass by themselves: waiting for a lease means waiting for their end.
_WAITS = {"rate_limited", "overloaded", "not_ready", "audit_behind", "tenant_suspended"}

# Ends of a lease, or of a place in line, that come from not being heard of in time.
_LAPSES = {"expired", "pickup_missed", "disconnected", "silent"}

# Reasons for which a hold is ended from outside.
_REVOCATIONS = {"forced", "max_hold", "class_retired", "tenant_dropped"}

# Problems which say that there is nothing to release any more.
_OVER = {"ended", "session_ended", "too_old"}


# ---- time ----

class Reading(NamedTuple):
    """One look at the clocks: each the nanoseconds since some origin of its own, None where the system has no such clock."""

    boot: Optional[int] = None  # counts while the machine sleeps
    monotonic: Optional[int] = None  # may stand still while it sleeps, and is slewed
    raw: Optional[int] = None  # likewise, and is not slewed
    wall: Optional[int] = None  # may jump, both ways


class SystemClock:
    """The machine's own clocks, as far as it has them."""

    _ids = tuple(getattr(time, "CLOCK_" + name, None) for name in ("BOOTTIME", "MONOTONIC", "MONOTONIC_RAW", "REALTIME"))

    def read(self) -> Reading:
        if not hasattr(time, "clock_gettime_ns"):
            return Reading(monotonic=time.monotonic_ns(), wall=time.time_ns())
        return Reading(*(self._look(clock) for clock in self._ids))

    @staticmethod
    def _look(clock: Optional[int]) -> Optional[int]:
        try:
            return None if clock is None else time.clock_gettime_ns(clock)
        except OSError:
            return None


class Watch:
    """One time made of all clocks: of each interval between looks it takes the longest that any clock saw pass.

    It never goes back, and stands still only when every clock does. A clock that jumps ahead makes a holder give up early; one
    that stands still or goes back changes nothing.
    """

    # The clocks are not read in the same instant. Over shorter intervals that difference would add up.
    _interval_min = 10 * _MILLI

    def __init__(self, clock: Any):
        self._clock, self._lock = clock, threading.Lock()
        self._last = clock.read()  # where the running interval began
        self._passed = 0  # the sum of the intervals before
        self._latest = 0

    def now(self) -> int:
        """Looks at the clocks: the nanoseconds since the watch was made."""
        with self._lock:
            reading = self._clock.read()
            seen = (now - before for now, before in zip(reading, self._last) if now is not None and before is not None)
            interval = max(seen, default=0)
            self._latest = max(self._latest, self._passed + interval)
            if interval >= self._interval_min:
                self._last, self._passed = reading, self._latest
            return self._latest


_BACKOFF_MIN = 0.05  # seconds
_BACKOFF_MAX = 2.0


def _backoff(failures: int, most: float = _BACKOFF_MAX) -> float:
    """The pause after a number of failures in a row, from 1 on, in seconds: it doubles up to most, and half of it is random."""
    longest = min(_BACKOFF_MIN * 2 ** min(max(failures - 1, 0), 10), most)
    return longest / 2 + random.uniform(0, longest / 2)


_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def _parse_duration(text: Any) -> int:
    """Reads the platform's notation, such as "9.873s"."""
    if not isinstance(text, str):
        raise ValueError(f"not a duration: {text!r}")
    number = text.rstrip("msh")
    whole, _, decimals = number.partition(".")
    unit = _UNITS.get(text[len(number):])
    digits = whole + decimals
    if unit is None or not whole or not (digits.isascii() and digits.isdigit()) or len(digits) > 15 or len(decimals) > 3:
        raise ValueError(f"not a duration: {text!r}")
    millis = int(whole) * unit + int((decimals + "000")[:3]) * unit // 1000
    return millis * _MILLI


def _duration(seconds: float) -> str:
    """Writes the platform's notation; parts of a millisecond are dropped."""
    if seconds == math.inf:
        return "unlimited"
    return f"{int(seconds * 1000)}ms"


# ---- HTTP ----

_DIAL_TIME = 2.0
_IDLE_TIME = 60.0  # a connection that was idle for longer is not used again
_IDLE_MAX = 32  # for each node
_SLICE_TIME = 0.1  # how soon an asking that was ended notices
_ANSWER_BYTES_MAX = 8 << 20
_RETRY_AFTER_MAX = 60


class _Answer(NamedTuple):
    sent: int  # on the watch, before the request left: promises count from here
    body: Dict[str, Any]  # of a success
    problem: Optional[Problem]  # otherwise
    after: float  # Retry-After in seconds; 0: none

    @property
    def undecided(self) -> bool:
        """The node could not say: another one may."""
        return self.problem is not None and (self.problem.retry == "same_id" or self.problem.code == "not_ready")


class _Reader(io.RawIOBase):
    """Reads a socket until a moment, whatever the pace at which the bytes drip."""

    def __init__(self, sock: socket.socket, until: float, ended: Optional[Callable[[], bool]]):
        super().__init__()
        self._sock, self._until, self._ended = sock, until, ended

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            left = self._until - time.monotonic()
            if left <= 0:
                raise socket.timeout("no answer in time")
            if self._ended is not None and self._ended():
                raise _Interrupted
            self._sock.settimeout(left if self._ended is None else min(left, _SLICE_TIME))
            try:
                return self._sock.recv_into(buffer)
            except socket.timeout:
                continue


class _Exchange:
    """What http.client takes for a socket, for one request and its answer. The socket stays its owner's to close."""

    def __init__(self, sock: socket.socket, until: float, ended: Optional[Callable[[], bool]]):
        self._sock, self._until, self._ended = sock, until, ended

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(max(self._until - time.monotonic(), 0.001))
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, self._until, self._ended), 1 << 16)

    def close(self) -> None:
        pass


class _Node:
    """One node's address, and its idle connections. A connection carries one request at a time."""

    def __init__(self, url: str, context: Callable[[], ssl.SSLContext]):
        parts = urlsplit(url)
        self.url, self.prefix, self.https = url, parts.path, parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._context = context
        self._lock = threading.Lock()
        self._idle: List[Tuple[float, http.client.HTTPConnection, socket.socket]] = []  # guarded by _lock
        self._closed = False  # guarded by _lock

    def connect(self, limit: float) -> Tuple[http.client.HTTPConnection, socket.socket]:
        kept = self._take()
        if kept is not None:
            return kept
        limit = min(limit, _DIAL_TIME)
        if self.https:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=limit, context=self._context())
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=limit)
        connection.connect()
        return connection, connection.sock

    def _take(self) -> Optional[Tuple[http.client.HTTPConnection, socket.socket]]:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                since, connection, sock = self._idle.pop()
            if time.monotonic() - since < _IDLE_TIME and _quiet(sock):
                return connection, sock
            sock.close()

    def keep(self, connection: http.client.HTTPConnection, sock: socket.socket) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE_MAX:
                self._idle.append((time.monotonic(), connection, sock))
                return
        sock.close()

    def close(self) -> None:
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for _, _, sock in idle:
            sock.close()


def _quiet(sock: socket.socket) -> bool:
    """Reports whether an idle connection is still open: one that the other side has closed is readable."""
    try:
        sock.settimeout(0)
        if isinstance(sock, ssl.SSLSocket):
            sock.recv(1)  # a peek is not to be had
        else:
            sock.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False
    return False


def _parse_node(address: str) -> str:
    try:
        parts = urlsplit(address.strip())
        good = parts.scheme in ("http", "https") and parts.hostname and not parts.username and not parts.query
        parts.port  # raises if it is none
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"endpoint {address!r} is no address like https://host:port")
    return address.strip().rstrip("/")


class _Nodes:
    """The addresses to ask, and which of them leads as far as is known."""

    _hints_max = 64  # nodes that were only named by others

    def __init__(self, endpoints: Sequence[str], context: Callable[[], ssl.SSLContext]):
        if isinstance(endpoints, str) or not 1 <= len(endpoints) <= 16:
            raise ValueError("a client needs a list of 1 to 16 endpoints")
        self._context = context
        self._all = [_parse_node(e) for e in endpoints]
        self._https = all(e.startswith("https:") for e in self._all)
        self._lock = threading.Lock()
        self._first = random.randrange(len(self._all))  # guarded by _lock
        self._leader = ""  # guarded by _lock
        self._nodes = {url: _Node(url, context) for url in self._all}  # guarded by _lock

    def pick(self, tried: List[str]) -> Optional[_Node]:
        """The leader, unless it was tried, then one of the others; None: all were tried."""
        with self._lock:
            order = self._all[self._first:] + self._all[:self._first]
            for url in ([self._leader] if self._leader else []) + order:
                if url not in tried:
                    return self._nodes[url]
        return None

    def answered(self, node: _Node, hint: str) -> None:
        """Takes the leader from an answer. A hint that would send the API key over an open connection, where all endpoints are
        https, is not followed."""
        _, _, url = hint.partition(" ")
        with self._lock:
            try:
                leader = _parse_node(url)
            except ValueError:
                leader = ""
            if leader and (not self._https or leader.startswith("https:")) and self._known(leader):
                self._leader = leader
            elif node.url in self._all:
                self._first = self._all.index(node.url)

    def _known(self, url: str) -> bool:
        if url not in self._nodes and len(self._nodes) < len(self._all) + self._hints_max:
            self._nodes[url] = _Node(url, self._context)
        return url in self._nodes

    def failed(self, node: _Node) -> None:
        """Forgets a leader that does not answer, or does not lead."""
        with self._lock:
            if self._leader == node.url:
                self._leader = ""
            if self._all[self._first] == node.url:
                self._first = (self._first + 1) % len(self._all)

    def close(self) -> None:
        with self._lock:
            nodes = list(self._nodes.values())
        for node in nodes:
            node.close()


class _Route:
    """One operation's way through the nodes: rounds in which each is asked once, the leader first."""

    def __init__(self, nodes: _Nodes):
        self._nodes, self._tried = nodes, []  # type: _Nodes, List[str]

    def next(self) -> _Node:
        node = self._nodes.pick(self._tried)
        if node is None:
            self._tried = []
            node = self._nodes.pick(self._tried)
        self._tried.append(node.url)
        return node


class _Sender:
    """Sends requests, each to one node and within a time. Redirects are not followed: the API key goes to nodes alone."""

    def __init__(self, endpoints: Sequence[str], api_key: str, watch: Watch, context: Optional[ssl.SSLContext]):
        self.api_key, self._watch = api_key, watch
        self._made, self._lock = context, threading.Lock()
        self.nodes = _Nodes(endpoints, self._context)

    def _context(self) -> ssl.SSLContext:
        with self._lock:
            if self._made is None:
                self._made = ssl.create_default_context()
            return self._made

    def send(self, node: _Node, method: str, path: str, body: Optional[Callable[[], bytes]], limit: float,
             ended: Optional[Callable[[], bool]] = None) -> _Answer:
        """The answer of one node. body is made when the connection stands. Raises _NoAnswer, or _Interrupted if ended says so."""
        try:
            sent, status, headers, raw = self._exchange(node, method, path, body, limit, ended)
        except (OSError, http.client.HTTPException, ValueError) as e:
            self.nodes.failed(node)
            raise _NoAnswer(f"{node.url}: {e or type(e).__name__}") from e
        return self._read(node, sent, status, headers, raw)

    def _exchange(self, node, method, path, body, limit, ended):
        until = time.monotonic() + limit
        connection, sock = node.connect(limit)
        reusable = False
        try:
            connection.sock = _Exchange(sock, until, ended)
            data = None if body is None else body()
            headers = {"Authorization": "Bearer " + self.api_key, "Accept": "application/json"}
            if data is not None:
                headers["Content-Type"] = "application/json"
            sent = self._watch.now()
            connection.request(method, node.prefix + path, data, headers)
            response = connection.getresponse()
            raw = _read_all(response)
            reusable = response.isclosed() and not response.will_close
            return sent, response.status, response.headers, raw
        finally:
            if reusable:
                node.keep(connection, sock)
            else:
                sock.close()

    def _read(self, node: _Node, sent: int, status: int, headers: Any, raw: bytes) -> _Answer:
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        success = 200 <= status < 300
        if not isinstance(body, dict) or not (success or isinstance(body.get("code"), str)):
            self.nodes.failed(node)
            raise _NoAnswer(f"{node.url} answers {status}, which is no answer of this API: is the address right?")
        problem = None if success else Problem(body, status)
        answer = _Answer(sent, body if success else {}, problem, 0 if success else _retry_after(headers))
        self.nodes.answered(node, headers.get("Stanchion-Leader", ""))
        if answer.undecided:
            self.nodes.failed(node)
        return answer


def _read_all(response: http.client.HTTPResponse) -> bytes:
    raw = bytearray()
    while True:
        part = response.read(1 << 16)
        if not part:
            return bytes(raw)
        raw += part
        if len(raw) > _ANSWER_BYTES_MAX:
            raise ValueError("the answer is too long")


def _retry_after(headers: Any) -> float:
    text = headers.get("Retry-After", "")
    return min(int(text), _RETRY_AFTER_MAX) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _encode(document: Dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


# ---- leases ----

class Claim(NamedTuple):
    """What a grant guarantees: a stable id, and the sentence."""

    id: str
    text: str


class Lease:
    """A hold on a key, kept by the client's heartbeats until it is released or lost; once over it stays over.

    token is the fencing token, for the resource; epoch, claim, posture_version and protected say how it was granted. id is a
    secret of the client: with it anybody who has the API key can release the lease. As a context manager it releases at the end
    of the block, and raises Lost if the hold was over before that, unless the block raised something itself.
    """

    def __init__(self, session: "_Session", number: int, grant: Dict[str, Any], deadline: int):
        client = session.client
        self.class_name, self.key, self.id = grant["class"], grant["key"], session.lease_id(number)
        self.token: int = grant["token"]
        self.epoch: int = grant.get("epoch", 0)
        claim = grant["claim"]
        self.claim = Claim(claim.get("id", ""), claim.get("text", ""))
        self.posture_version: int = grant.get("posture_version", 0)
        self.protected: bool = grant["protected"]
        self._client, self._session, self._number = client, session, number
        self._lock = client._lock  # guards what follows
        self._deadline = deadline  # on the watch
        self._due = self._every = self._renewed = 0  # the keeper's: when to name it, how often, when last kept
        self._loss: Optional[Callable[[], Lost]] = None  # None: held
        self._last: Optional[BaseException] = None  # why the last heartbeat failed
        self._on_doubt: List[Callable[[BaseException], None]] = []
        self._on_lost: List[Callable[[Lost], None]] = []
        self._doubts: "collections.deque" = collections.deque()  # callbacks that wait to be called
        self._telling = False
        self._stopping: Optional[threading.Thread] = None  # calls the callbacks of on_lost
        self._stopped = threading.Event()  # they have returned
        self._giving = False  # the release has begun
        self._given = threading.Event()  # it is over
        self._give_error: Optional[BaseException] = None

    def __repr__(self) -> str:
        return f"<Lease {self.class_name} {self.key!r} token {self.token}>"

    # -- looking --

    def check(self) -> None:
        """Raises Lost unless the lease is held, as the clocks are now. Ask before each use."""
        loss = self._look()
        if loss is not None:
            raise loss()

    @property
    def held(self) -> bool:
        """Whether the lease is held, as the clocks are now."""
        return self._look() is None

    def remaining(self) -> float:
        """For how many seconds the lease may be relied on without another heartbeat; 0 when it is lost."""
        if self._look() is not None:
            return 0.0
        return max(self._deadline - self._client._watch.now(), 0) / _SECOND

    def _look(self) -> Optional[Callable[[], Lost]]:
        self._client._same_process(self.class_name, self.key)
        if self._client._watch.now() >= self._deadline:
            self._lose(DeadlinePassed)
        return self._loss

    # -- telling --

    def on_doubt(self, f: Callable[[BaseException], None]) -> None:
        """Has f called with the cause when heartbeats begin to fail, once for each time of doubt. The lease is good until its
        deadline, and may not be renewed any more."""
        with self._lock:
            self._on_doubt.append(f)
            if self._last is not None and self._loss is None:
                self._tell(self._last, [f])

    def on_lost(self, f: Callable[[Lost], None]) -> None:
        """Has f called once, when the hold is over for whatever reason, release and close included: the place to stop the work
        and to wait for its end. A release leaves only after f has returned, so f must not release. After the end f is called
        at once."""
        with self._lock:
            loss = self._loss
            if loss is None:
                self._on_lost.append(f)
        if loss is not None:
            f(loss())

    def _lose(self, cause: type, detail: str = "") -> None:
        """Ends the hold, unless it is over."""
        with self._lock:
            if self._loss is not None:
                return
            last = self._last if cause is DeadlinePassed else None
            self._loss = lambda: cause(self.class_name, self.key, self.token, detail, last)
            self._doubts.clear()
            callbacks = list(self._on_lost)
            self._session.drop(self)
        if cause is not Released:
            _log.warning("lease lost: %s", self._loss())
        if not callbacks:
            self._stopped.set()
            return
        self._stopping = threading.Thread(target=self._stop, args=(callbacks,), name="stanchion-lost", daemon=True)
        if not self._client._begin(self._stopping):
            self._stop(callbacks)  # there is nobody else to do it

    def _stop(self, callbacks: List[Callable[[Lost], None]]) -> None:
        try:
            for f in callbacks:
                _call(f, self._loss())
        finally:
            self._stopped.set()

    def _doubt(self, cause: BaseException) -> None:
        """A heartbeat that named the lease failed; with the lock held."""
        began, self._last = self._last is None, cause
        if began and self._loss is None:
            _log.warning("lease in doubt: %s %r (token %d): %s", self.class_name, self.key, self.token, cause)
            self._tell(cause, self._on_doubt)

    def _tell(self, cause: BaseException, callbacks: List[Callable[[BaseException], None]]) -> None:
        """Has callbacks called in a thread of their own, after those before; with the lock held."""
        self._doubts.extend((f, cause) for f in callbacks)
        if self._doubts and not self._telling:
            self._telling = self._client._begin(
                threading.Thread(target=self._call_doubts, name="stanchion-doubt", daemon=True))

    def _call_doubts(self) -> None:
        while True:
            with self._lock:
                if not self._doubts:
                    self._telling = False
                    return
                f, cause = self._doubts.popleft()
            _call(f, cause)

    # -- giving back --

    def release(self, timeout: Optional[float] = None) -> None:
        """Gives the lease back. The hold ends first, then callbacks of on_lost are waited for, and then the release leaves,
        again and again until a node has answered or the lease's deadline has passed, after which it ends by itself.

        Raises Lost if the hold was over before: the work may have gone on without the lock. The platform is told all the same.
        Raises Unavailable if no node answered until the deadline, or within timeout seconds, after which it goes on in the
        background; Problem if the platform refused. Repeating it is harmless.
        """
        self._look()
        self._lose(Released)
        if threading.current_thread() is self._stopping:
            raise RuntimeError("a callback of on_lost must not release: the release waits for it")
        if self._first_release():
            worker = threading.Thread(target=self._give_back, name="stanchion-release", daemon=True)
            if not self._client._begin(worker):
                self._give_back()
        answered = self._given.wait(timeout)
        self._raise(self._give_error if answered else _NoAnswer("no answer yet; it goes on"))

    def _raise(self, error: Optional[BaseException]) -> None:
        """Says how a release went. A hold that was lost before is told as that."""
        loss = self._loss()
        if not isinstance(loss, Released):
            raise loss
        if isinstance(error, Problem):
            raise error
        if error is not None:
            raise _NotReleased(self.class_name, self.key, error)

    def _first_release(self) -> bool:
        with self._lock:
            first, self._giving = not self._giving, True
            return first

    def _give_back(self) -> None:
        try:
            self._give_error = self._send_release()
        except BaseException as e:  # whoever waits must hear of it
            self._give_error = e
        finally:
            self._given.set()
        if self._give_error is not None:
            _log.warning("lease not released: %s %r: %s", self.class_name, self.key, self._give_error)

    def _send_release(self) -> Optional[BaseException]:
        left = self._release_time()
        if not self._stopped.wait(left()):
            return _NoAnswer("callbacks of on_lost are running still")
        answer = self._client._decide("DELETE", f"/v1/leases/{self.id}?token={self.token}", left)
        if answer.problem is not None and answer.problem.code not in _OVER:
            return answer.problem
        return None

    def _release_time(self) -> Callable[[], float]:
        """How many seconds are left to release: until the deadline. For what is lost already, a few more."""
        watch, until = self._client._watch, self._deadline
        if not isinstance(self._loss(), Released):
            now = watch.now()
            until = now + min(max(until - now, 2 * _SECOND), _GIVE_UP_TIME)
        return lambda: max(until - watch.now(), 0) / _SECOND

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self.release(_AFTER_WORK_TIME)
        except Lost:
            if error is None:
                raise
        except (Unavailable, Problem):
            pass  # logged; the work is done


class _NotReleased(Unavailable):
    def __init__(self, class_name: str, key: str, cause: BaseException):
        super().__init__(class_name, key, cause)
        self.args = (f"release {class_name} {key!r}: {cause}",)


_GIVE_UP_TIME = 10 * _SECOND  # for what is withdrawn, and for what is lost already
_AFTER_WORK_TIME = 10.0  # to wait for the answer to a release at the end of a block


def _call(f: Callable[[Any], None], argument: Any) -> None:
    """Calls the program's code: what it raises must not stop ours."""
    try:
        f(argument)
    except Exception:
        _log.exception("a callback failed")


# ---- the session and its heartbeats ----

_ALARM_TIME = _SECOND  # how often deadlines are looked at, whatever timers believe: the machine may have slept
_BEATS_MAX = 3  # heartbeats under way at a time: one that hangs must not hold up the next
_NAMES_MAX = 10_000  # leases in one
_BEAT_TIME_MIN, _BEAT_TIME_MAX = _SECOND // 2, 5 * _SECOND
_HEDGE_MIN, _HEDGE_MAX = 100 * _MILLI, 2 * _SECOND
_SESSION_IDLE_TIME = 4 * 60 * _SECOND  # the platform keeps a silent session for ten minutes, and asks for a new one after five


class _Beat(NamedTuple):
    """One heartbeat."""

    node: _Node
    limit: float  # seconds
    named: Tuple[Lease, ...]
    began: int  # on the watch
    failures: int  # in a row, this one included


class _Session:
    """One session of the client: the leases that it has, and their heartbeat. All is guarded by the client's lock."""

    def __init__(self, client: "Client"):
        self.client, self.id = client, secrets.token_hex(16)
        self.leases: Dict[int, Lease] = {}
        self.last = 0  # the last number given out
        self.asking = 0  # requests that are not over
        self.used = client._watch.now()
        self.over = False  # nothing new is asked with it
        self.closing = False  # nothing new is kept
        self._keeping = False
        self._wake = threading.Condition(client._lock)  # something is due that was not
        self._work = threading.Condition(client._lock)  # there is a heartbeat to send, or there will be none
        self._beats: "collections.deque" = collections.deque()
        self._in_flight = self._idle = self._failures = 0
        self._route = _Route(client._sender.nodes)

    def lease_id(self, number: int) -> str:
        return f"{self.id}.{number}"

    def number(self, now: int) -> int:
        """Gives out the next number; 0: the session is not to be used any more. With the lock held."""
        idle = not self.asking and not self.leases
        if self.over or (idle and now - self.used > _SESSION_IDLE_TIME):
            return 0
        self.last += 1
        self.asking += 1
        self.used = now
        return self.last

    def asked(self) -> None:
        """A request is over."""
        now = self.client._watch.now()
        with self.client._lock:
            self.asking -= 1
            self.used = now

    def retire(self, detail: str) -> None:
        """Has the next request begin a new session: the platform knows neither this one any more nor what it held."""
        with self.client._lock:
            self.over = True
        for lease in self.held():
            lease._lose(Expired, detail)

    def held(self) -> List[Lease]:
        with self.client._lock:
            return list(self.leases.values())

    def hold(self, lease: Lease, sent: int, every: int, take_up: bool) -> bool:
        """Begins to keep a lease; False: the client is being closed. take_up: a heartbeat is due at once."""
        with self.client._lock:
            if self.closing:
                return False
            lease._every, lease._renewed = every, sent
            lease._due = sent if take_up else sent + every
            self.leases[lease._number] = lease
            if self._keeping:
                self._wake.notify_all()
                return True
            self._keeping = self.client._begin(threading.Thread(target=self._keep, name="stanchion-keeper", daemon=True))
            if not self._keeping:
                del self.leases[lease._number]
            return self._keeping

    def drop(self, lease: Lease) -> None:
        """Ends the keeping of a lease. With the lock held: no heartbeat that is made from now on names it."""
        if self.leases.get(lease._number) is lease:
            del self.leases[lease._number]
        self.used = self.client._watch.now()
        if not self.leases:
            self._wake.notify_all()

    def _keep(self) -> None:
        """Sends heartbeats when they are due and ends holds whose deadline has passed, as long as there are any."""
        while True:
            for lease in self.held():
                lease._look()
            now = self.client._watch.now()
            with self.client._lock:
                if not self.leases:
                    self._keeping = False
                    self._work.notify_all()
                    return
                if self._in_flight < _BEATS_MAX and any(lease._due <= now for lease in self.leases.values()):
                    self._send(now)
                self._wake.wait(self._next(now) / _SECOND)

    def _next(self, now: int) -> int:
        """In how long something is to be looked at; with the lock held."""
        moments = [now + _ALARM_TIME]
        for lease in self.leases.values():
            moments.append(lease._deadline)
            if self._in_flight < _BEATS_MAX:  # otherwise the end of one of them wakes
                moments.append(lease._due)
        return max(min(moments) - now, _MILLI)

    def _send(self, now: int) -> None:
        """Sends one heartbeat for all leases that are due, and those past half of their time: they are due together from then
        on. Others are not named, since each renewal of a long lease is an entry in the log. With the lock held."""
        named = [x for x in self.leases.values() if x._due - now <= x._every // 2][:_NAMES_MAX]
        limit = _BEAT_TIME_MAX
        for lease in named:
            if self._failures and lease._due <= now and lease._last is None:
                lease._doubt(_NoAnswer("a heartbeat has not been answered yet"))
            lease._due = now + min(max(lease._every // 2, _HEDGE_MIN), _HEDGE_MAX)
            limit = min(limit, max(lease._every, _BEAT_TIME_MIN))
        self._failures += 1  # until one is answered
        self._in_flight += 1
        self.used = now
        self._beats.append(_Beat(self._route.next(), limit / _SECOND, tuple(named), now, self._failures))
        if len(self._beats) <= self._idle:
            self._work.notify()
        elif not self.client._begin(threading.Thread(target=self._send_beats, name="stanchion-heartbeat", daemon=True)):
            self._beats.pop()
            self._in_flight -= 1

    def _send_beats(self) -> None:
        """One of the senders, of which there are as many as there were heartbeats under way at a time."""
        while True:
            with self.client._lock:
                self._idle += 1
                while not self._beats and self._keeping:
                    self._work.wait()
                self._idle -= 1
                if not self._beats:
                    return
                beat = self._beats.popleft()
            try:
                self._beat(beat)
            finally:
                with self.client._lock:
                    self._in_flight -= 1
                    self._wake.notify_all()

    def _beat(self, beat: _Beat) -> None:
        try:
            answer = self.client._sender.send(beat.node, "POST", f"/v1/sessions/{self.id}/heartbeat",
                                              lambda: self._names(beat), beat.limit)
            if answer.problem is not None:
                return self._missed(beat, answer.problem, answer.after)
            self._kept(answer.sent, *self._sense(answer.body))
        except _AllReleased:
            pass
        except (Error, ValueError) as e:
            self._missed(beat, e, 0)

    def _names(self, beat: _Beat) -> bytes:
        """Names what is held still, at the last moment."""
        with self.client._lock:
            numbers = sorted(x._number for x in beat.named if self.leases.get(x._number) is x)
        if not numbers:
            raise _AllReleased
        return _encode({"leases": numbers})

    def _sense(self, body: Dict[str, Any]) -> Tuple[List[Tuple[int, int, int]], List[Dict[str, Any]]]:
        """Reads an answer as a whole before any of it counts."""
        held, lost = body.get("held"), body.get("lost")
        if not isinstance(held, list) or not isinstance(lost, list) or not all(isinstance(x, dict) for x in held + lost):
            raise ValueError("an answer to a heartbeat without sense")
        return [(self._number_of(h), _parse_duration(h.get("use_within")), _parse_duration(h.get("contact_within")))
                for h in held], lost

    def _number_of(self, entry: Dict[str, Any]) -> int:
        session, _, number = str(entry.get("lease_id", "")).partition(".")
        return int(number) if session == self.id and number.isascii() and number.isdigit() else 0

    def _kept(self, sent: int, held: List[Tuple[int, int, int]], lost: List[Dict[str, Any]]) -> None:
        """Applies an answer. It says what it says of the leases in it; absence means nothing."""
        with self.client._lock:
            self._failures, self._route = 0, _Route(self.client._sender.nodes)
        for number, use_within, contact_within in held:
            self._renew(number, sent, use_within, contact_within)
        for gone in lost:
            with self.client._lock:
                lease = self.leases.get(self._number_of(gone))
            if lease is not None:
                reason, code = str(gone.get("reason") or ""), str(gone.get("code") or "")
                revoked = code == "revoked" or gone.get("ending") is True or reason in _REVOCATIONS
                lease._lose(Revoked if revoked else Expired, reason or code)

    def _renew(self, number: int, sent: int, use_within: int, contact_within: int) -> None:
        with self.client._lock:
            lease = self.leases.get(number)
        if lease is None or lease._look() is not None:
            return  # a deadline that has passed is not extended
        with self.client._lock:
            if lease._loss is not None or self.client._watch.now() >= lease._deadline:
                return
            lease._deadline = max(lease._deadline, sent + use_within)
            lease._last = None
            if sent >= lease._renewed:
                lease._every, lease._renewed = max(contact_within, _HEDGE_MIN), sent
                lease._due = sent + lease._every

    def _missed(self, beat: _Beat, cause: BaseException, after: float) -> None:
        """Has the leases named again soon, and puts them in doubt, unless another heartbeat kept them meanwhile."""
        now = self.client._watch.now()
        with self.client._lock:
            for lease in beat.named:
                if self.leases.get(lease._number) is not lease or lease._renewed > beat.began:
                    continue
                every = lease._every / _SECOND
                pause = _backoff(beat.failures, max(min(every / 4, _BACKOFF_MAX), _BACKOFF_MIN))
                lease._due = now + int(max(pause, min(after, every / 2)) * _SECOND)
                lease._doubt(cause)


class _AllReleased(Exception):
    """There was nothing left to keep when the heartbeat was about to leave."""


# ---- asking ----

_SHORT_TIME, _SHORT_MAX = 2.0, 10.0  # seconds, for the first attempt of a request that does not hang, and for any
_POLL_MAX, _POLL_SLACK = 10.0, 1.5
_PATIENCE_MIN = 30.0  # how long nodes may decide nothing; or as long as the request would wait
_RENEWALS_MAX = 3


class _Bound:
    """What ends an asking: the caller's timeout or event, or the client's close."""

    def __init__(self, client: "Client", timeout: Optional[float], cancel: Optional[threading.Event]):
        self._client, self._cancel = client, cancel
        self._until = None if timeout is None else client._watch.now() + int(timeout * _SECOND)

    def reason(self) -> Optional[type]:
        if self._client._closing.is_set():
            return Closed
        if self._cancel is not None and self._cancel.is_set():
            return Cancelled
        if self._until is not None and self._client._watch.now() >= self._until:
            return Cancelled
        return None

    def ended(self) -> bool:
        return self.reason() is not None

    def pause(self, seconds: float) -> None:
        """Waits, or raises _Interrupted."""
        until = time.monotonic() + seconds
        while True:
            if self.ended():
                raise _Interrupted
            left = until - time.monotonic()
            if left <= 0:
                return
            (self._cancel or self._client._closing).wait(min(left, _SLICE_TIME))


class _Asking:
    """One call of acquire: a request for a lease and all its repetitions."""

    def __init__(self, client: "Client", class_name: str, key: str, wait: Optional[float], holder: str,
                 on_queued: Optional[Callable[[int], None]], bound: _Bound):
        self.client, self.class_name, self.key = client, class_name, key
        self.wait, self.holder, self.on_queued, self.bound = wait, holder, on_queued, bound
        self.watch, self.began, self.renewed = client._watch, client._watch.now(), 0
        self._begin()

    def _begin(self) -> None:
        """Takes a new id."""
        self.session, self.number = self.client._current(self.class_name, self.key)
        self.over = True  # nothing is under way at the platform
        self.sent_before = self.repeated = False
        self.position, self.contact, self.failures = 0, 0.0, 0
        self.heard, self.last, self.route = self.watch.now(), None, _Route(self.client._sender.nodes)
        self.body: Dict[str, Any] = {"class": self.class_name, "key": self.key}
        if self.wait is not None:
            self.body["wait"] = _duration(self._left() if self.renewed else self.wait)
        if self.holder:
            self.body["holder"] = self.holder

    def _left(self) -> float:
        if self.wait in (0, UNLIMITED):
            return self.wait
        return max(self.wait - (self.watch.now() - self.began) / _SECOND, 0)

    def run(self) -> Lease:
        """Repeats the request until it is decided. Whatever ends it otherwise withdraws it, in the background."""
        try:
            while True:
                lease = self._step()
                if lease is not None:
                    return lease
        except _Interrupted:
            self._withdraw()
            raise (self.bound.reason() or Cancelled)(self.class_name, self.key, self.last) from None
        except BaseException:
            self._withdraw()
            raise
        finally:
            self.session.asked()

    def _withdraw(self) -> None:
        if not self.over:
            self.over = True
            self.client._give_up(f"/v1/leases/{self.session.lease_id(self.number)}")

    def _step(self) -> Optional[Lease]:
        if self.bound.ended():
            raise _Interrupted
        try:
            answer = self._attempt()
            if answer.problem is None:
                return self._success(answer)
        except _NoAnswer as e:
            return self._again(e, 0)
        return self._failure(answer.problem, answer.after)

    def _attempt(self) -> _Answer:
        """Sends the request to the next node. The first one does not hang: its answer says where it stands."""
        poll, limit = 0.0, min(_SHORT_TIME * (1 + self.failures), _SHORT_MAX)
        if self.position > 0 and self.failures == 0:
            poll = min(self.contact, _POLL_MAX)
            limit = poll + _POLL_SLACK
        self.body["poll"] = _duration(poll)
        body = _encode(self.body)
        self.over, self.repeated, self.sent_before = False, self.sent_before, True
        return self.client._sender.send(self.route.next(), "PUT", f"/v1/leases/{self.session.lease_id(self.number)}",
                                        lambda: body, limit, self.bound.ended)

    def _success(self, answer: _Answer) -> Optional[Lease]:
        body = answer.body
        try:
            if body.get("lease_id") != self.session.lease_id(self.number):
                raise ValueError("it is about something else")
            if body.get("state") == "queued":
                return self._queued(int(body["position"]), _parse_duration(body.get("contact_within")) / _SECOND)
            if body.get("state") != "granted":
                raise ValueError("it has no state that is known")
            use_within, every = _parse_duration(body.get("use_within")), _parse_duration(body.get("contact_within"))
            grant = dict(body, **{"class": self.class_name, "key": self.key, "token": int(body["token"]),
                                  "protected": body.get("protected") is True, "claim": dict(body.get("claim") or {})})
        except (KeyError, TypeError, ValueError) as e:
            raise _NoAnswer(f"an answer without sense: {e}") from e
        return self._granted(answer.sent, grant, use_within, max(every, _HEDGE_MIN))

    def _queued(self, position: int, contact: float) -> None:
        self.failures, self.last, self.heard = 0, None, self.watch.now()
        self.route = _Route(self.client._sender.nodes)
        self.contact = max(contact, _BACKOFF_MIN)
        moved, self.position = position != self.position, max(position, 1)
        if moved and self.on_queued is not None:
            self.on_queued(position)

    def _granted(self, sent: int, grant: Dict[str, Any], use_within: int, every: int) -> Lease:
        """Makes the handle of a grant, if it is one by the client's own clocks."""
        if not grant["protected"]:
            raise NotObtained(self.class_name, self.key, Error("an unprotected lease that was not asked for"))
        lease = Lease(self.session, self.number, grant, sent + use_within)
        if self.watch.now() >= lease._deadline:
            raise DeadlinePassed(self.class_name, self.key, lease.token, "the grant came after its local deadline")
        if not self.session.hold(lease, sent, every, self.repeated):
            raise Closed(self.class_name, self.key)
        self.over = True  # the lease is the caller's
        return lease

    def _failure(self, problem: Problem, after: float) -> None:
        if self._overtaken(problem):
            return self._anew(problem)
        if problem.retry == "same_id" or problem.code in _WAITS:
            return self._again(problem, after)
        if problem.code not in ("revoked", "ended"):
            self.over = True  # refused: there is nothing to withdraw
        named = _REASONS.get(problem.code)
        raise problem if named is None else named(self.class_name, self.key, problem)

    def _overtaken(self, problem: Problem) -> bool:
        """Reports whether the id was used up without this request's doing: by an outage in which the platform forgot the session,
        or took the waiter for dead. Then the request goes on under a new one."""
        if problem.code in ("session_ended", "not_found"):
            self.session.retire(problem.code)
            return True
        return problem.code == "too_old" or (problem.code == "ended" and problem.reason in _LAPSES)

    def _anew(self, problem: Problem) -> None:
        self.over = True
        self.renewed += 1
        if self.renewed > _RENEWALS_MAX:
            raise problem
        if self.wait not in (None, 0, UNLIMITED) and self._left() == 0:
            raise WaitTimeout(self.class_name, self.key, problem)
        old = self.session
        self._begin()  # raises Closed with the old session in place
        old.asked()

    def _again(self, cause: BaseException, after: float) -> None:
        """Pauses before the next repetition, unless nobody has decided for too long."""
        self.failures += 1
        self.last = cause
        if (self.watch.now() - self.heard) / _SECOND > self._patience():
            raise Unavailable(self.class_name, self.key, cause)
        most = _BACKOFF_MAX
        if self.position > 0:
            most = min(most, max(self.contact / 2, _BACKOFF_MIN))
        self.bound.pause(after + _backoff(self.failures, most))

    def _patience(self) -> float:
        return _PATIENCE_MIN if self.wait is None else max(_PATIENCE_MIN, self.wait)


# ---- the client ----

class Leadership(NamedTuple):
    """Who holds a key. Times are the platform's, in RFC 3339; "" where there is none."""

    token: int  # fencing token of the hold; 0: nobody leads
    holder: str
    api_key: str  # its name
    since: str
    last_heartbeat: str
    waiters: int  # candidates in line


_LOOK_TIME = 10 * _SECOND
_CAMPAIGN_PAUSE_MIN, _CAMPAIGN_PAUSE_MAX = 1.0, 15.0
_CLOSERS_MAX = 32  # leases that close releases at a time


class Client:
    """Holds leases for one process, with one session and one heartbeat however many leases. Use it from any thread; close it.

    endpoints are 1 to 16 addresses such as https://host:port, api_key one with a scope such as locks:ledger-*. holder is the label
    by which people see this client, at most 128 bytes, by default the machine's name and the process id. clock has a read() that
    returns a Reading, for tests. context says how to speak TLS; the default trusts the system's authorities.
    Making one starts nothing and sends nothing.
    """

    def __init__(self, endpoints: Sequence[str], api_key: str, holder: Optional[str] = None, clock: Any = None,
                 context: Optional[ssl.SSLContext] = None):
        if not api_key:
            raise ValueError("a client needs an API key")
        self._holder = _default_holder() if holder is None else _checked_holder(holder)
        self._watch = Watch(clock if clock is not None else SystemClock())
        self._sender = _Sender(endpoints, api_key, self._watch, context)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._session: Optional[_Session] = None  # guarded by _lock
        self._threads: set = set()  # guarded by _lock; those that run
        self._closing = threading.Event()  # nothing new is asked
        self._ended = False  # guarded by _lock; nothing new is begun
        self._closed = threading.Event()
        self._close_lock = threading.Lock()

    def set_api_key(self, api_key: str) -> None:
        """Replaces the API key for all requests from now on, after a rotation."""
        self._sender.api_key = api_key

    # -- asking --

    def acquire(self, class_name: str, key: str, wait: Optional[float] = None, holder: Optional[str] = None,
                on_queued: Optional[Callable[[int], None]] = None, timeout: Optional[float] = None,
                cancel: Optional[threading.Event] = None) -> Lease:
        """Asks for a lease, and queues for it for wait seconds: None is as long as the class allows, 0 tries once, UNLIMITED is
        without end where the class allows that. on_queued is called with the place in line, from 1, when it changes.

        timeout, in seconds, and the event cancel bound the asking, not the lease: then the request is withdrawn, and Cancelled
        raised. Raises a NotObtained (Held, WaitTimeout, QueueFull, AlreadyHeld, NotInForce, Unavailable, Cancelled, Closed),
        DeadlinePassed if the grant came too late to be one, or Problem. A request is repeated, under the same id and at every
        node, until one decides; without a decision for 30 s, or for as long as it waits if that is longer, it is Unavailable.
        """
        self._same_process(class_name, key)
        if wait is not None and not wait >= 0:
            raise ValueError(f"wait is {wait}; it must not be negative")
        label = self._holder if holder is None else _checked_holder(holder)
        return _Asking(self, class_name, key, wait, label, on_queued, _Bound(self, timeout, cancel)).run()

    def try_acquire(self, class_name: str, key: str, **options: Any) -> Lease:
        """Acquires without waiting: Held if somebody else holds the key. Options are those of acquire."""
        return self.acquire(class_name, key, wait=0, **options)

    def do(self, class_name: str, key: str, work: Callable[[Lease], Any], **options: Any) -> Any:
        """Acquires a lease, calls work with it, releases it, and returns what work returned. work must ask lease.check() before
        each use, and give lease.token to the resource before it reads what it is going to change. Raises Lost if the hold was
        over before work had returned: it may not have been alone. Options are those of acquire."""
        with self.acquire(class_name, key, **options) as lease:
            return work(lease)

    def campaign(self, class_name: str, key: str, lead: Callable[[Lease], Any], cancel: Optional[threading.Event] = None,
                 **options: Any) -> Any:
        """Takes part in an election: queues until it leads, calls lead, and campaigns again if the leadership was lost. When
        lead returns or raises while it leads still, it resigns and so does campaign. What time mends is waited out; Problem and
        AlreadyHeld, Closed and Cancelled are raised. lead must have stopped what it does as the leader before it returns."""
        refused = 0
        while True:
            try:
                lease = self.acquire(class_name, key, cancel=cancel, **options)
            except WaitTimeout:
                continue
            except (NotObtained, DeadlinePassed, Problem) as e:
                if not _mends(e):
                    raise
                refused += 1
                self._campaign_pause(refused, class_name, key, cancel)
                continue
            refused = 0
            try:
                with lease:
                    return lead(lease)
            except Exception as e:
                if isinstance(lease._loss(), Released):
                    raise  # it led until then
                _log.warning("leadership lost: %s", e)

    def _campaign_pause(self, refused: int, class_name: str, key: str, cancel: Optional[threading.Event]) -> None:
        longest = min(_CAMPAIGN_PAUSE_MIN * 2 ** min(refused - 1, 10), _CAMPAIGN_PAUSE_MAX)
        bound = _Bound(self, None, cancel)
        try:
            bound.pause(random.uniform(longest / 2, longest))
        except _Interrupted:
            raise bound.reason()(class_name, key) from None

    def leader(self, class_name: str, key: str) -> Leadership:
        """Looks who holds a key. It was true when it was asked; only the resource's check knows who may still act."""
        self._same_process(class_name, key)
        until = self._watch.now() + _LOOK_TIME
        try:
            answer = self._decide("GET", f"/v1/locks?class={quote(class_name, '')}&key={quote(key, '')}",
                                  lambda: (until - self._watch.now()) / _SECOND)
        except _NoAnswer as e:
            raise Unavailable(class_name, key, e) from e
        if answer.problem is not None:
            raise answer.problem
        locks = answer.body.get("locks") or [{}]
        held = locks[0].get("holder") or {}
        return Leadership(held.get("token", 0), held.get("holder", ""), held.get("api_key", ""), held.get("since", ""),
                          held.get("last_heartbeat", ""), locks[0].get("waiters_total", 0))

    # -- the end --

    def close(self, timeout: float = 30.0) -> None:
        """Ends every wait, releases every lease, each by itself, and ends the session. Callbacks of on_lost have returned before
        the release of their lease leaves. Raises CloseFailed naming what was not released, which ends by itself when its lease
        has run out. timeout, in seconds, bounds it all. A second call waits for the first one."""
        with self._close_lock:
            if self._closed.is_set():
                return
            self._closing.set()
            until = time.monotonic() + timeout
            failed = self._release_all(until)
            failed += [] if failed else self._end_session(until)
            with self._lock:
                self._ended = True
            self._wait_for_threads(until)
            self._sender.nodes.close()
            self._closed.set()
            if failed:
                raise CloseFailed(failed)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()

    def _release_all(self, until: float) -> List[BaseException]:
        with self._lock:
            session = self._session
            if session is None:
                return []
            session.closing = True
        waiting, failed = session.held(), []
        workers = [threading.Thread(target=_release_each, args=(waiting, until, failed), daemon=True)
                   for _ in range(min(len(waiting), _CLOSERS_MAX))]
        for worker in workers:
            if not self._begin(worker):
                _release_each(waiting, until, failed)
        for worker in workers:
            worker.join(max(until - time.monotonic(), 0) + _SLICE_TIME)
        return failed

    def _end_session(self, until: float) -> List[BaseException]:
        with self._lock:
            session = self._session
            if session is None or session.over:
                return []
            session.over = True
        until = min(until, time.monotonic() + _GIVE_UP_TIME / _SECOND)
        try:
            answer = self._decide("DELETE", f"/v1/sessions/{session.id}", lambda: until - time.monotonic())
        except _NoAnswer as e:
            return [Error(f"end the session: {e}")]
        if answer.problem is None or answer.problem.code in ("not_found", "session_ended"):
            return []
        return [answer.problem]

    def _wait_for_threads(self, until: float) -> None:
        with self._lock:
            threads = [t for t in self._threads if t is not threading.current_thread()]
        for thread in threads:
            thread.join(max(until - time.monotonic(), 0))

    # -- what the rest stands on --

    def _same_process(self, class_name: str, key: str) -> None:
        if os.getpid() != self._pid:
            raise Closed(class_name, key, Error("the client belongs to another process: make one in each"))

    def _begin(self, thread: threading.Thread) -> bool:
        """Starts a thread of the client; False: there is none, because the client is closed or the system has no more."""
        with self._lock:
            if self._ended:
                return False
            self._threads = {t for t in self._threads if t.is_alive()}
            try:
                thread.start()
            except RuntimeError as e:
                _log.warning("no thread: %s", e)
                return False
            self._threads.add(thread)
            return True

    def _current(self, class_name: str, key: str) -> Tuple[_Session, int]:
        """The session to ask with, and a new number: a new session after a silence in which the platform may have forgotten the
        one before, and after its end."""
        now = self._watch.now()
        with self._lock:
            if self._closing.is_set():
                raise Closed(class_name, key)
            number = self._session.number(now) if self._session is not None else 0
            if not number:
                self._session = _Session(self)
                number = self._session.number(now)
            return self._session, number

    def _give_up(self, path: str) -> None:
        """Withdraws a request that nobody waits for any more: it leaves the line, what it was granted is released, and should it
        be on its way still, it grants nothing. What no node answers ends with its lease, which no heartbeat names."""
        until = self._watch.now() + _GIVE_UP_TIME

        def withdraw() -> None:
            try:
                self._decide("DELETE", path, lambda: (until - self._watch.now()) / _SECOND)
            except Error as e:
                _log.warning("request not withdrawn: %s", e)

        self._begin(threading.Thread(target=withdraw, name="stanchion-withdraw", daemon=True))

    def _decide(self, method: str, path: str, left: Callable[[], float]) -> _Answer:
        """Sends a request that may be repeated to one node after another until one decides. The answer may be a problem. Raises
        _NoAnswer when no seconds are left."""
        route, failures, last = _Route(self._sender.nodes), 0, None  # type: _Route, int, Optional[BaseException]
        while left() > 0:
            after = 0.0
            try:
                limit = min(_SHORT_TIME * (1 + failures), _SHORT_MAX, max(left(), 0.001))
                answer = self._sender.send(route.next(), method, path, None, limit)
                if not answer.undecided and not (answer.problem and answer.problem.code in _WAITS):
                    return answer
                last, after = answer.problem, answer.after
            except _NoAnswer as e:
                last = e
            failures += 1
            time.sleep(max(min(max(after, _backoff(failures)), left()), 0))
        raise _NoAnswer(f"no node decided in time; last: {last}")


def _release_each(waiting: List[Lease], until: float, failed: List[BaseException]) -> None:
    """Releases leases off a list that several threads share."""
    while True:
        try:
            lease = waiting.pop()
        except IndexError:
            return
        try:
            lease.release(max(until - time.monotonic(), 0))
        except Exception as e:
            failed.append(e)


def _mends(error: Exception) -> bool:
    """Reports whether asking again later may be granted."""
    if isinstance(error, (Closed, Cancelled, AlreadyHeld)):
        return False
    problem = error if isinstance(error, Problem) else getattr(error, "problem", None)
    return problem is None or problem.retry != "never"


def _checked_holder(label: str) -> str:
    if len(label.encode()) > 128:
        raise ValueError("a holder's label has at most 128 bytes")
    return label


def _default_holder() -> str:
    process = f":{os.getpid()}"
    return socket.gethostname()[:128 - len(process)] + process
