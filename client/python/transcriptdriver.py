"""Drives stanchion.py for the transcripts: commands come as JSON lines on stdin, what the client reports goes to stdout.

The protocol is in ../testdata/transcripts/README.md.
"""

import json
import sys
import threading

import stanchion

CAUSES = {stanchion.DeadlinePassed: "deadline", stanchion.Revoked: "revoked", stanchion.Expired: "expired",
          stanchion.Released: "released"}
REASONS = {stanchion.Held: "held", stanchion.WaitTimeout: "wait_timeout", stanchion.QueueFull: "queue_full",
           stanchion.AlreadyHeld: "already_held", stanchion.NotInForce: "not_in_force", stanchion.Unavailable: "unavailable",
           stanchion.Cancelled: "cancelled", stanchion.Closed: "closed"}


def seconds(text):
    return None if text is None else stanchion._parse_duration(text) / 1e9


def word(error):
    """The transcripts' name of an error."""
    named = {**CAUSES, **REASONS}.get(type(error))
    problem = error if isinstance(error, stanchion.Problem) else None
    return named or (problem.code if problem else "other")


class Driver:
    def __init__(self, module=stanchion):
        self._module, self._out = module, threading.Lock()
        self._client, self._leases, self._cancels, self._proceeds = None, {}, {}, {}

    def say(self, event, lease=None, **fields):
        line = {"event": event, **({"lease": lease} if lease else {}), **fields}
        with self._out:
            print(json.dumps(line), flush=True)

    def run(self, lines):
        for line in lines:
            command = json.loads(line)
            do = getattr(self, command.pop("do"))
            if do == self.start:
                do(**command)
            else:
                threading.Thread(target=self.guarded, args=(do, command), daemon=True).start()
        if self._client is not None:
            for proceed in self._proceeds.values():
                proceed.set()
            try:
                self._client.close(timeout=10)
            except stanchion.CloseFailed:
                pass

    def guarded(self, do, command):
        try:
            do(**command)
        except Exception as e:
            self.say("broken", error=repr(e))

    def start(self, endpoints, api_key):
        self._client = self._module.Client(endpoints, api_key, holder="driver")

    def acquire(self, lease, key, wait=None, stop_slowly=False, **names):
        cancel = self._cancels[lease] = threading.Event()
        try:
            got = self._client.acquire(names["class"], key, wait=seconds(wait), cancel=cancel,
                                       on_queued=lambda place: self.say("queued", lease, position=place))
        except stanchion.Error as e:
            self.say("refused", lease, reason=word(e))
            return
        self._leases[lease] = got
        got.on_doubt(lambda cause: self.say("doubt", lease))
        got.on_lost(lambda cause: self.lost(lease, cause, stop_slowly))
        self.say("granted", lease, token=got.token, epoch=got.epoch, posture_version=got.posture_version,
                 claim=got.claim.id, protected=got.protected)

    def lost(self, lease, cause, stop_slowly):
        proceed = self._proceeds.setdefault(lease, threading.Event())
        self.say("lost", lease, cause=word(cause))
        if stop_slowly:
            proceed.wait(20)

    def proceed(self, lease):
        self._proceeds.setdefault(lease, threading.Event()).set()

    def cancel(self, lease):
        self._cancels[lease].set()

    def check(self, lease):
        try:
            self._leases[lease].check()
            self.say("checked", lease, held=True)
        except stanchion.Lost as e:
            self.say("checked", lease, held=False, cause=word(e))

    def release(self, lease):
        try:
            self._leases[lease].release()
            self.say("released", lease)
        except stanchion.Error as e:
            self.say("not_released", lease, reason=word(e))

    def close(self):
        try:
            self._client.close()
            self.say("closed")
        except stanchion.CloseFailed:
            self.say("not_closed")


if __name__ == "__main__":
    Driver().run(sys.stdin)
