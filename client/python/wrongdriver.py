"""Clients that break one rule each, for the tests of the transcripts: each must be found.

Without an argument it lists them, each with the transcript that is about its rule. With a name it is that client's driver.
"""

import sys
import threading
import time

import stanchion
import transcriptdriver

WRONG = {}


def wrong(script):
    """Registers a function that makes the client wrong."""
    def register(f):
        WRONG[f.__name__] = (script, f)
        return f
    return register


def around(owner, name):
    """Replaces owner.name by a function that is given the original first."""
    def replace(f):
        original = getattr(owner, name)
        setattr(owner, name, lambda *args, **options: f(original, *args, **options))
        return f
    return replace


@wrong("lost-answer")
def new_id_after_a_lost_answer():
    @around(stanchion._Asking, "_again")
    def again(original, self, cause, after):
        original(self, cause, after)
        self.number = self.session.number(self.watch.now())


@wrong("lost-answer")
def stays_with_one_node():
    stanchion._Nodes.pick = lambda self, tried: self._nodes[self._all[0]]


@wrong("outcome-unknown")
def gives_up_when_the_outcome_is_unknown():
    stanchion._Asking._again = lambda self, cause, after: (_ for _ in ()).throw(
        stanchion.Unavailable(self.class_name, self.key, cause))


@wrong("leader-hint")
def does_not_follow_hints():
    stanchion._Nodes.answered = lambda self, node, hint: None


@wrong("queue-then-grant")
def does_not_take_up_a_grant_from_the_queue():
    @around(stanchion._Session, "hold")
    def hold(original, self, lease, sent, every, take_up):
        return original(self, lease, sent, every, False)


@wrong("held")
def asks_again_with_the_id_that_was_used_up():
    @around(stanchion._Session, "number")
    def number(original, self, now):
        self.last = 0
        return original(self, now)


@wrong("queue-full")
def asks_again_when_it_was_refused():
    @around(stanchion._Asking, "_failure")
    def failure(original, self, problem, after):
        return self._again(problem, after)


@wrong("revoked")
def goes_on_after_a_revocation():
    @around(stanchion._Session, "_kept")
    def kept(original, self, sent, held, lost):
        original(self, sent, held, [])


@wrong("revoked")
def tells_a_loss_twice():
    @around(stanchion.Lease, "_stop")
    def stop(original, self, callbacks):
        original(self, callbacks * 2)


@wrong("ended")
def renews_what_has_ended():
    stanchion._Session.drop = lambda self, lease: None


@wrong("late-grant")
def counts_from_the_answer():
    @around(stanchion._Sender, "_exchange")
    def exchange(original, self, *args):
        answer = original(self, *args)
        return (self._watch.now(),) + answer[1:]


@wrong("late-grant")
def keeps_what_it_cannot_use():
    stanchion.Client._give_up = lambda self, path: None


@wrong("late-held")
def believes_a_late_answer():
    everything = {}

    @around(stanchion._Session, "hold")
    def hold(original, self, lease, *args):
        everything[lease._number] = lease
        return original(self, lease, *args)

    @around(stanchion._Session, "_renew")
    def renew(original, self, number, sent, use_within, contact_within):
        lease = everything[number]
        lease._loss, lease._deadline = None, sent + use_within


@wrong("wait-timeout")
def asks_again_after_its_time():
    asks_again_when_it_was_refused()


@wrong("release-repeated")
def releases_once():
    @around(stanchion.Client, "_decide")
    def decide(original, self, method, path, left):
        return self._sender.send(stanchion._Route(self._sender.nodes).next(), method, path, None, 2)


@wrong("release-repeated")
def says_released_before_it_is():
    @around(stanchion.Lease, "release")
    def release(original, self, timeout=None):
        threading.Thread(target=original, args=(self,), daemon=True).start()


@wrong("heartbeat-names")
def names_what_it_released():
    renews_what_has_ended()


@wrong("heartbeat-names")
def has_a_heartbeat_for_each_lease():
    @around(stanchion._Session, "_names")
    def names(original, self, beat):
        return stanchion._encode({"leases": [beat.named[0]._number]})


@wrong("long-lease-is-left-alone")
def renews_long_leases_with_short_ones():
    @around(stanchion._Session, "_send")
    def send(original, self, now):
        for lease in self.leases.values():
            lease._due = now
        original(self, now)


@wrong("already-held")
def gives_up_its_lease_because_it_has_it():
    @around(stanchion._Asking, "_failure")
    def failure(original, self, problem, after):
        self.session.retire("already_held")
        return original(self, problem, after)


@wrong("unauthorized-heartbeat")
def takes_doubt_for_loss():
    @around(stanchion._Session, "_missed")
    def missed(original, self, beat, cause, after):
        original(self, beat, cause, after)
        for lease in beat.named:
            lease._lose(stanchion.Expired)


@wrong("not-found-heartbeat")
def believes_that_an_unknown_session_has_ended():
    @around(stanchion._Session, "_missed")
    def missed(original, self, beat, cause, after):
        original(self, beat, cause, after)
        if isinstance(cause, stanchion.Problem) and cause.code == "not_found":
            for lease in beat.named:
                lease._lose(stanchion.Expired)


@wrong("retry-after")
def does_not_wait_as_long_as_it_is_told():
    stanchion._retry_after = lambda headers: 0


@wrong("release-waits-for-the-stop")
def releases_while_the_work_goes_on():
    @around(stanchion.Lease, "_send_release")
    def send(original, self):
        self._stopped.set()
        return original(self)


@wrong("close")
def forgets_a_lease_when_it_closes():
    @around(stanchion._Session, "held")
    def held(original, self):
        return original(self)[:1]


@wrong("cancelled")
def stays_in_line():
    stanchion.Client._give_up = lambda self, path: None


@wrong("cancelled")
def leaves_the_line_only_if_the_first_try_works():
    releases_once()


@wrong("session-ended")
def stays_with_a_session_that_has_ended():
    @around(stanchion._Session, "retire")
    def retire(original, self, detail):
        pass


@wrong("absent-is-not-lost")
def takes_absence_for_loss():
    @around(stanchion._Session, "_kept")
    def kept(original, self, sent, held, lost):
        original(self, sent, held, lost)
        for lease in self.held():
            if lease._number not in [h[0] for h in held]:
                lease._lose(stanchion.Expired)


@wrong("hung-node")
def waits_for_a_node_that_hangs():
    stanchion._BEATS_MAX = 1
    stanchion._BEAT_TIME_MIN = stanchion._BEAT_TIME_MAX = 60 * stanchion._SECOND


@wrong("no-answer-of-this-api")
def follows_redirects():
    @around(stanchion._Sender, "_exchange")
    def exchange(original, self, node, method, path, *args):
        answer = original(self, node, method, path, *args)
        return answer if answer[1] != 307 else original(self, node, method, answer[2]["Location"], *args)


@wrong("revoked-grant")
def leaves_a_revoked_grant_to_run_out():
    keeps_what_it_cannot_use()


@wrong("grant-and-release")
def sends_no_api_key():
    @around(stanchion.Client, "__init__")
    def init(original, self, endpoints, api_key, **options):
        original(self, endpoints, "none", **options)


@wrong("grant-and-release")
def says_held_after_the_release():
    stanchion.Lease.check = lambda self: None


if __name__ == "__main__":
    if len(sys.argv) == 1:
        for name, (script, _) in WRONG.items():
            print(name, script)
    else:
        WRONG[sys.argv[1]][1]()
        transcriptdriver.Driver().run(sys.stdin)
