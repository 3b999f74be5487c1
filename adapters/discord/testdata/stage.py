"""A Discord that does as it is told: the stage of this adapter. Needs nothing but Python.

What it is told and answers stands in `adapter-sdk/conformance/src/stage.rs`. It knows the requests that the adapter
makes, refuses what the server refuses, keeps a session that can be resumed, and tells what was missed.
"""

import asyncio
import base64
import hashlib
import json
import os
import struct
import sys
import time

BOT = {"id": "4242", "username": "hermes", "bot": True}
GUILD, GROUP = "1", "10"
TEXT_LIMIT = 2000
HEARTBEAT_MS = 1000
DISCORD_EPOCH_MS = 1420070400000
WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Refused(Exception):
    def __init__(self, status, code, message, **more):
        super().__init__(message)
        self.status, self.body = status, {"code": code, "message": message, **more}


class Platform:
    def __init__(self):
        self.last_id, self.port = 0, 0
        self.channels = {GROUP: {"id": GROUP, "type": 0, "guild_id": GUILD, "name": "certify"}}
        self.by_id, self.written, self.events, self.files = {}, [], [], {}
        self.faults, self.silent, self.expired, self.session = [], False, False, 0
        self.lines = []
        self.changed = asyncio.Condition()

    def new_id(self):
        self.last_id = max(self.last_id + 1, (int(time.time() * 1000) - DISCORD_EPOCH_MS) << 22)
        return str(self.last_id)

    def fault(self, kind):
        found = next((fault for fault in self.faults if fault["kind"] == kind), None)
        if found:
            self.faults.remove(found)
        return found

    def dm(self, person):
        channel = next((c for c in self.channels.values() if c["type"] == 1 and c["recipients"][0]["id"] == person), None)
        if not channel:
            channel = {"id": self.new_id(), "type": 1, "recipients": [{"id": person, "username": f"person{person}"}]}
            self.channels[channel["id"]] = channel
        return channel

    # --- what is told on standard input

    async def inbound(self, said):
        if "again" in said:
            await self.tell("MESSAGE_CREATE", self.by_id[said["again"]])
            return {}
        person = str(said.get("from", 1))
        author = {"id": person, "username": f"person{person}"}
        if said.get("bot"):
            author = {"id": "77", "username": "another", "bot": True}
        if said.get("own"):
            author = BOT
        chat = said["chat"]
        place = self.dm(person) if chat == "dm" else self.channels[GROUP if chat == "group" else chat.get("thread") or chat["id"]]
        message = {"id": self.new_id(), "channel_id": place["id"], "type": 0, "content": said["text"], "author": author, "mentions": []}
        if "guild_id" in place:
            message |= {"guild_id": GUILD, "member": {"roles": []}}
        if "file" in said:
            name, data = said["file"]["name"], said["file"]["text"].encode()
            self.files[message["id"]] = data
            url = f"http://127.0.0.1:{self.port}/files/{message['id']}"
            message["attachments"] = [{"id": message["id"], "filename": name, "content_type": "text/plain", "size": len(data), "url": url}]
        self.by_id[message["id"]] = message
        if self.fault("malformed"):
            await self.tell("MESSAGE_CREATE", {"id": 7, "channel_id": ["no", "id"]})
        await self.tell("MESSAGE_CREATE", message)
        return {"id": message["id"]}

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
        elif kind in ("429", "5xx", "malformed"):
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

    async def tell(self, name, data):
        """Tells an event, now and to whoever resumes."""
        event = {"op": 0, "t": name, "s": len(self.events) + 1, "d": data}
        self.events.append(event)
        for line in list(self.lines):
            if line.ready:
                await line.say(event)

    # --- what the adapter asks for

    def answer(self, method, path, asked):
        parts = path.split("/")
        if path == "users/@me":
            return BOT
        if path == "applications/@me":
            return {"id": "4200", "flags": 1 << 19}
        if path == "gateway/bot":
            return {"url": f"ws://127.0.0.1:{self.port}/gateway", "shards": 1}
        if parts[0] == "channels":
            place = self.channels.get(parts[1])
            if not place:
                raise Refused(404, 10003, "Unknown Channel")
            if method == "GET":
                return place
            if parts[2:] == ["messages"]:
                return self.write(place, asked)
            if parts[2:] == ["threads"]:
                thread = {"id": self.new_id(), "type": asked["type"], "guild_id": GUILD, "parent_id": place["id"], "name": asked["name"]}
                self.channels[thread["id"]] = thread
                return thread
            if parts[2:] == ["typing"]:
                return None
        raise Refused(404, 0, "404: Not Found")

    def write(self, place, asked):
        limited = self.fault("429")
        if limited:
            raise Refused(429, 0, "You are being rate limited.", retry_after=float(limited.get("retry_after_s", 1)), **{"global": False})
        if self.fault("5xx"):
            raise Refused(502, 0, "Bad Gateway")
        # What the platform calls a character is a code unit at the strictest.
        if len(asked["content"].encode("utf-16-le")) // 2 > TEXT_LIMIT:
            wrong = {"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."}]}}
            raise Refused(400, 50035, "Invalid Form Body", errors=wrong)
        self.written.append({"channel": place["id"], "text": asked["content"]})
        return {"id": self.new_id(), "channel_id": place["id"]}


