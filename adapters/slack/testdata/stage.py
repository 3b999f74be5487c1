"""A Slack that does as it is told: the stage of this adapter. Needs nothing but Python.

What it is told and answers stands in `adapter-sdk/conformance/src/stage.rs`. It knows the calls that the adapter
makes, refuses what Slack refuses, serves its sockets, and delivers again what is not acknowledged.
"""

import asyncio
import json
import pathlib
import sys
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import stages  # noqa: E402 - it lies beside the adapters

TEAM, BOT, BOT_ID, GROUP = "T00000001", "U0HERMES1", "B0HERMES1", "C00000001"
# What is longer becomes several messages in Slack, of which only the first has a name.
TEXT_LIMIT, SECTION_LIMIT = 4000, 3000
ACK_S, DELIVERIES_MAX = 3, 4  # What no socket was there for is not counted.


def refused(error, status=200, **headers):
    return stages.Refused(status, {"ok": False, "error": error}, **headers)


class Slack(stages.Platform):
    def __init__(self):
        super().__init__()
        self.last, self.opened, self.by_ts, self.waiting = 0, 0, {}, {}

    def new_ts(self):
        self.last = max(self.last + 1, int(time.time() * 1000))
        return f"{self.last // 1000}.{self.last % 1000:03}000"

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
            url = self.holds(file_id, data)
            event["subtype"] = "file_share"
            event["files"] = [{"id": file_id, "name": said["file"]["name"], "mimetype": "text/plain", "size": len(data), "url_private": url}]
        self.by_ts[event["ts"]] = event
        if self.fault("malformed"):
            await self.deliver({"type": "message", "channel": ["no", "id"], "ts": 7})
        await self.deliver(event)
        return {"id": event["ts"]}

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

    def answered(self, _, target, headers, body):
        asked = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        token = headers.get("authorization", "").removeprefix("Bearer ")
        return {"ok": True, **self.answer(target.removeprefix("/api/"), token, asked)}

    def answer(self, method, token, asked):
        if self.expired:
            raise refused("invalid_auth")
        if method == "apps.connections.open":
            if not token.startswith("xapp-"):
                raise refused("not_allowed_token_type")
            return {"url": f"ws://127.0.0.1:{self.port}/link/?ticket=certify"}
        if not token.startswith("xoxb-"):
            raise refused("not_allowed_token_type")
        if method == "auth.test":
            return {"team": "Certify", "team_id": TEAM, "user": "hermes", "user_id": BOT, "bot_id": BOT_ID}
        if method == "users.info":
            return {"user": {"id": asked["user"], "name": asked["user"].lower(), "profile": {}}}
        if method == "conversations.info":
            return {"channel": {"id": asked["channel"], "name": "certify"}}
        if method == "conversations.open":
            return {"channel": {"id": asked["users"].replace("U", "D", 1)}}
        if method == "assistant.threads.setStatus":
            return {}
        if method == "files.getUploadURLExternal" and self.fault("file"):
            raise refused("missing_scope")
        if method in ("chat.postMessage", "chat.update"):
            return self.write(asked)
        raise refused("unknown_method")

    def write(self, asked):
        limited = self.fault("429")
        if limited:
            raise refused("ratelimited", 429, **{"Retry-After": int(limited.get("retry_after_s", 1))})
        if self.fault("5xx"):
            raise refused("fatal_error", 502)
        blocks = json.loads(asked.get("blocks") or "[]")
        sections = [block["text"]["text"] for block in blocks if block["type"] == "section"]
        if len(asked["text"]) > TEXT_LIMIT:
            raise refused("msg_too_long")
        if any(len(section) > SECTION_LIMIT for section in sections):
            raise refused("invalid_blocks")
        if asked.get("unfurl_links") != "false" and "ts" not in asked:
            raise refused("invalid_arguments")
        text = "".join(sections) or asked["text"]
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        self.written.append({"channel": asked["channel"], "text": text})
        return {"channel": asked["channel"], "ts": self.new_ts()}


class Line(stages.Line):
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


Slack.LINE = Line

if __name__ == "__main__":
    stages.play(Slack, "/api")
