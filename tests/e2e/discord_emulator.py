"""A Discord emulator: HTTP API v10 and gateway for one bot, with the refusals of the platform.

    discord_emulator.py PORT

Every body is checked for field names and types, for the documented limits (2000 characters, 25 of a nonce, 5
buttons per row, …) and for required fields; errors are answered with 50035 and recorded in the verdict. With
DISCORD_SCHEMAS (see `discord_schemas.mjs`) every body must also match the published description. The gateway keeps
sessions: an interrupted connection can be resumed and gets the missed events; hello, heartbeats, close codes,
intents and zlib-stream are as documented. Requests are counted in buckets, and a request beyond the limit is
answered with 429.

Messages of people and faults are controlled over `/_sim/...` (see `SIM`). The emulator listens on loopback only
and is checked by `check_discord_emulator.py` with discord.py. Sources:
https://docs.discord.com/developers/reference and the pages that it links.
"""

import asyncio
import json
import os
import re
import sys
import time
import zlib

from aiohttp import WSMsgType, web

PORT = int(sys.argv[1])
TOKEN = "NDI.TESTTO.TESTTOKENTESTTOKENTESTTOKENTEST"
BOT = {"id": "42", "username": "hermes", "global_name": "Hermes", "discriminator": "0", "avatar": None, "bot": True}
APPLICATION, GUILD, BOT_ROLE = "4200", "1", "5"
CONTENT = 1 << 15
PRIVILEGED = (1 << 1) | (1 << 8) | CONTENT
ALL_INTENTS = (1 << 26) - 1
EPOCH_MS = 1420070400000
TEXT, DM, VOICE, CATEGORY, NEWS, FORUM = 0, 1, 2, 4, 5, 15
THREADS = {10, 11, 12}


class Refusal(Exception):
    def __init__(self, status, code, message, errors=None):
        super().__init__(message)
        self.status, self.body = status, {"code": code, "message": message, **({"errors": errors} if errors else {})}


class World:
    def __init__(self):
        self.last_id = 0
        self.channels, self.messages, self.files, self.nonces = {}, {}, {}, {}
        self.sessions, self.sockets, self.gateway_log = {}, [], []
        self.journal, self.faults, self.buckets, self.typing = [], [], {}, []
        self.commands, self.interactions = [], {}
        self.settings = {"heartbeat_ms": 41250, "may_read": True, "shards": 1, "start_remaining": 1000, "silent": False,
                         "bucket_limit": 1000, "bucket_window": 1.0, "threads": True, "bare_threads": True, "resume": True}
        for channel, kind, name in (("9", CATEGORY, "Talk"), ("10", TEXT, "general"), ("11", TEXT, "random"), ("12", VOICE, "lounge"),
                                    ("13", NEWS, "news"), ("14", FORUM, "questions")):
            self.channels[channel] = {"id": channel, "type": kind, "guild_id": GUILD, "name": name, "position": 0, "nsfw": False,
                                      "permission_overwrites": [], "parent_id": None if kind == CATEGORY else "9", "flags": 0}
        self.channels["12"] |= {"bitrate": 64000, "user_limit": 0, "rtc_region": None}
        self.channels["14"]["available_tags"] = [{"id": "900", "name": "open", "moderated": False, "emoji_id": None, "emoji_name": None}]

    def new_id(self):
        """Returns an id that contains the time and is greater than all earlier ones."""
        self.last_id = max(self.last_id + 1, (int(time.time() * 1000) - EPOCH_MS) << 22)
        return str(self.last_id)

    def dm(self, user):
        found = next((c for c in self.channels.values() if c["type"] == DM and c["recipients"][0]["id"] == str(user)), None)
        if not found:
            channel = self.new_id()
            found = self.channels[channel] = {"id": channel, "type": DM, "last_message_id": None, "flags": 0, "recipients": [person(user)]}
        return found


WORLD = World()


def published():
    """Returns the schemas of bodies by route."""
    if not os.environ.get("DISCORD_SCHEMAS"):
        return {}
    from jsonschema import Draft202012Validator
    with open(os.environ["DISCORD_SCHEMAS"], encoding="utf-8") as file:
        return {route: [Draft202012Validator(schema) for schema in schemas] for route, schemas in json.load(file).items()}


SCHEMAS = published()


def with_textual_ids(value):
    """Converts ids to text. The API also accepts numbers, but the description only names strings."""
    if isinstance(value, dict):
        return {k: str(v) if (k == "id" or k.endswith("_id")) and isinstance(v, int) else with_textual_ids(v) for k, v in value.items()}
    return [with_textual_ids(one) for one in value] if isinstance(value, list) else value


def beside_the_description(route, body):
    """Returns the errors of a body by the published description. If one of several schemas must match, the best match
    counts."""
    bodies = with_textual_ids(body if isinstance(body, list) else [body])
    tries = [[f"{fault.json_path}: {fault.message[:200]}" for one in bodies for fault in schema.iter_errors(one)] for schema in SCHEMAS.get(route, [])]
    return min(tries, key=len, default=[])


def person(user, **more):
    return {"id": str(user), "username": f"user{user}", "global_name": f"User {user}", "discriminator": "0", "avatar": None, "bot": False, **more}


def reply(data, status=200, headers=None):
    """Returns JSON like the platform: its content type has no charset."""
    return web.Response(body=json.dumps(data).encode(), status=status, headers=headers, content_type="application/json")


