"""A Discord that does as it is told: the stage of this adapter. Needs nothing but Python.

What it is told and answers stands in `adapter-sdk/conformance/src/stage.rs`. It knows the requests that the adapter
makes, refuses what the server refuses, keeps a session that can be resumed, and tells what was missed.
"""

import json
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import stages  # noqa: E402 - it lies beside the adapters

BOT = {"id": "4242", "username": "hermes", "bot": True}
GUILD, GROUP = "1", "10"
TEXT_LIMIT = 2000
HEARTBEAT_MS = 1000
DISCORD_EPOCH_MS = 1420070400000


def refused(status, code, message, **more):
    return stages.Refused(status, {"code": code, "message": message, **more})


class Discord(stages.Platform):
    def __init__(self):
        super().__init__()
        self.last_id, self.session, self.by_id, self.events = 0, 0, {}, []
        self.channels = {GROUP: {"id": GROUP, "type": 0, "guild_id": GUILD, "name": "certify"}}

    def new_id(self):
        self.last_id = max(self.last_id + 1, (int(time.time() * 1000) - DISCORD_EPOCH_MS) << 22)
        return str(self.last_id)

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
            url = self.holds(message["id"], data)
            message["attachments"] = [{"id": message["id"], "filename": name, "content_type": "text/plain", "size": len(data), "url": url}]
        self.by_id[message["id"]] = message
        if self.fault("malformed"):
            await self.tell("MESSAGE_CREATE", {"id": 7, "channel_id": ["no", "id"]})
        await self.tell("MESSAGE_CREATE", message)
        return {"id": message["id"]}

    async def tell(self, name, data):
        """Tells an event, now and to whoever resumes."""
        event = {"op": 0, "t": name, "s": len(self.events) + 1, "d": data}
        self.events.append(event)
        for line in list(self.lines):
            if line.ready:
                line.say(event)

    # --- what the adapter asks for

    def answered(self, method, target, headers, body):
        if self.expired:
            raise refused(401, 0, "401: Unauthorized")
        if headers.get("content-type", "").startswith("multipart/form-data"):
            if self.fault("file"):
                raise refused(403, 50013, "Missing Permissions")
            body = stages.field(headers, body, "payload_json")
        return self.answer(method, target.removeprefix("/api/v10/"), json.loads(body or b"null"))

    def answer(self, method, path, asked):
        parts = path.split("/")
        if path == "users/@me":
            return BOT
        if path == "users/@me/channels":
            return self.dm(asked["recipient_id"])
        if path == "applications/@me":
            return {"id": "4200", "flags": 1 << 19}
        if path == "gateway/bot":
            return {"url": f"ws://127.0.0.1:{self.port}/gateway", "shards": 1}
        if parts[0] == "channels":
            place = self.channels.get(parts[1])
            if not place:
                raise refused(404, 10003, "Unknown Channel")
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
        raise refused(404, 0, "404: Not Found")

    def write(self, place, asked):
        limited = self.fault("429")
        if limited:
            raise refused(429, 0, "You are being rate limited.", retry_after=float(limited.get("retry_after_s", 1)), **{"global": False})
        if self.fault("5xx"):
            raise refused(502, 0, "Bad Gateway")
        # What the platform calls a character is a code unit at the strictest.
        if len(asked["content"].encode("utf-16-le")) // 2 > TEXT_LIMIT:
            wrong = {"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."}]}}
            raise refused(400, 50035, "Invalid Form Body", errors=wrong)
        self.written.append({"channel": place["id"], "text": asked["content"]})
        return {"id": self.new_id(), "channel_id": place["id"]}


class Line(stages.Line):
    ready = False

    def close(self, code):
        self.gone()
        self.frame(8, struct.pack(">H", code))

    async def serve(self):
        self.platform.lines.append(self)
        self.say({"op": 10, "d": {"heartbeat_interval": HEARTBEAT_MS}})
        while True:
            kind, data = await self.hear()
            if kind == 8:
                return
            said = json.loads(data)
            if said["op"] == 1:
                self.say({"op": 11})
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
            return self.say({"op": 9, "d": False})
        for event in self.platform.events[asked["seq"]:]:
            self.say(event)
        self.ready = True
        self.say({"op": 0, "t": "RESUMED", "s": len(self.platform.events), "d": {}})


Discord.LINE = Line

if __name__ == "__main__":
    stages.play(Discord, "/api/v10")
