"""A service that calls webhooks as it is told: the stage of this adapter. Needs nothing but Python.

What it is told and answers stands in `adapter-sdk/conformance/src/stage.rs`. A call is answered only with 202 or 200,
or it counts as not made.
"""

import hashlib
import hmac
import http.client
import json
import socket
import sys
import time

SECRET = b"certify-0123456789abcdef"
PATIENCE_S = 10


class Unsupported(Exception):
    pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Service:
    def __init__(self):
        self.port, self.calls, self.before = free_port(), {}, None

    def call(self, path, body, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("POST", path, body, headers)
            return connection.getresponse().status
        finally:
            connection.close()

    def until_taken(self, path, body, headers):
        """The listener may be on its way back; a service calls again then."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                status = self.call(path, body, headers)
            except OSError as error:
                status = str(error)
            if status in (200, 202):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"the call is answered {status}")
            time.sleep(0.05)

    def signed(self, said):
        stamp, body = str(int(time.time())), json.dumps({"text": said["text"]}).encode()
        number = f"call-{len(self.calls) + 1}"
        tag = hmac.new(SECRET, f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
        headers = {"X-Webhook-Signature-V2": tag, "X-Webhook-Timestamp": stamp, "X-Request-ID": number}
        return number, (f"/webhooks/{said['chat']}", body, headers)

    def inbound(self, said):
        if "again" in said:
            self.until_taken(*self.calls[said["again"]])
            return {}
        if said.get("own") or said.get("bot"):
            raise Unsupported("a service has no account here and no bots")
        number, call = self.signed(said)
        if self.before:
            self.before, before = None, self.before
            before(call)
        self.calls[number] = call
        self.until_taken(*call)
        return {"id": number}

    def malformed(self, call):
        """A body that is no JSON, signed; and one that is, and is not."""
        path, body, headers = call
        tag = hmac.new(SECRET, f"{headers['X-Webhook-Timestamp']}.{{".encode(), hashlib.sha256).hexdigest()
        statuses = [
            self.call(path, b"{", {**headers, "X-Webhook-Signature-V2": tag, "X-Request-ID": "malformed"}),
            self.call(path, body + b" ", {**headers, "X-Request-ID": "unsigned"}),
        ]
        if statuses != [400, 401]:
            raise RuntimeError(f"what is malformed is answered {statuses}")

    def cut(self, call):
        """A connection that ends in the middle of a body."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as half:
            half.sendall(f"POST {call[0]} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())

    def fault(self, fault):
        kind = fault["kind"]
        if kind in ("malformed", "cut"):
            self.before = getattr(self, kind)
        elif kind != "none":
            raise Unsupported("this adapter calls nobody")
        return {}

    def journal(self, _):
        raise Unsupported("answers go by the host, not by this adapter")


def main():
    service = Service()
    print(json.dumps({"listen": f"127.0.0.1:{service.port}"}), flush=True)
    for line in sys.stdin:
        (word, what), = json.loads(line).items()
        try:
            answer = getattr(service, word)(what)
        except Unsupported as why:
            answer = {"unsupported": str(why)}
        print(json.dumps(answer), flush=True)


main()
