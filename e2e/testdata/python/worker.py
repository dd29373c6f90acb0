"""A holder, as a program would be one: it acquires, uses the lease in a loop, and gives it back when told by a line on stdin.

    worker.py ENDPOINTS CLASS KEY USES

USES is the file that stands for the resource: a line for each use, with the time just before the lease was checked, and the token.
The API key comes from STANCHION_API_KEY. What happens is printed, one JSON object on a line.
"""

import json
import os
import sys
import threading
import time

import stanchion

PAUSE = 0.05


def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def use(lease, uses, stop):
    """Uses the lease until it is to stop, or it is lost."""
    while not stop.wait(PAUSE):
        looked = time.time_ns()
        lease.check()
        uses.write(f"{looked} {lease.token}\n")
        uses.flush()


def work(client, class_name, key, uses, commands):
    stop, said = threading.Event(), []

    def listen():
        said.append(commands.readline().strip())
        stop.set()

    lease = client.acquire(class_name, key, on_queued=lambda place: say("queued", position=place))
    say("granted", token=lease.token, protected=lease.protected, claim=lease.claim.id)
    threading.Thread(target=listen, daemon=True).start()
    try:
        use(lease, uses, stop)
    except stanchion.Lost as e:
        say("lost", cause=type(e).__name__)
    finish(client, lease, said)


def finish(client, lease, said):
    if said == ["close"]:
        client.close()
        say("closed", held=lease.held)
        return
    try:
        lease.release()
        say("released")
    except stanchion.Lost as e:
        say("not_released", cause=type(e).__name__)
    client.close()


def main():
    endpoints, class_name, key, path = sys.argv[1:]
    client = stanchion.Client(endpoints.split(","), os.environ["STANCHION_API_KEY"])
    with open(path, "a") as uses:
        work(client, class_name, key, uses, sys.stdin)


main()
