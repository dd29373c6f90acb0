"""Tests of stanchion.py over TLS. They need a node, whose address, API key and authority the environment names: tls_test.go of the Go
package beside this folder starts one and runs them.
"""

import os
import ssl
import unittest
import unittest.mock

import stanchion


class LateClock(stanchion.SystemClock):
    """The machine's clocks, whose wall clock a test sets ahead."""

    ahead = 0

    def read(self):
        reading = super().read()
        return reading._replace(wall=reading.wall + self.ahead)


class TLSTest(unittest.TestCase):
    def setUp(self):
        self.endpoint, self.authority = os.environ["STANCHION_ENDPOINTS"], os.environ["STANCHION_TEST_AUTHORITY"]

    def client(self, endpoint=None, **options):
        client = stanchion.Client([endpoint or self.endpoint], os.environ["STANCHION_API_KEY"], **options)
        self.addCleanup(self.close, client)
        return client

    def close(self, client):
        try:
            client.close(timeout=1)
        except stanchion.CloseFailed:
            pass  # one that trusts nobody cannot end its session

    def trusting(self):
        return ssl.create_default_context(cafile=self.authority)

    def test_takes_and_gives_back_leases_of_a_node_of_a_private_authority(self):
        client = self.client(context=self.trusting())
        tokens = []
        for _ in range(2):  # the second time over the same connection
            with client.acquire("ledger", "python") as lease:
                lease.check()
                tokens.append(lease.token)
        self.assertEqual(tokens, [1, 2])

    def refuses(self, why, **options):
        """It is tried again as long as any outage is waited out; then the error names the certificate."""
        clock = LateClock()

        def pause(bound, seconds):
            clock.ahead += 20 * 1_000_000_000  # of the 30 s for which nodes may decide nothing

        with unittest.mock.patch.object(stanchion._Bound, "pause", pause), self.assertRaises(stanchion.Unavailable) as got:
            self.client(clock=clock, **options).acquire("ledger", "python")
        self.assertIn("certificate verify failed", str(got.exception))
        self.assertIn(why, str(got.exception))

    def test_refuses_an_unknown_authority_and_says_so(self):
        self.refuses("unable to get local issuer certificate")

    def test_refuses_the_certificate_of_another_host_and_says_so(self):
        self.refuses("localhost", endpoint=self.endpoint.replace("127.0.0.1", "localhost"), context=self.trusting())


if __name__ == "__main__":
    unittest.main()
