"""Tests of stanchion.py that need no server: time, and how answers change a lease.

What goes over the network is in ../testdata/transcripts, which every client is held against.
"""

import os
import threading
import unittest
import unittest.mock

import stanchion

SECOND = 1_000_000_000
AWAIT_TIME = 20  # seconds, for anything that must come about


class Clock:
    """Four clocks that a test moves."""

    def __init__(self, **ticking):
        self.now = {"boot": 5 * SECOND, "monotonic": 7 * SECOND, "raw": 11 * SECOND, "wall": 1_700_000_000 * SECOND, **ticking}

    def read(self):
        return stanchion.Reading(**self.now)

    def pass_on(self, seconds, *names):
        for name in names or self.now:
            if self.now[name] is not None:
                self.now[name] += int(seconds * SECOND)


class WatchTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.watch = stanchion.Watch(self.clock)

    def want(self, seconds):
        self.assertEqual(self.watch.now(), int(seconds * SECOND))

    def test_begins_at_zero(self):
        self.want(0)

    def test_takes_each_clock_that_jumps_ahead(self):
        for name in ("boot", "monotonic", "raw", "wall"):
            with self.subTest(name):
                before = self.watch.now()
                self.clock.pass_on(600, name)
                self.assertEqual(self.watch.now() - before, 600 * SECOND)

    def test_counts_a_sleep_that_only_boot_time_sees(self):
        self.clock.pass_on(1)
        self.want(1)
        self.clock.pass_on(3600, "boot")
        self.want(3601)
        self.clock.pass_on(1)
        self.want(3602)

    def test_ignores_a_wall_clock_that_is_set_back(self):
        self.clock.pass_on(1)
        self.want(1)
        self.clock.pass_on(-3600, "wall")
        self.want(1)
        self.clock.pass_on(2)
        self.want(3)

    def test_takes_the_longest_of_each_interval_and_not_of_the_sums(self):
        self.clock.pass_on(5, "wall")
        self.want(5)
        self.clock.pass_on(-5, "wall")
        self.clock.pass_on(4, "monotonic")
        self.want(9)

    def test_counts_a_raw_clock_that_runs_faster_than_one_that_is_slewed(self):
        self.clock.pass_on(100, "monotonic", "boot", "wall")
        self.clock.pass_on(101, "raw")
        self.want(101)

    def test_never_goes_back(self):
        self.clock.pass_on(0.005, "wall")
        self.want(0.005)
        self.clock.pass_on(-0.005, "wall")
        self.want(0.005)

    def test_adds_up_no_interval_below_ten_milliseconds(self):
        # Two clocks that are read one after the other: each in turn seems to run ahead. Added up, that would be a fast watch.
        for _ in range(9):
            self.clock.pass_on(0.001, "wall")
            self.watch.now()
            self.clock.pass_on(0.001, "boot", "monotonic", "raw")
            self.watch.now()
        self.want(0.009)

    def test_does_without_clocks_that_the_system_lacks(self):
        self.clock = Clock(boot=None, raw=None)
        self.watch = stanchion.Watch(self.clock)
        self.clock.pass_on(2, "monotonic")
        self.want(2)

    def test_reads_the_system(self):
        reading = stanchion.SystemClock().read()
        self.assertIsNotNone(reading.monotonic)
        self.assertIsNotNone(reading.wall)
        self.assertGreater(reading.wall, 1_600_000_000 * SECOND)


class DurationTest(unittest.TestCase):
    def test_reads_the_platforms_notation(self):
        for text, want in {"9.873s": 9.873, "0s": 0, "500ms": 0.5, "2m": 120, "1h": 3600, "0.05s": 0.05}.items():
            self.assertEqual(stanchion._parse_duration(text), round(want * SECOND), text)

    def test_refuses_anything_else(self):
        for text in ("", "s", "5", "-5s", "5d", "1.2345s", ".5s", "1e3s", "unlimited", " 5s", "５s", None, 5, "9" * 40 + "s"):
            with self.assertRaises(ValueError, msg=repr(text)):
                stanchion._parse_duration(text)

    def test_writes_whole_milliseconds_and_drops_the_rest(self):
        for seconds, want in {0: "0ms", 0.25: "250ms", 1.9999: "1999ms", 30: "30000ms", stanchion.UNLIMITED: "unlimited"}.items():
            self.assertEqual(stanchion._duration(seconds), want)