def stamp(at=None):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at or time.time())) + ".%06d+00:00" % (time.time_ns() // 1000 % 1000000)


# --- the gateway ----------------------------------------------------------------------------------

class Session:
    def __init__(self, identify):
        self.id, self.seq, self.events = f"session-{WORLD.new_id()}", 0, []
        self.intents, self.shard, self.socket = identify["intents"], identify.get("shard", [0, 1]), None

    def hears(self, data):
        if "guild_id" not in data:
            return self.shard[0] == 0
        return (int(data["guild_id"]) >> 22) % self.shard[1] == self.shard[0]

    async def tell(self, name, data):
        self.seq += 1
        payload = {"op": 0, "t": name, "s": self.seq, "d": data}
        self.events.append(payload)
        if self.socket:
            await self.socket.say(payload)


class Wire:
    """A websocket, plain or as one zlib stream."""

    def __init__(self, ws, compress):
        self.ws, self.deflate = ws, zlib.compressobj() if compress else None
        self.session, self.closed_here = None, False

    async def say(self, payload):
        try:
            text = json.dumps(payload)
            if self.deflate:
                await self.ws.send_bytes(self.deflate.compress(text.encode()) + self.deflate.flush(zlib.Z_SYNC_FLUSH))
            else:
                await self.ws.send_str(text)
        except (ConnectionError, RuntimeError):
            pass

    def gone(self):
        if self.session and self.session.socket is self:
            self.session.socket = None
        if self in WORLD.sockets:
            WORLD.sockets.remove(self)


def without_content(message):
    return {**message, "content": "", "attachments": [], "embeds": [], "components": []}


async def dispatch(name, data):
    """Sends an event to every session, with the content of messages if the intents allow it."""
    for session in list(WORLD.sessions.values()):
        if not session.hears(data):
            continue
        told = data
        if name.startswith("MESSAGE_") and "content" in data and not session.intents & CONTENT:
            called = any(user["id"] == BOT["id"] for user in data["mentions"])
            if "guild_id" in data and not called and data["author"]["id"] != BOT["id"]:
                told = without_content(data)
        await session.tell(name, told)


def guild():
    channels = [c for c in WORLD.channels.values() if c.get("guild_id") == GUILD]
    return {"id": GUILD, "name": "The Guild", "unavailable": False, "member_count": 3, "large": False, "joined_at": stamp(), "owner_id": "7",
            "channels": [c for c in channels if c["type"] not in THREADS], "threads": [c for c in channels if c["type"] in THREADS],
            "roles": [{"id": GUILD, "name": "@everyone", "permissions": "0", "position": 0, "color": 0, "hoist": False, "managed": False, "mentionable": False, "flags": 0},
                      {"id": BOT_ROLE, "name": "hermes", "permissions": "0", "position": 1, "color": 0, "hoist": False, "managed": True, "mentionable": True,
                       "flags": 0, "tags": {"bot_id": BOT["id"]}}],
            "members": [{"user": BOT, "roles": [BOT_ROLE], "joined_at": stamp(), "deaf": False, "mute": False, "flags": 0}], "presences": [],
            "emojis": [], "stickers": [], "features": [], "voice_states": [], "stage_instances": [], "guild_scheduled_events": [],
            "verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0, "mfa_level": 0, "nsfw_level": 0,
            "premium_tier": 0, "preferred_locale": "en-US", "system_channel_flags": 0, "premium_progress_bar_enabled": False,
            "afk_timeout": 300, "application_id": None, "icon": None, "splash": None, "banner": None, "description": None}


async def identify(wire, data):
    WORLD.gateway_log.append({"op": "identify", "shard": data.get("shard"), "intents": data.get("intents"), "at": time.time()})
    if data.get("token") != TOKEN:
        return await wire.ws.close(code=4004, message=b"Authentication failed.")
    if not isinstance(data.get("intents"), int) or data["intents"] & ~ALL_INTENTS:
        return await wire.ws.close(code=4013, message=b"Invalid intent(s).")
    if data["intents"] & PRIVILEGED and not WORLD.settings["may_read"]:
        return await wire.ws.close(code=4014, message=b"Disallowed intent(s).")
    shard = data.get("shard", [0, 1])
    if not (0 <= shard[0] < shard[1]):
        return await wire.ws.close(code=4010, message=b"Invalid shard.")
    if shard[1] < WORLD.settings["shards"]:
        return await wire.ws.close(code=4011, message=b"Sharding required.")
    if not isinstance(data.get("properties"), dict):
        return await wire.ws.close(code=4002, message=b"Error while decoding payload.")
    session = Session(data)
    WORLD.sessions[session.id] = session
    session.socket, wire.session = wire, session
    await session.tell("READY", {"v": 10, "user": {**BOT, "mfa_enabled": False, "verified": True, "email": None, "flags": 0},
                                 "guilds": [{"id": GUILD, "unavailable": True}], "session_id": session.id, "session_type": "normal",
                                 "resume_gateway_url": f"ws://127.0.0.1:{PORT}/gateway", "shard": shard, "private_channels": [],
                                 "application": {"id": APPLICATION, "flags": 1 << 19}})
    if session.hears({"guild_id": GUILD}):
        await session.tell("GUILD_CREATE", guild())


async def resume(wire, data):
    WORLD.gateway_log.append({"op": "resume", "seq": data.get("seq"), "session": data.get("session_id"), "at": time.time()})
    if data.get("token") != TOKEN:
        return await wire.ws.close(code=4004, message=b"Authentication failed.")
    session = WORLD.sessions.get(data.get("session_id")) if WORLD.settings["resume"] else None
    if not session:
        return await wire.say({"op": 9, "d": False})
    if data["seq"] > session.seq:
        return await wire.ws.close(code=4007, message=b"Invalid seq.")
    session.socket, wire.session = wire, session
    for event in [e for e in session.events if e["s"] > data["seq"]]:
        await wire.say(event)
    await session.tell("RESUMED", {"_trace": []})
    session.events.pop()


async def gateway(request):
    if request.query.get("v") not in ("9", "10") or request.query.get("encoding") != "json":
        WORLD.journal.append({"route": "GET gateway", "errors": [f"query {dict(request.query)}"], "body": None})
    ws = web.WebSocketResponse(max_msg_size=4096, autoping=True)
    await ws.prepare(request)
    wire = Wire(ws, request.query.get("compress") == "zlib-stream")
    WORLD.sockets.append(wire)
    try:
        await wire.say({"op": 10, "d": {"heartbeat_interval": WORLD.settings["heartbeat_ms"]}, "s": None, "t": None})
        async for message in ws:
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                continue
            payload = json.loads(message.data)
            op, data = payload["op"], payload["d"]
            if op == 1:
                WORLD.gateway_log.append({"op": "heartbeat", "seq": data, "at": time.time()})
                if not WORLD.settings["silent"]:
                    await wire.say({"op": 11, "d": None})
            elif op == 2 and wire.session:
                await ws.close(code=4005, message=b"Already authenticated.")
            elif op == 2:
                await identify(wire, data)
            elif op == 6:
                await resume(wire, data)
            elif op not in (3, 4, 8):
                await ws.close(code=4001, message=b"Unknown opcode.")
    finally:
        wire.gone()
        code = ws.close_code
        WORLD.gateway_log.append({"op": "closed", "code": code, "at": time.time()})
        # A session ends only if the bot closes it; the close code is unknown if the server closed first.
        if wire.session and not wire.closed_here and code in (1000, 1001):
            WORLD.sessions.pop(wire.session.id, None)
    return ws


# --- what a body may hold -------------------------------------------------------------------------

def fault(errors, where, code, message):
    errors.append((where, code, message))


def check(body, fields, needed, where, errors):
    """Appends the errors of an object."""
    if not isinstance(body, dict):
        return fault(errors, where, "MODEL_TYPE_CONVERT", "Only dictionaries may be used")
    for key, value in body.items():
        if key not in fields:
            fault(errors, f"{where}.{key}", "UNKNOWN_FIELD", "the documentation names no such field")
        elif value is not None:
            fields[key](value, f"{where}.{key}", errors)
    for key in needed:
        if body.get(key) is None:
            fault(errors, f"{where}.{key}", "BASE_TYPE_REQUIRED", "This field is required")


def text(most, least=0, pattern=None):
    def look(value, where, errors):
        if not isinstance(value, str):
            fault(errors, where, "STRING_TYPE_CONVERT", "not a string")
        elif len(value) > most:
            fault(errors, where, "BASE_TYPE_MAX_LENGTH", f"Must be {most} or fewer in length.")
        elif len(value) < least:
            fault(errors, where, "BASE_TYPE_MIN_LENGTH", f"Must be {least} or more in length.")
        elif pattern and not re.fullmatch(pattern, value):
            fault(errors, where, "STRING_TYPE_REGEX", f"does not match {pattern}")
    return look


def number(*allowed):
    def look(value, where, errors):
        if isinstance(value, bool) or not isinstance(value, int) or (allowed and value not in allowed):
            fault(errors, where, "NUMBER_TYPE_COERCE", f"{value!r} is not one of {allowed}")
    return look


def flag(value, where, errors):
    if not isinstance(value, bool):
        fault(errors, where, "BOOLEAN_TYPE_CONVERT", "not a boolean")


def snowflake(value, where, errors):
    if not str(value).isdigit():
        fault(errors, where, "NUMBER_TYPE_COERCE", f"{value!r} is not snowflake")


def any_value(value, where, errors):
    pass


def listed(most, look):
    def look_at_all(value, where, errors):
        if not isinstance(value, list) or len(value) > most:
            return fault(errors, where, "BASE_TYPE_MAX_LENGTH", f"Must be a list of {most} or fewer.")
        for n, one in enumerate(value):
            look(one, f"{where}.{n}", errors)
    return look_at_all


def shaped(fields, needed=()):
    return lambda value, where, errors: check(value, fields, needed, where, errors)


def component(value, where, errors):
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == 1:
        check(value, {"type": number(1), "id": number(), "components": listed(5, component)}, ("components",), where, errors)
    elif kind == 2:
        check(value, {"type": number(2), "style": number(1, 2, 3, 4), "label": text(80, 1), "custom_id": text(100, 1), "disabled": flag, "emoji": any_value, "id": number()},
              ("style", "custom_id"), where, errors)
    else:
        fault(errors, where, "UNION_TYPE_CHOICES", f"no component of type {kind!r}")


MENTIONS = shaped({"parse": listed(3, lambda v, w, e: None if v in ("users", "roles", "everyone") else fault(e, w, "ENUM", v)),
                   "users": listed(100, snowflake), "roles": listed(100, snowflake), "replied_user": flag})
ATTACHMENT = shaped({"id": snowflake, "filename": text(1024, 1), "description": text(1024), "title": text(1024)}, ("id",))
CHANGE = {"content": text(2000), "embeds": listed(10, any_value), "flags": number(), "allowed_mentions": MENTIONS,
          "components": listed(5, component), "attachments": listed(10, ATTACHMENT), "tts": flag}
MESSAGE = {**CHANGE, "nonce": text(25), "enforce_nonce": flag, "sticker_ids": listed(3, snowflake), "poll": any_value,
           "message_reference": shaped({"message_id": snowflake, "channel_id": snowflake, "guild_id": snowflake, "fail_if_not_exists": flag, "type": number(0, 1)}, ("message_id",))}
ARCHIVE = number(60, 1440, 4320, 10080)
COMMAND_NAME = r"[-_'a-z0-9À-￿]{1,32}"
OPTION = shaped({"type": number(*range(3, 12)), "name": text(32, 1, COMMAND_NAME), "description": text(100, 1), "required": flag, "choices": any_value,
                 "autocomplete": flag, "name_localizations": any_value, "description_localizations": any_value, "min_length": number(), "max_length": number(), "options": any_value}, ("type", "name", "description"))
COMMAND = shaped({"type": number(1, 2, 3), "name": text(32, 1, COMMAND_NAME), "description": text(100, 1), "options": listed(25, OPTION), "contexts": listed(3, number(0, 1, 2)),
                  "integration_types": listed(2, number(0, 1)), "nsfw": flag, "default_member_permissions": any_value, "dm_permission": flag, "name_localizations": any_value,
                  "description_localizations": any_value}, ("name", "description"))


def validate(body, fields, needed=()):
    errors = []
    check(body, fields, needed, "", errors)
    if errors:
        tree = {}
        for where, code, message in errors:
            place = tree
            for step in where.strip(".").split("."):
                place = place.setdefault(step, {})
            place.setdefault("_errors", []).append({"code": code, "message": message})
        WORLD.journal[-1]["errors"] += [f"{where}: {code} {message}" for where, code, message in errors]
        raise Refusal(400, 50035, "Invalid Form Body", tree)


# --- the HTTP API ---------------------------------------------------------------------------------

def channel_of(channel):
    found = WORLD.channels.get(channel)
    if not found:
        raise Refusal(404, 10003, "Unknown Channel")
    if found.get("forbidden"):
        raise Refusal(403, 50001, "Missing Access")
    return found


def message_of(channel, message):
    found = WORLD.messages.get(message)
    if not found or found["channel_id"] != channel:
        raise Refusal(404, 10008, "Unknown Message")
    return found


def mentioned(content):
    ids = dict.fromkeys(re.findall(r"<@!?(\d+)>", content))
    return [BOT if user == BOT["id"] else person(user) for user in ids]


def make(channel, author, body, files=(), **more):
    message, place = WORLD.new_id(), WORLD.channels[channel]
    attachments = []
    for n, (name, kind, data) in enumerate(files):
        file = WORLD.new_id()
        WORLD.files[file] = (kind, data)
        attachments.append({"id": file, "filename": name, "size": len(data), "content_type": kind, "url": f"http://127.0.0.1:{PORT}/attachments/{file}/{name}",
                            "proxy_url": f"http://127.0.0.1:{PORT}/attachments/{file}/{name}"})
    made = {"id": message, "channel_id": channel, "author": author, "content": body.get("content") or "", "timestamp": stamp(), "edited_timestamp": None,
            "tts": False, "mention_everyone": False, "mentions": mentioned(body.get("content") or ""),
            "mention_roles": re.findall(r"<@&(\d+)>", body.get("content") or ""), "attachments": attachments, "embeds": body.get("embeds") or [],
            "pinned": False, "type": 0, "flags": body.get("flags", 0), "components": body.get("components") or [], "channel_type": place["type"], **more}
    if place.get("guild_id"):
        made["guild_id"] = place["guild_id"]
    if body.get("nonce"):
        made["nonce"] = body["nonce"]
    reference = body.get("message_reference")
    answered = reference and WORLD.messages.get(str(reference["message_id"]))
    if answered and answered["channel_id"] == channel:
        made |= {"type": 19, "message_reference": {"message_id": answered["id"], "channel_id": channel},
                 "referenced_message": {k: v for k, v in answered.items() if k not in ("referenced_message", "history")}}
        # A reply mentions its addressee, unless mentions are disabled.
        if (body.get("allowed_mentions") or {}).get("replied_user", True) and answered["author"]["id"] not in [u["id"] for u in made["mentions"]]:
            made["mentions"].append(answered["author"])
    elif reference and reference.get("fail_if_not_exists", True):
        raise Refusal(400, 50035, "Invalid Form Body", {"message_reference": {"_errors": [{"code": "REPLIES_UNKNOWN_MESSAGE", "message": "Unknown message"}]}})
    WORLD.messages[message] = made
    return made


def public(message):
    given = [{"emoji": {"id": None, "name": emoji}, "count": 1, "count_details": {"burst": 0, "normal": 1}, "burst_colors": [],
              "me": True, "me_burst": False} for emoji in message.get("_reactions", [])]
    shown = {k: v for k, v in message.items() if k not in ("history", "ephemeral") and not k.startswith("_")}
    return {**shown, "reactions": given} if given else shown


async def create_message(body, files, channel):
    place = channel_of(channel)
    validate(body, MESSAGE)
    if place["type"] in (CATEGORY, FORUM):
        raise Refusal(400, 50024, "Cannot execute action on this channel type")
    if place.get("thread_metadata", {}).get("locked"):
        raise Refusal(400, 160005, "Thread is locked")
    if not (body.get("content") or "").strip() and not files and not body.get("components"):
        raise Refusal(400, 50006, "Cannot send an empty message")
    if any(len(data) > 10 << 20 for _, _, data in files):
        raise Refusal(413, 40005, "Request entity too large")
    nonce = body.get("nonce")
    if nonce and body.get("enforce_nonce") and nonce in WORLD.nonces:
        return public(WORLD.messages[WORLD.nonces[nonce]])
    made = make(channel, BOT, body, files)
    if nonce:
        WORLD.nonces[nonce] = made["id"]
    await dispatch("MESSAGE_CREATE", public(made))
    return public(made)


async def change(message, body):
    message.setdefault("history", []).append(message["content"])
    for key in ("content", "components", "flags"):
        if key in body and body[key] is not None:
            message[key] = body[key]
    message["edited_timestamp"] = stamp()
    if not message.get("ephemeral"):
        await dispatch("MESSAGE_UPDATE", public(message))
    return public(message)


async def edit_message(body, files, channel, message):
    channel_of(channel)
    found = message_of(channel, message)
    validate(body, CHANGE)
    if found.get("ephemeral"):
        raise Refusal(404, 10008, "Unknown Message")
    if found["author"]["id"] != BOT["id"]:
        raise Refusal(403, 50005, "Cannot edit a message authored by another user")
    return await change(found, body)


async def delete_message(body, files, channel, message):
    message_of(channel, message)
    del WORLD.messages[message]
    await dispatch("MESSAGE_DELETE", {"id": message, "channel_id": channel, **({"guild_id": GUILD} if WORLD.channels[channel].get("guild_id") else {})})


async def typing(body, files, channel):
    channel_of(channel)
    WORLD.typing.append({"channel": channel, "at": time.time()})


async def react(body, files, channel, message, emoji):
    found = message_of(channel, message)
    found.setdefault("_reactions", []).append(emoji)
    found.setdefault("_reacted", []).append("+" + emoji)


async def take_reaction_back(body, files, channel, message, emoji):
    found = message_of(channel, message)
    if emoji not in found.get("_reactions", []):
        raise Refusal(404, 10014, "Unknown Emoji")
    found["_reactions"].remove(emoji)
    found["_reacted"].append("-" + emoji)


def new_thread(parent, name, thread, kind):
    made = {"id": thread, "type": kind, "guild_id": GUILD, "name": name, "parent_id": parent["id"], "owner_id": BOT["id"], "flags": 0,
            "message_count": 0, "member_count": 1, "rate_limit_per_user": 0, "last_message_id": None,
            "thread_metadata": {"archived": False, "auto_archive_duration": 1440, "archive_timestamp": stamp(), "locked": False}}
    WORLD.channels[thread] = made
    return made


async def thread_from_message(body, files, channel, message):
    parent = channel_of(channel)
    validate(body, {"name": text(100, 1), "auto_archive_duration": ARCHIVE, "rate_limit_per_user": number()}, ("name",))
    message_of(channel, message)
    if not WORLD.settings["threads"]:
        raise Refusal(403, 50013, "Missing Permissions")
    if message in WORLD.channels:
        raise Refusal(400, 160004, "A thread has already been created for this message")
    if parent["type"] not in (TEXT, NEWS):
        raise Refusal(400, 50024, "Cannot execute action on this channel type")
    made = new_thread(parent, body["name"], message, 10 if parent["type"] == NEWS else 11)
    made["thread_metadata"]["auto_archive_duration"] = body.get("auto_archive_duration", 1440)
    await dispatch("THREAD_CREATE", {**made, "newly_created": True})
    return made


async def thread_without_message(body, files, channel):
    parent = channel_of(channel)
    common = {"name": text(100, 1), "auto_archive_duration": ARCHIVE, "rate_limit_per_user": number()}
    if parent["type"] == FORUM:
        validate(body, {**common, "message": shaped(MESSAGE), "applied_tags": listed(5, snowflake), "type": number()}, ("name", "message"))
        made = new_thread(parent, body["name"], WORLD.new_id(), 11)
        first = make(made["id"], BOT, body["message"])
        await dispatch("THREAD_CREATE", {**made, "newly_created": True})
        await dispatch("MESSAGE_CREATE", public(first))
        return {**made, "message": public(first)}
    validate(body, {**common, "type": number(10, 11, 12), "invitable": flag}, ("name",))
    if parent["type"] not in (TEXT, NEWS):
        raise Refusal(400, 50024, "Cannot execute action on this channel type")
    if not WORLD.settings["bare_threads"]:
        raise Refusal(403, 50013, "Missing Permissions")
    made = new_thread(parent, body["name"], WORLD.new_id(), body.get("type", 12))
    made["thread_metadata"]["auto_archive_duration"] = body.get("auto_archive_duration", 1440)
    await dispatch("THREAD_CREATE", {**made, "newly_created": True})
    return made


async def rename(body, files, channel):
    found = channel_of(channel)
    validate(body, {"name": text(100, 1), "archived": flag, "locked": flag, "auto_archive_duration": ARCHIVE})
    found |= {k: body[k] for k in ("name",) if k in body}
    await dispatch("THREAD_UPDATE" if found["type"] in THREADS else "CHANNEL_UPDATE", found)
    return found


async def open_dm(body, files):
    validate(body, {"recipient_id": snowflake}, ("recipient_id",))
    return WORLD.dm(body["recipient_id"])


async def set_commands(body, files, application):
    if not isinstance(body, list) or len(body) > 100:
        raise Refusal(400, 30032, "Maximum number of application commands reached (100)")
    for command in body:
        validate({"command": command}, {"command": COMMAND})
    names = [command["name"] for command in body]
    if len(set(names)) != len(names):
        raise Refusal(400, 50035, "Invalid Form Body", {"name": {"_errors": [{"code": "APPLICATION_COMMANDS_DUPLICATE_NAME", "message": "twice"}]}})
    WORLD.commands = [{"id": WORLD.new_id(), "application_id": application, "version": WORLD.new_id(), "default_member_permissions": None, **command} for command in body]
    return WORLD.commands


async def answer_interaction(body, files, interaction, token):
    found = WORLD.interactions.get(token)
    if not found or found["id"] != interaction or time.time() - found["at"] > 3:
        raise Refusal(404, 10062, "Unknown interaction")
    if found["acknowledged"]:
        raise Refusal(400, 40060, "Interaction has already been acknowledged.")
    validate(body, {"type": number(1, 4, 5, 6, 7, 8, 9), "data": shaped(CHANGE)}, ("type",))
    data = body.get("data") or {}
    found |= {"acknowledged": body["type"], "ephemeral": bool(data.get("flags", 0) & 64)}
    if body["type"] == 4:
        made = make(found["channel"], BOT, data, ephemeral=found["ephemeral"])
        found["original"] = made["id"]
    return {"interaction": {"id": interaction, "type": found["kind"], "response_message_loading": body["type"] == 5,
                            "response_message_ephemeral": found["ephemeral"], **({"response_message_id": found["original"]} if found["original"] else {})}}


def hook_of(token):
    found = WORLD.interactions.get(token)
    if not found:
        raise Refusal(401, 50027, "Invalid Webhook Token")
    if found.get("expired") or not found["acknowledged"]:
        raise Refusal(404, 10015, "Unknown Webhook")
    return found


async def edit_answer(body, files, application, token, message):
    found = hook_of(token)
    validate(body, CHANGE)
    if message == "@original" and found["acknowledged"] == 5 and not found["original"]:
        if not (body.get("content") or "").strip() and not files:
            raise Refusal(400, 50006, "Cannot send an empty message")
        made = make(found["channel"], BOT, body, files, ephemeral=found["ephemeral"])
        made["flags"] |= 64 if found["ephemeral"] else 0
        found["original"] = made["id"]
        found["messages"].append(made["id"])
        if not found["ephemeral"]:
            await dispatch("MESSAGE_CREATE", public(made))
        return public(made)
    message = found["original"] if message == "@original" else message
    if message not in found["messages"]:
        raise Refusal(404, 10008, "Unknown Message")
    return await change(WORLD.messages[message], body)


async def follow_up(body, files, application, token):
    found = hook_of(token)
    validate(body, CHANGE)
    hidden = bool(body.get("flags", 0) & 64)
    made = make(found["channel"], BOT, body, files, ephemeral=hidden)
    found["messages"].append(made["id"])
    if not hidden:
        await dispatch("MESSAGE_CREATE", public(made))
    return public(made)


async def me(body, files):
    return {**BOT, "flags": 0, "verified": True, "email": None, "mfa_enabled": False}


async def application(body, files):
    return {"id": APPLICATION, "name": "hermes", "icon": None, "description": "", "bot_public": True, "bot_require_code_grant": False, "verify_key": "x",
            "flags": (1 << 19) if WORLD.settings["may_read"] else 0, "owner": person(7), "rpc_origins": [], "terms_of_service_url": None, "privacy_policy_url": None,
            "summary": "", "team": None}


async def roles(body, files, guild_id):
    return guild()["roles"]


async def active_threads(body, files, guild_id):
    return {"threads": [c for c in WORLD.channels.values() if c["type"] in THREADS], "members": []}


async def gateway_bot(body, files):
    return {"url": f"ws://127.0.0.1:{PORT}/gateway", "shards": WORLD.settings["shards"],
            "session_start_limit": {"total": 1000, "remaining": WORLD.settings["start_remaining"], "reset_after": 3000, "max_concurrency": 16}}


async def channel(body, files, channel):
    return channel_of(channel)


async def get_message(body, files, channel, message):
    channel_of(channel)
    return public(message_of(channel, message))


ROUTES = [(method, re.compile("^" + re.sub(r"\{(\w+)\}", r"([^/]+)", path) + "$"), handler, path) for method, path, handler in (
    ("GET", "users/@me", me), ("GET", "applications/@me", application), ("GET", "oauth2/applications/@me", application),
    ("GET", "gateway/bot", gateway_bot), ("GET", "guilds/{guild}/roles", roles), ("GET", "guilds/{guild}/threads/active", active_threads), ("GET", "channels/{channel}", channel), ("PATCH", "channels/{channel}", rename),
    ("POST", "users/@me/channels", open_dm), ("POST", "channels/{channel}/messages", create_message),
    ("GET", "channels/{channel}/messages/{message}", get_message), ("PATCH", "channels/{channel}/messages/{message}", edit_message),
    ("DELETE", "channels/{channel}/messages/{message}", delete_message), ("POST", "channels/{channel}/typing", typing),
    ("PUT", "channels/{channel}/messages/{message}/reactions/{emoji}/@me", react),
    ("DELETE", "channels/{channel}/messages/{message}/reactions/{emoji}/@me", take_reaction_back), ("POST", "channels/{channel}/threads", thread_without_message),
    ("POST", "channels/{channel}/messages/{message}/threads", thread_from_message), ("PUT", "applications/{application}/commands", set_commands),
    ("POST", "interactions/{interaction}/{token}/callback", answer_interaction), ("PATCH", "webhooks/{application}/{token}/messages/{message}", edit_answer),
    ("POST", "webhooks/{application}/{token}", follow_up))]


async def body_of(request):
    """Returns the JSON of a request and its files."""
    if not request.can_read_body:
        return None, []
    if request.content_type.startswith("multipart/"):
        body, files = None, []
        async for part in await request.multipart():
            data = await part.read(decode=False)
            if part.name == "payload_json":
                body = json.loads(data)
            elif re.fullmatch(r"files\[\d+\]", part.name or ""):
                files.append((part.filename or "file", part.headers.get("content-type", "application/octet-stream"), bytes(data)))
            else:
                WORLD.journal[-1]["errors"].append(f"a part is called {part.name!r}")
        named = {str(a["id"]) for a in (body or {}).get("attachments") or []}
        if named and named != {str(n) for n in range(len(files))}:
            WORLD.journal[-1]["errors"].append(f"attachments {named} for {len(files)} files")
        return body or {}, files
    if request.content_type != "application/json":
        WORLD.journal[-1]["errors"].append(f"content type {request.content_type}")
    return await request.json(), []


def take_bucket(method, path):
    """Counts a request. Returns the headers, and the wait if there are too many requests."""
    major = "/".join(path.split("/")[:2])
    name = f"{method} {re.sub(r'/[0-9]+', '/:', path)}"
    bucket = WORLD.buckets.setdefault((name, major), {"left": WORLD.settings["bucket_limit"], "until": time.time() + WORLD.settings["bucket_window"]})
    if bucket["until"] <= time.time():
        bucket |= {"left": WORLD.settings["bucket_limit"], "until": time.time() + WORLD.settings["bucket_window"]}
    wait = max(bucket["until"] - time.time(), 0.001)
    over = bucket["left"] <= 0
    bucket["left"] = max(bucket["left"] - 1, 0)
    return {"X-RateLimit-Limit": str(WORLD.settings["bucket_limit"]), "X-RateLimit-Remaining": str(bucket["left"]), "X-RateLimit-Reset-After": f"{wait:.3f}",
            "X-RateLimit-Reset": f"{bucket['until']:.3f}", "X-RateLimit-Bucket": f"{abs(hash(name)):x}"}, wait if over else None


def limited(wait, headers=None, everything=False):
    scope = "global" if everything else "user"
    more = {"X-RateLimit-Global": "true"} if everything else {}
    return reply({"message": "You are being rate limited.", "retry_after": wait, "global": everything}, status=429,
                             headers={**(headers or {}), **more, "Retry-After": str(int(wait) + 1), "X-RateLimit-Scope": scope})


def fault_for(route):
    for one in WORLD.faults:
        if one["times"] > 0 and re.search(one["route"], route):
            one["times"] -= 1
            return one
    return None


async def api(request):
    path, method = request.match_info["path"], request.method
    entry = {"route": f"{method} {path}", "errors": [], "body": None, "at": time.time()}
    WORLD.journal.append(entry)
    if not path.startswith(("interactions/", "webhooks/")) and request.headers.get("authorization") != f"Bot {TOKEN}":
        return reply({"message": "401: Unauthorized", "code": 0}, status=401)
    if "authorization" in request.headers and not request.headers.get("user-agent", "").startswith("DiscordBot ("):
        entry["errors"].append(f"user agent {request.headers.get('user-agent')!r}")
    found = next(((handler, m.groups(), template) for verb, pattern, handler, template in ROUTES if verb == method and (m := pattern.match(path))), None)
    if not found:
        entry["errors"].append("unknown route")
        return reply({"message": "404: Not Found", "code": 0}, status=404)
    planned = fault_for(entry["route"])
    if planned:
        entry["fault"] = kind = planned["kind"]
        if kind == "429":
            return limited(planned["retry_after"], everything=planned["global"])
        if kind == "5xx":
            return web.Response(status=502, text="<html>Bad Gateway</html>", content_type="text/html")
        if kind == "refuse":
            return reply({"code": planned["code"], "message": "refused on request"}, status=planned["status"])
        if kind == "malformed":
            return web.Response(text='{"id":', content_type="application/json")
        if kind == "cut":
            request.transport.abort()
            return web.Response()
        if kind == "slow":
            await asyncio.sleep(planned["delay_s"])
    headers, over = take_bucket(method, path)
    if over is not None:
        entry["limited"] = True
        return limited(over, headers)
    try:
        body, files = await body_of(request)
        entry["body"] = body
        handler, groups, template = found
        entry["errors"] += [f"beside the published description: {wrong}" for wrong in beside_the_description(f"{method} {template}", body)]
        result = await handler(body, files, *groups)
    except Refusal as refusal:
        entry["refused"] = refusal.body
        return reply(refusal.body, status=refusal.status, headers=headers)
    if path.startswith("interactions/") and request.query.get("with_response") not in ("true", "True", "1"):
        result = None
    if planned and planned["kind"] == "slow_after":
        await asyncio.sleep(planned["delay_s"])
    if planned and planned["kind"] == "cut_after":
        request.transport.abort()
        return web.Response()
    return web.Response(status=204, headers=headers) if result is None else reply(result, headers=headers)


async def download(request):
    kind, data = WORLD.files.get(request.match_info["file"], (None, None))
    return web.Response(body=data, content_type=kind) if data is not None else web.Response(status=404)


# --- the other side of the conversation -------------------------------------------------------------

SIM = """
POST /_sim/message  {from, channel? (none: direct messages), text?, reply_to?, bot?, roles?, files? [{name, body, content_type}]}
POST /_sim/edit     {message, text}
POST /_sim/slash    {from, channel?, name, input?}
POST /_sim/press    {from, message, custom_id}
POST /_sim/fault    {route (pattern of "POST channels/1/messages"), kind, times?, retry_after?, global?, status?, code?, delay_s?}
                    kind: 429 5xx refuse malformed cut cut_after slow slow_after
POST /_sim/fault_clear  {}
POST /_sim/gateway  {do: cut | close (code) | reconnect | invalid (resumable) | forget}
POST /_sim/set      settings
POST /_sim/channel  {id, type, ...} | {id, deleted: true}
POST /_sim/expire   {token}   the interaction takes no answer any more
GET  /_sim/journal | gateway | verdict | commands | interactions | typing | channels | channel/ID | dm/USER
"""


def member(body):
    return {"roles": [str(role) for role in body.get("roles", [])], "nick": None, "joined_at": stamp(), "deaf": False, "mute": False, "flags": 0}


async def sim_message(body):
    place = WORLD.channels[str(body["channel"])] if "channel" in body else WORLD.dm(body["from"])
    files = [(f["name"], f.get("content_type", "text/plain"), f["body"].encode()) for f in body.get("files", [])]
    content = {"content": body.get("text", "")}
    if "reply_to" in body:
        content["message_reference"] = {"message_id": str(body["reply_to"])}
    more = {"member": member(body)} if place.get("guild_id") else {}
    if "flags" in body:
        content["flags"] = body["flags"]
    made = make(place["id"], person(body["from"], bot=body.get("bot", False)), content, files, **more)
    await dispatch("MESSAGE_CREATE", public(made))
    return {"message": made["id"], "channel": place["id"]}


async def sim_interaction(body, kind, data, place, **more):
    token, interaction = f"token-{WORLD.new_id()}", WORLD.new_id()
    WORLD.interactions[token] = {"id": interaction, "token": token, "channel": place["id"], "acknowledged": None, "ephemeral": False, "original": None,
                                 "messages": [], "at": time.time(), "kind": kind}
    who = {"guild_id": GUILD, "member": {**member(body), "user": person(body["from"]), "permissions": "0"}} if place.get("guild_id") else {"user": person(body["from"])}
    if kind == 3:
        WORLD.interactions[token]["messages"].append(more["message"]["id"])
        WORLD.interactions[token]["original"] = more["message"]["id"]
    await dispatch("INTERACTION_CREATE", {"id": interaction, "application_id": APPLICATION, "type": kind, "token": token, "version": 1, "data": data,
                                          "channel_id": place["id"], "channel": {**place, "permissions": "0"}, "locale": "en-US", "entitlements": [],
                                          "authorizing_integration_owners": {}, "attachment_size_limit": 10 << 20,
                                          "app_permissions": "0", "context": 0 if place.get("guild_id") else 1, **who, **more})
    return {"token": token, "interaction": interaction}


async def sim_slash(body):
    place = WORLD.channels[str(body["channel"])] if "channel" in body else WORLD.dm(body["from"])
    command = next(c for c in WORLD.commands if c["name"] == body["name"])
    data = {"id": command["id"], "name": command["name"], "type": 1}
    if "input" in body:
        data["options"] = [{"name": command["options"][0]["name"], "type": 3, "value": body["input"]}]
    return await sim_interaction(body, 2, data, place)


async def sim_press(body):
    message = WORLD.messages[str(body["message"])]
    ids = [button["custom_id"] for row in message["components"] for button in row["components"]]
    assert body["custom_id"] in ids, ids
    data = {"custom_id": body["custom_id"], "component_type": 2}
    return await sim_interaction(body, 3, data, WORLD.channels[message["channel_id"]], message=public(message))


async def sim_gateway(body):
    for wire in list(WORLD.sockets):
        if body["do"] == "cut":
            # The server notices at once, and the bot by the end of its connection.
            wire.gone()
            wire.ws._req.transport.abort()
        elif body["do"] == "close":
            wire.gone()
            wire.closed_here = True
            asyncio.ensure_future(wire.ws.close(code=body["code"]))
        elif body["do"] == "reconnect":
            await wire.say({"op": 7, "d": None})
        elif body["do"] == "invalid":
            if not body.get("resumable", False) and wire.session:
                WORLD.sessions.pop(wire.session.id, None)
            await wire.say({"op": 9, "d": body.get("resumable", False)})
    if body["do"] == "forget":
        WORLD.sessions.clear()
    return {}


async def sim_post(request):
    what, body = request.match_info["what"], await request.json()
    if what == "message":
        return reply(await sim_message(body))
    if what == "edit":
        message = WORLD.messages[str(body["message"])]
        message["mentions"] = mentioned(body["text"])
        return reply(await change(message, {"content": body["text"]}))
    if what == "slash":
        return reply(await sim_slash(body))
    if what == "press":
        return reply(await sim_press(body))
    if what == "fault":
        WORLD.faults.append({"times": 1, "retry_after": 1.0, "global": False, "status": 403, "code": 50013, "delay_s": 3, **body})
        return reply({})
    if what == "fault_clear":
        WORLD.faults.clear()
        return reply({})
    if what == "gateway":
        return reply(await sim_gateway(body))
    if what == "set":
        WORLD.settings |= body
        return reply({})
    if what == "channel":
        if body.get("deleted"):
            gone = WORLD.channels.pop(str(body["id"]))
            await dispatch("THREAD_DELETE" if gone["type"] in THREADS else "CHANNEL_DELETE", gone)
        else:
            made = WORLD.channels.setdefault(str(body["id"]), {"guild_id": GUILD, "name": "new", "parent_id": None, "flags": 0, "permission_overwrites": [], "position": 0})
            made |= {**body, "id": str(body["id"])}
            if made["type"] in THREADS:
                made = new_thread(WORLD.channels[made["parent_id"]], made["name"], made["id"], made["type"])
            await dispatch("THREAD_CREATE" if made["type"] in THREADS else "CHANNEL_CREATE", made)
        return reply({})
    if what == "expire":
        WORLD.interactions[body["token"]]["expired"] = True
        return reply({})
    return reply({"error": SIM}, status=404)


async def sim_get(request):
    what = request.match_info["what"]
    if what == "verdict":
        errors = [f"{call['route']}: {error}" for call in WORLD.journal for error in call["errors"]]
        return reply({"ok": not errors, "errors": errors, "calls": len(WORLD.journal)})
    found = {"journal": WORLD.journal, "gateway": WORLD.gateway_log, "commands": WORLD.commands, "typing": WORLD.typing,
             "interactions": list(WORLD.interactions.values()), "channels": WORLD.channels, "settings": WORLD.settings,
             "sessions": [{"id": s.id, "seq": s.seq, "connected": bool(s.socket)} for s in WORLD.sessions.values()]}.get(what)
    return reply({"error": SIM} if found is None else found, status=404 if found is None else 200)


async def sim_shown(request):
    channel = request.match_info["id"] if request.match_info["kind"] == "channel" else WORLD.dm(request.match_info["id"])["id"]
    return reply([m for m in WORLD.messages.values() if m["channel_id"] == channel])


def main():
    app = web.Application(client_max_size=64 << 20)
    app.add_routes([
        web.get("/gateway", gateway),
        web.get("/gateway/", gateway),
        web.get("/_sim/{kind:channel|dm}/{id}", sim_shown),
        web.get("/_sim/{what}", sim_get),
        web.post("/_sim/{what}", sim_post),
        web.get("/attachments/{file}/{name}", download),
        web.route("*", "/api/v10/{path:.*}", api),
    ])
    web.run_app(app, host="127.0.0.1", port=PORT, print=None, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)


if __name__ == "__main__":
    main()
