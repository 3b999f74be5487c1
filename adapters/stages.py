"""What the stages of adapters have in common whose platforms speak HTTP and websockets. Needs nothing but Python.

What a stage is told and answers stands in `adapter-sdk/conformance/src/stage.rs`.
"""

import asyncio
import base64
import email
import hashlib
import json
import os
import struct
import sys

WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Refused(Exception):
    """The platform's no."""

    def __init__(self, status, body, **headers):
        super().__init__(body)
        self.status, self.body, self.headers = status, body, headers


class Platform:
    """Obeys what it is told on standard input. What is heard from people (`inbound`), and what is answered to a request
    (`answered`), is the platform's own, and so is what its websockets say (`LINE`)."""

    LINE = None

    def __init__(self):
        self.port, self.written, self.files = 0, [], {}
        self.faults, self.silent, self.expired = [], False, False
        self.lines, self.changed = [], asyncio.Condition()

    def fault(self, kind):
        found = next((fault for fault in self.faults if fault["kind"] == kind), None)
        if found:
            self.faults.remove(found)
        return found

    async def break_down(self, fault):
        kind = fault["kind"]
        if kind == "none":
            self.faults.clear()
            self.silent = self.expired = False
        elif kind == "silence":
            self.silent = True
        elif kind in ("cut", "expired"):
            self.expired |= kind == "expired"
            for line in list(self.lines):
                line.cut()
        elif kind in ("429", "5xx", "malformed", "file"):
            self.faults.append(fault)
        else:
            return {"unsupported": f"there is no {kind} here"}
        async with self.changed:
            self.changed.notify_all()
        return {}

    async def obey(self, told):
        if "inbound" in told:
            return await self.inbound(told["inbound"])
        if "fault" in told:
            return await self.break_down(told["fault"])
        if "journal" in told:
            return {"journal": self.written}
        return {"unsupported": f"nobody here knows {sorted(told)}"}

    async def speaks(self):
        """Waits while nothing is said."""
        async with self.changed:
            await self.changed.wait_for(lambda: not self.silent)

    def holds(self, name, data):
        """Keeps a file; returns where it lies."""
        self.files[name] = data
        return f"http://127.0.0.1:{self.port}/files/{name}"


class Line:
    """One websocket: short frames, as both sides send them."""

    def __init__(self, platform, reader, writer):
        self.platform, self.reader, self.writer = platform, reader, writer

    def cut(self):
        self.gone()
        self.writer.transport.abort()

    def gone(self):
        if self in self.platform.lines:
            self.platform.lines.remove(self)

    def frame(self, kind, data):
        if not self.platform.silent:
            size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
            self.writer.write(bytes([0x80 | kind]) + size + data)

    def say(self, message):
        self.frame(1, json.dumps(message).encode())

    async def hear(self):
        head = await self.reader.readexactly(2)
        size = head[1] & 0x7F
        if size == 126:
            size = struct.unpack(">H", await self.reader.readexactly(2))[0]
        mask = await self.reader.readexactly(4)
        data = bytes(byte ^ mask[n % 4] for n, byte in enumerate(await self.reader.readexactly(size)))
        return head[0] & 0x0F, data


def field(headers, body, name):
    """The field of a form with files."""
    form = email.message_from_bytes(f"content-type: {headers['content-type']}\r\n\r\n".encode() + body)
    parts = form.get_payload()
    return next(part.get_payload(decode=True) for part in parts if part.get_param("name", header="content-disposition") == name)


def response(status, data, **headers):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} As Told\r\n{lines}Content-Length: {len(data)}\r\n\r\n".encode() + data


async def request(platform, reader, writer):
    """Reads one request and answers it; returns whether there may be another."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    await platform.speaks()
    if headers.get("upgrade") == "websocket":
        accept = base64.b64encode(hashlib.sha1(headers["sec-websocket-key"].encode() + WEBSOCKET).digest()).decode()
        writer.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        line = platform.LINE(platform, reader, writer)
        try:
            await line.serve()
        finally:
            line.gone()
        return False
    if target.startswith("/files/"):
        data = platform.files.get(target.removeprefix("/files/"), b"")
        writer.write(response(200 if data else 404, data))
        return True
    status, more = 200, {}
    try:
        answer = platform.answered(method, target, headers, body)
    except Refused as refused:
        status, answer, more = refused.status, refused.body, refused.headers
    await platform.speaks()
    if answer is None:
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    else:
        writer.write(response(status, json.dumps(answer).encode(), **{"Content-Type": "application/json"}, **more))
    return True


async def main(platform, base_path):
    async def serve(reader, writer):
        try:
            while await request(platform, reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # Whoever asked did not wait.
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    platform.port = server.sockets[0].getsockname()[1]
    print(json.dumps({"base_url": f"http://127.0.0.1:{platform.port}{base_path}"}), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await platform.obey(json.loads(line))), flush=True)
    # Requests that are held back hold up nobody.
    os._exit(0)


def play(make, base_path):
    """Plays a platform until standard input ends."""
    async def played():
        await main(make(), base_path)

    asyncio.run(played())