class BackoffTest(unittest.TestCase):
    def test_first_pause_of_a_waiter_is_short(self):
        self.assertLess(max(stanchion._backoff(1) for _ in range(1000)), 0.4)

    def test_pauses_grow_and_are_bounded_and_differ(self):
        self.assertGreater(min(stanchion._backoff(5) for _ in range(1000)), max(stanchion._backoff(3) for _ in range(1000)))
        late = [stanchion._backoff(n) for n in range(1, 2000)]
        self.assertLessEqual(max(late), 2)
        self.assertGreater(len(set(late)), 1000)
        self.assertLessEqual(max(stanchion._backoff(n, 0.3) for n in range(1, 100)), 0.3)


class LeaseTest(unittest.TestCase):
    """A lease without a network: its keeper does not run, and the test gives it answers."""

    def setUp(self):
        self.clock = Clock()
        self.client = stanchion.Client(["http://127.0.0.1:1"], "stn_test", clock=self.clock)
        self.session = stanchion._Session(self.client)
        self.session._keeping = True  # nothing is sent
        self.lease = self.grant(1, 10)

    def grant(self, number, use_within):
        sent = self.client._watch.now()
        grant = {"class": "jobs", "key": "nightly", "token": 33, "epoch": 2, "posture_version": 1, "protected": True,
                 "claim": {"id": "exclusion-at-resource", "text": "One at a time."}}
        lease = stanchion.Lease(self.session, number, grant, sent + use_within * SECOND)
        self.assertTrue(self.session.hold(lease, sent, SECOND, False))
        return lease

    def held(self, sent, use_within, number=1):
        self.session._kept(sent, [(number, use_within * SECOND, SECOND)], [])

    def test_holds_until_its_deadline_and_not_a_moment_longer(self):
        self.clock.pass_on(9.999)
        self.lease.check()
        self.assertTrue(self.lease.held)
        self.assertAlmostEqual(self.lease.remaining(), 0.001)
        self.clock.pass_on(0.001)
        self.assertFalse(self.lease.held)
        self.assertEqual(self.lease.remaining(), 0)
        with self.assertRaises(stanchion.DeadlinePassed) as caught:
            self.lease.check()
        self.assertEqual((caught.exception.class_name, caught.exception.key, caught.exception.token), ("jobs", "nightly", 33))

    def test_each_clock_alone_can_end_it(self):
        for name in ("boot", "monotonic", "raw", "wall"):
            with self.subTest(name):
                lease = self.grant(2, 10)
                self.clock.pass_on(11, name)
                with self.assertRaises(stanchion.DeadlinePassed):
                    lease.check()

    def test_a_wall_clock_that_is_set_back_does_not_lengthen_it(self):
        self.clock.pass_on(5)
        self.lease.check()
        self.clock.pass_on(-100, "wall")
        self.clock.pass_on(5)
        self.assertFalse(self.lease.held)

    def test_a_heartbeat_counts_from_when_it_was_sent(self):
        sent = self.client._watch.now()
        self.clock.pass_on(6)
        self.held(sent, 12)
        self.clock.pass_on(5.999)
        self.assertTrue(self.lease.held)
        self.clock.pass_on(0.001)
        self.assertFalse(self.lease.held)

    def test_an_earlier_deadline_does_not_shorten_it(self):
        sent = self.client._watch.now()
        self.held(sent, 20)
        self.held(sent, 5)
        self.clock.pass_on(19)
        self.assertTrue(self.lease.held)

    def test_once_lost_it_stays_lost(self):
        self.clock.pass_on(10)
        self.assertFalse(self.lease.held)
        self.held(self.client._watch.now(), 100)
        self.assertFalse(self.lease.held)
        self.clock.pass_on(-100, "wall")
        self.assertFalse(self.lease.held)

    def test_an_answer_after_the_deadline_does_not_revive_what_nobody_looked_at(self):
        sent = self.client._watch.now()
        self.clock.pass_on(10)
        self.held(sent, 100)
        with self.assertRaises(stanchion.DeadlinePassed):
            self.lease.check()

    def test_loss_is_told_once_and_to_who_asks_late_at_once(self):
        told, late, done = [], [], threading.Event()
        self.lease.on_lost(told.append)
        self.lease.on_lost(lambda cause: done.set())
        self.session._kept(0, [], [{"lease_id": self.lease.id, "code": "revoked", "reason": "forced", "ending": True}])
        self.session._kept(0, [], [{"lease_id": self.lease.id, "code": "ended", "reason": "expired"}])
        self.assertTrue(done.wait(AWAIT_TIME))
        self.lease.on_lost(late.append)
        self.assertEqual([type(e) for e in told + late], [stanchion.Revoked, stanchion.Revoked])
        self.assertEqual(told[0].detail, "forced")

    def test_what_ends_it_from_outside_is_a_revocation_and_the_rest_an_expiry(self):
        for number, (lost, want) in enumerate([({"code": "ended", "reason": "expired"}, stanchion.Expired),
                                               ({"code": "not_found"}, stanchion.Expired),
                                               ({"code": "session_ended"}, stanchion.Expired),
                                               ({"code": "ended", "reason": "max_hold"}, stanchion.Revoked),
                                               ({"code": "revoked", "ending": True}, stanchion.Revoked)], 2):
            lease = self.grant(number, 10)
            self.session._kept(0, [], [{"lease_id": lease.id, **lost}])
            with self.assertRaises(want):
                lease.check()

    def test_another_sessions_answer_is_nobodys(self):
        self.session._kept(0, [], [{"lease_id": "0" * 32 + ".1", "code": "ended"}])
        self.assertTrue(self.lease.held)

    def test_doubt_is_told_once_each_time_and_ends_with_an_answer(self):
        told, told_twice = [], threading.Event()
        self.lease.on_doubt(lambda cause: (told.append(str(cause)), told_twice.set() if len(told) == 2 else None))
        beat = stanchion._Beat(None, 1.0, (self.lease,), self.client._watch.now(), 1)
        for cause in ("first", "still"):
            self.session._missed(beat, stanchion.Error(cause), 0)
        self.held(self.client._watch.now(), 10)
        self.clock.pass_on(1)
        self.session._missed(beat._replace(began=self.client._watch.now()), stanchion.Error("second"), 0)
        self.assertTrue(told_twice.wait(AWAIT_TIME))
        self.assertEqual(told, ["first", "second"])

    def test_a_failure_that_is_older_than_an_answer_is_no_doubt(self):
        beat = stanchion._Beat(None, 1.0, (self.lease,), self.client._watch.now(), 1)
        self.clock.pass_on(1)
        self.held(self.client._watch.now(), 10)
        self.session._missed(beat, stanchion.Error("late"), 0)
        self.assertIsNone(self.lease._last)

    def test_a_callback_must_not_release(self):
        raised, done = [], threading.Event()

        def release(cause):
            try:
                self.lease.release()
            except RuntimeError as e:
                raised.append(str(e))
            done.set()

        self.lease.on_lost(release)
        self.session._kept(0, [], [{"lease_id": self.lease.id, "code": "ended"}])
        self.assertTrue(done.wait(AWAIT_TIME))
        self.assertEqual(len(raised), 1)

    def test_a_callback_that_fails_does_not_stop_the_others(self):
        done = threading.Event()
        self.lease.on_lost(lambda cause: 1 / 0)
        self.lease.on_lost(lambda cause: done.set())
        with self.assertLogs("stanchion"):
            self.session._kept(0, [], [{"lease_id": self.lease.id, "code": "ended"}])
            self.assertTrue(done.wait(AWAIT_TIME))

    def test_no_heartbeat_that_is_made_after_a_loss_names_it(self):
        second = self.grant(2, 100)
        beat = stanchion._Beat(None, 1.0, (self.lease, second), 0, 1)
        self.assertEqual(self.session._names(beat), b'{"leases": [1, 2]}')
        self.clock.pass_on(10)
        self.assertFalse(self.lease.held)
        self.assertEqual(self.session._names(beat), b'{"leases": [2]}')

    def test_a_fork_has_no_lease(self):
        self.client._pid = os.getpid() + 1  # as a child sees it
        with self.assertRaises(stanchion.Closed):
            self.lease.check()
        with self.assertRaises(stanchion.Closed):
            self.client.acquire("jobs", "nightly")


