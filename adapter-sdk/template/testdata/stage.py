"""The people of this platform, who do as they are told. Needs nothing but Python.

It is told one JSON object a line and answers each with one; the SDK's documentation of `conformance::stage` lists them.
"""

import json
import select
import socket
import sys

QUIET_S = 0.3


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()


class People:
    def __init__(self, address):
        self.address, self.connected, self.heard = address, {}, []
        self.said = self.cuts = 0

    def person(self, number):
        """Somebody's connection, a new one where there is none."""
        name = f"person-{number}" + "-again" * self.cuts
        if name not in self.connected:
            self.connected[name] = socket.create_connection(self.address, timeout=10)
            self.connected[name].sendall(f"{name}\n".encode())
        return self.connected[name]

    def inbound(self, told):
        if told.keys() & {"again", "bot", "own"}:
            return {"unsupported": "a line is written once, and by people only"}
        chat = told["chat"]
        room = "tea" if chat == "group" else None
        if isinstance(chat, dict) and chat["type"] == "group":
            room = chat["id"]
        line = f"#{room} {told['text']}" if room else told["text"]
        self.person(told["from"]).sendall(f"{line}\n".encode())
        self.said += 1
        return {"id": self.said}

    def fault(self, told):
        if told["kind"] == "cut":
            self.collect()
            for connection in self.connected.values():
                connection.close()
            # Their names are free only once the adapter has seen them go, so they come back as others.
            self.connected, self.cuts = {}, self.cuts + 1
        elif told["kind"] == "malformed":
            self.person(1).sendall(b"\xff\xfe\n\n")
        elif told["kind"] not in ("none", "silence"):
            return {"unsupported": f"there is no {told['kind']} here"}
        return {}

    def collect(self):
        """Reads what was written to anybody, until nothing more comes."""
        while ready := select.select(list(self.connected.values()), [], [], QUIET_S)[0]:
            for connection in ready:
                data = connection.recv(1 << 20)
                if not data:
                    self.connected = {name: one for name, one in self.connected.items() if one is not connection}
                self.heard.append(data)

    def journal(self, _):
        self.collect()
        lines = b"".join(self.heard).decode().splitlines()
        return {"journal": [{"text": line} for line in lines]}


def main():
    address = free_address()
    people = People(address)
    print(json.dumps({"listen": "%s:%s" % address}), flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        obeys = next((getattr(people, what) for what in ("inbound", "fault", "journal") if what in told), None)
        answer = obeys(next(iter(told.values()))) if obeys else {"unsupported": f"nobody here knows {sorted(told)}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