class Line:
    """One websocket: short frames of text, as both sides of a gateway send them."""

    def __init__(self, platform, reader, writer):
        self.platform, self.reader, self.writer, self.ready = platform, reader, writer, False

    def cut(self):
        self.gone()
        self.writer.transport.abort()

    def gone(self):
        if self in self.platform.lines:
            self.platform.lines.remove(self)

    async def say(self, payload):
        if self.platform.silent:
            return
        data = json.dumps(payload).encode()
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
        self.writer.write(b"\x81" + size + data)

    def close(self, code):
        self.gone()
        self.writer.write(b"\x88\x02" + struct.pack(">H", code))

    async def hear(self):
        head = await self.reader.readexactly(2)
        size = head[1] & 0x7F
        if size == 126:
            size = struct.unpack(">H", await self.reader.readexactly(2))[0]
        mask = await self.reader.readexactly(4)
        data = bytes(byte ^ mask[n % 4] for n, byte in enumerate(await self.reader.readexactly(size)))
        return head[0] & 0x0F, data

    async def serve(self):
        self.platform.lines.append(self)
        await self.say({"op": 10, "d": {"heartbeat_interval": HEARTBEAT_MS}})
        while True:
            kind, data = await self.hear()
            if kind == 8:
                return
            said = json.loads(data)
            if said["op"] == 1:
                await self.say({"op": 11})
            elif self.platform.expired:
                self.close(4004)
            elif said["op"] == 2:
                await self.identify()
            elif said["op"] == 6:
                await self.resume(said["d"])

    async def identify(self):
        self.platform.session += 1
        self.platform.events.clear()
        self.ready = True
        await self.platform.tell("READY", {"session_id": f"s{self.platform.session}", "resume_gateway_url": f"ws://127.0.0.1:{self.platform.port}/gateway"})

    async def resume(self, asked):
        if asked["session_id"] != f"s{self.platform.session}":
            return await self.say({"op": 9, "d": False})
        for event in self.platform.events[asked["seq"]:]:
            await self.say(event)
        self.ready = True
        await self.say({"op": 0, "t": "RESUMED", "s": len(self.platform.events), "d": {}})


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
        line = Line(platform, reader, writer)
        try:
            await line.serve()
        finally:
            line.gone()
        return False
    try:
        if platform.expired:
            raise Refused(401, 0, "401: Unauthorized")
        status, answer = 200, platform.answer(method, target.removeprefix("/api/v10/"), json.loads(body or b"null"))
    except Refused as refused:
        status, answer = refused.status, refused.body
    await platform.speaks()
    if target.startswith("/files/"):
        data = platform.files.get(target.removeprefix("/files/"), b"")
        writer.write(f"HTTP/1.1 {200 if data else 404} As Told\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        return True
    if answer is None:
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        return True
    data = json.dumps(answer).encode()
    writer.write(f"HTTP/1.1 {status} As Told\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    return True


async def main():
    platform = Platform()

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
    print(json.dumps({"base_url": f"http://127.0.0.1:{platform.port}/api/v10"}), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await platform.obey(json.loads(line))), flush=True)
    # Requests that are held back hold up nobody.
    os._exit(0)


asyncio.run(main())