class ClientTest(unittest.TestCase):
    def client(self, **options):
        return stanchion.Client(["http://127.0.0.1:1"], "stn_test", **options)

    def test_refuses_endpoints_that_are_none(self):
        for endpoints in ([], ["n1:8420"], ["ftp://n1"], ["http://"], ["http://u:p@n1"], ["http://n1?x=1"], ["http://n1:x"],
                          ["http://n1"] * 17, "http://n1"):
            with self.assertRaises(ValueError, msg=repr(endpoints)):
                stanchion.Client(endpoints, "stn_test")

    def test_refuses_a_label_that_is_too_long(self):
        for make in (lambda: self.client(holder="é" * 65), lambda: self.client().acquire("jobs", "nightly", holder="x" * 129)):
            with self.assertRaises(ValueError):
                make()

    def test_refuses_a_wait_that_is_none(self):
        for wait in (-1, float("nan")):
            with self.assertRaises(ValueError):
                self.client().acquire("jobs", "nightly", wait=wait)

    def test_begins_a_new_session_after_a_long_silence(self):
        clock = Clock()
        client = self.client(clock=clock)
        first, number = client._current("jobs", "nightly")
        first.asked()
        self.assertEqual(number, 1)
        clock.pass_on(60)
        again, number = client._current("jobs", "nightly")
        again.asked()
        self.assertEqual((again.id, number), (first.id, 2))
        clock.pass_on(5 * 60)
        later, number = client._current("jobs", "nightly")
        self.assertNotEqual(later.id, first.id)
        self.assertEqual(number, 1)

    def test_asks_nothing_when_closed_and_closes_twice(self):
        client = self.client()
        client.close()
        client.close()
        with self.assertRaises(stanchion.Closed):
            client.acquire("jobs", "nightly")

    def test_timeout_and_event_end_the_asking_of_nodes_that_do_not_answer(self):
        cancel = threading.Event()
        cancel.set()
        for bound in ({"timeout": 0}, {"cancel": cancel}, {"timeout": 0.05}):
            with self.assertRaises(stanchion.Cancelled):
                self.client().acquire("jobs", "nightly", **bound)

    def test_is_unavailable_when_nobody_decides_for_long(self):
        clock = Clock()
        with self.assertRaises(stanchion.Unavailable), unittest.mock.patch.object(
                stanchion._Bound, "pause", lambda self, seconds: clock.pass_on(20)):
            self.client(clock=clock).acquire("jobs", "nightly")

    def test_has_no_thread_without_a_lease(self):
        client = self.client()
        with self.assertRaises(stanchion.Cancelled):
            client.acquire("jobs", "nightly", timeout=0)
        self.assertEqual([t.name for t in threading.enumerate() if t.name == "stanchion-keeper"], [])

    def test_a_hint_is_not_followed_from_https_to_http(self):
        nodes = stanchion._Nodes(["https://n1", "https://n2"], lambda: None)
        nodes.answered(nodes.pick([]), "n3 http://n3")
        self.assertEqual(nodes._leader, "")
        nodes.answered(nodes.pick([]), "n3 https://n3")
        self.assertEqual(nodes._leader, "https://n3")

    def test_every_node_is_asked_once_before_one_is_asked_again(self):
        nodes = stanchion._Nodes(["http://n1", "http://n2", "http://n3"], lambda: None)
        nodes.answered(nodes.pick([]), "n9 http://n9")
        route = stanchion._Route(nodes)
        first = [route.next().url for _ in range(4)]
        self.assertEqual(first[0], "http://n9")
        self.assertEqual(set(first), {"http://n1", "http://n2", "http://n3", "http://n9"})
        self.assertEqual(route.next().url, "http://n9")


if __name__ == "__main__":
    unittest.main()
