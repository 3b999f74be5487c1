"""A Slack that does as it is told: the stage of this adapter. Needs nothing but Python.

What it is told and answers stands in `adapter-sdk/conformance/src/stage.rs`. It knows the calls that the adapter
makes, refuses what Slack refuses, serves its sockets, and delivers again what is not acknowledged.
"""

import asyncio
import base64
import hashlib
import json
import os
import struct
import sys
import time
import urllib.parse

TEAM, BOT, BOT_ID, GROUP = "T00000001", "U0HERMES1", "B0HERMES1", "C00000001"
# What is longer becomes several messages in Slack, of which only the first has a name.
TEXT_LIMIT, SECTION_LIMIT = 4000, 3000
ACK_S, DELIVERIES_MAX = 3, 4  # What no socket was there for is not counted.
WEBSOCKET = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Refused(Exception):
    def __init__(self, error, status=200, **headers):
        super().__init__(error)
        self.status, self.body, self.headers = status, {"ok": False, "error": error}, headers


class Platform:
    def __init__(self):
        self.port, self.last, self.opened = 0, 0, 0
        self.by_ts, self.written, self.waiting, self.files = {}, [], {}, {}
        self.faults, self.silent, self.expired = [], False, False
        self.lines = []
        self.changed = asyncio.Condition()

    def new_ts(self):
        self.last = max(self.last + 1, int(time.time() * 1000))
        return f"{self.last // 1000}.{self.last % 1000:03}000"

    def fault(self, kind):
        found = next((fault for fault in self.faults if fault["kind"] == kind), None)
        if found:
            self.faults.remove(found)
        return found

    # --- what is told on standard input

    async def inbound(self, said):
        if "again" in said:
            await self.deliver(self.by_ts[said["again"]])
            return {}
        person, chat = int(said.get("from", 1)), said["chat"]
        event = {"type": "message", "user": f"U0000000{person}", "ts": self.new_ts(), "text": said["text"]}
        if said.get("bot"):
            event |= {"user": "U0000ROBOT", "bot_id": "B0000ROBOT"}
        if said.get("own"):
            event |= {"user": BOT, "bot_id": BOT_ID}
        if isinstance(chat, dict):
            event |= {"channel": chat["id"].split("/")[1]}
            if chat.get("thread"):
                event |= {"thread_ts": chat["thread"], "parent_user_id": BOT}
        else:
            event["channel"] = f"D0000000{person}" if chat == "dm" else GROUP
        if "file" in said:
            file_id, data = f"F{event['ts'].replace('.', '')}", said["file"]["text"].encode()
            self.files[file_id] = data
            url = f"http://127.0.0.1:{self.port}/files/{file_id}"
            event["subtype"] = "file_share"
            event["files"] = [{"id": file_id, "name": said["file"]["name"], "mimetype": "text/plain", "size": len(data), "url_private": url}]
        self.by_ts[event["ts"]] = event
        if self.fault("malformed"):
            await self.deliver({"type": "message", "channel": ["no", "id"], "ts": 7})
        await self.deliver(event)
        return {"id": event["ts"]}

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

    async def deliver(self, event, attempt=0):
        """Tells one socket; what it does not acknowledge is delivered again."""
        self.opened += 1
        name = f"envelope-{self.opened}"
        payload = {"type": "event_callback", "team_id": TEAM, "event_id": f"Ev{self.opened}", "event": event,
                   "authorizations": [{"team_id": TEAM, "user_id": BOT, "is_bot": True}]}
        was_told = bool(self.lines)
        if was_told:
            line = self.lines[self.opened % len(self.lines)]
            line.say({"type": "events_api", "envelope_id": name, "payload": payload, "retry_attempt": attempt, "accepts_response_payload": False})
        self.waiting[name] = asyncio.get_running_loop().call_later(ACK_S, lambda: asyncio.ensure_future(self.again(name, event, attempt + was_told)))

    async def again(self, name, event, attempt):
        if self.waiting.pop(name, None) and attempt < DELIVERIES_MAX:
            await self.deliver(event, attempt)

    def acknowledged(self, name):
        timer = self.waiting.pop(name, None)
        if timer:
            timer.cancel()

    # --- what the adapter asks for

    def answer(self, method, token, asked):
        if self.expired:
            raise Refused("invalid_auth")
        if method == "apps.connections.open":
            if not token.startswith("xapp-"):
                raise Refused("not_allowed_token_type")
            return {"url": f"ws://127.0.0.1:{self.port}/link/?ticket=certify"}
        if not token.startswith("xoxb-"):
            raise Refused("not_allowed_token_type")
        if method == "auth.test":
            return {"team": "Certify", "team_id": TEAM, "user": "hermes", "user_id": BOT, "bot_id": BOT_ID}
        if method == "users.info":
            return {"user": {"id": asked["user"], "name": asked["user"].lower(), "profile": {}}}
        if method == "conversations.info":
            return {"channel": {"id": asked["channel"], "name": "certify"}}
        if method == "assistant.threads.setStatus":
            return {}
        if method in ("chat.postMessage", "chat.update"):
            return self.write(asked)
        raise Refused("unknown_method")

    def write(self, asked):
        limited = self.fault("429")
        if limited:
            raise Refused("ratelimited", 429, **{"Retry-After": int(limited.get("retry_after_s", 1))})
        if self.fault("5xx"):
            raise Refused("fatal_error", 502)
        blocks = json.loads(asked.get("blocks") or "[]")
        sections = [block["text"]["text"] for block in blocks if block["type"] == "section"]
        if len(asked["text"]) > TEXT_LIMIT:
            raise Refused("msg_too_long")
        if any(len(section) > SECTION_LIMIT for section in sections):
            raise Refused("invalid_blocks")
        if asked.get("unfurl_links") != "false" and "ts" not in asked:
            raise Refused("invalid_arguments")
        text = "".join(sections) or asked["text"]
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        self.written.append({"channel": asked["channel"], "text": text})
        return {"channel": asked["channel"], "ts": self.new_ts()}


class Line:
    """One websocket: short frames, as both sides of Socket Mode send them."""

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

    async def serve(self):
        self.say({"type": "hello", "num_connections": len(self.platform.lines) + 1})
        self.platform.lines.append(self)
        while True:
            kind, data = await self.hear()
            if kind == 8:
                return
            if kind == 9:
                self.frame(10, data)
            elif kind == 1:
                self.platform.acknowledged(json.loads(data).get("envelope_id"))


async def request(platform, reader, writer):
    """Reads one request and answers it; returns whether there may be another."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    _, target, _ = head[0].split(" ", 2)
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
    if target.startswith("/files/"):
        data = platform.files.get(target.removeprefix("/files/"), b"")
        writer.write(f"HTTP/1.1 {200 if data else 404} As Told\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        return True
    asked = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
    token = headers.get("authorization", "").removeprefix("Bearer ")
    status, more = 200, {}
    try:
        answer = {"ok": True, **platform.answer(target.removeprefix("/api/"), token, asked)}
    except Refused as refused:
        status, answer, more = refused.status, refused.body, refused.headers
    await platform.speaks()
    data = json.dumps(answer).encode()
    lines = "".join(f"{name}: {value}\r\n" for name, value in more.items())
    writer.write(f"HTTP/1.1 {status} As Told\r\nContent-Type: application/json\r\n{lines}Content-Length: {len(data)}\r\n\r\n".encode() + data)
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
    print(json.dumps({"base_url": f"http://127.0.0.1:{platform.port}/api"}), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await platform.obey(json.loads(line))), flush=True)
    # Requests that are held back hold up nobody.
    os._exit(0)


asyncio.run(main())
