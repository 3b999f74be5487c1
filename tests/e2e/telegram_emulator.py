"""A Telegram Bot API emulator that checks every request against the published schema.

    telegram_emulator.py SCHEMA.json PORT FOLDER

SCHEMA.json is `.butcher/schema/schema.json` of the aiogram source distribution, which is generated from the
documentation of the Bot API. Sent files are kept in FOLDER. The caller creates and removes it, because a signal
leaves the emulator no time for that. Every parameter is checked for its name, its type (also inside of objects and
arrays) and for being required. Text is checked like on the server: entities of `parse_mode` must be well formed,
with at most 4096 UTF-16 units after parsing.

The emulator keeps state, so that it can refuse the same requests as the server: edits of an unknown or unchanged
message, a missing topic, a migrated chat, a second poller.

Messages of people and faults are controlled over `/_sim/TOKEN/...` (see `SIM`). The emulator listens on loopback
only and is checked by `check_telegram_emulator.py` with python-telegram-bot and aiogram.
"""

import asyncio
import html.parser
import json
import os
import re
import shutil
import sys
import tempfile
import time

from aiohttp import ClientError, ClientSession, web

SCHEMA = json.load(open(sys.argv[1], encoding="utf-8"))
METHODS = {}
TYPES = {}
for group in SCHEMA["items"]:
    for item in group["children"]:
        (METHODS if item["category"] == "methods" else TYPES)[item["name"]] = item
BY_LOWER_NAME = {name.lower(): item for name, item in METHODS.items()}

TEXT_LIMIT_UTF16 = 4096
CAPTION_LIMIT_UTF16 = 1024
HTML_TAGS = {"b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "span", "tg-spoiler", "a", "tg-emoji",
             "code", "pre", "blockquote"}
# Emoji that are valid reactions; the description in the schema has lost them.
REACTIONS = set("""👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤️‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈
😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂️ 🤷 🤷‍♀️ 😡""".split())
BOT = {"id": 42, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot", "can_join_groups": True,
       "can_read_all_group_messages": False, "supports_inline_queries": False}


# --- the schema -----------------------------------------------------------------------------------

def check_value(value, kind, where, errors):
    """Appends the errors of `value` as a `kind` of the schema."""
    kind = kind.strip()
    if kind.startswith("Array of "):
        if isinstance(value, str):
            value = from_json(value, where, errors)
        if not isinstance(value, list):
            errors.append(f"{where}: not an array")
            return
        for n, one in enumerate(value):
            check_value(one, kind[len("Array of "):], f"{where}[{n}]", errors)
        return
    if " or " in kind or ", " in kind or " and " in kind:
        options = [o for o in kind.replace(" and ", " or ").replace(", ", " or ").split(" or ") if o]
        tries = []
        for option in options:
            found = []
            check_value(value, option, where, found)
            if not found:
                return
            tries.append(found)
        errors.extend(min(tries, key=len))
        return
    if kind == "Integer":
        if isinstance(value, bool) or not str(value).lstrip("-").isdigit():
            errors.append(f"{where}: not an integer")
    elif kind in ("Float", "Float number"):
        try:
            float(value)
        except (TypeError, ValueError):
            errors.append(f"{where}: not a number")
    elif kind in ("Boolean", "True"):
        if value not in (True, False, "true", "false", "True", "False"):
            errors.append(f"{where}: not a boolean")
    elif kind == "String":
        if not isinstance(value, str):
            errors.append(f"{where}: not a string")
    elif kind == "InputFile":
        if not isinstance(value, (str, Upload)):
            errors.append(f"{where}: not a file")
    elif kind in TYPES:
        if isinstance(value, str):
            value = from_json(value, where, errors)
        check_object(value, TYPES[kind], where, errors)
    else:
        errors.append(f"{where}: the schema names an unknown type {kind}")


def from_json(text, where, errors):
    try:
        return json.loads(text)
    except ValueError:
        errors.append(f"{where}: not JSON")
        return None


def check_object(value, item, where, errors):
    if not isinstance(value, dict):
        errors.append(f"{where}: not an object")
        return
    fields = {a["name"]: a for a in item["annotations"]}
    if not fields:
        return  # A union such as InlineQueryResult; its members contain the fields.
    for name, field in fields.items():
        if field.get("required") and name not in value:
            errors.append(f"{where}: missing {name}")
    for name, one in value.items():
        if name in fields:
            check_value(one, fields[name]["type"], f"{where}.{name}", errors)
        else:
            errors.append(f"{where}: unknown field {name}")


class Upload:
    """A file from a multipart part or from the server's disk. Large files are not read at once."""

    def __init__(self, name, data, mime, path=None):
        self.name, self.mime, self.path = name, mime, path
        self.held = data
        self.size = os.path.getsize(path) if path else len(data)

    @property
    def data(self):
        return open(self.path, "rb").read() if self.path else self.held


# --- text -----------------------------------------------------------------------------------------

class Refusal(Exception):
    """An error response of the server."""

    def __init__(self, text, code=400, **parameters):
        super().__init__(text)
        self.text, self.code, self.parameters = text, code, parameters


class HtmlText(html.parser.HTMLParser):
    """A parser that converts Telegram HTML to plain text, with the refusals of the server."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.plain, self.open = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in HTML_TAGS:
            raise Refusal(f'Bad Request: can\'t parse entities: Unsupported start tag "{tag}"')
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        raise Refusal(f'Bad Request: can\'t parse entities: Unsupported start tag "{tag}/"')

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise Refusal("Bad Request: can't parse entities: Unmatched end tag")

    def handle_data(self, data):
        self.plain.append(data)


MARKDOWN_V2_SPECIAL = set("_*[]()~`>#+-=|{}.!")


def plain_text(text, mode):
    """Returns the text after entity parsing."""
    if not mode:
        return text
    if mode.lower() == "html":
        stray = re.search(r"<(?!/?[a-z])", text)
        if stray:
            raise Refusal(f"Bad Request: can't parse entities: Unsupported start tag at byte offset {stray.start()}")
        parser = HtmlText()
        parser.feed(text)
        parser.close()
        if parser.open:
            raise Refusal(f"Bad Request: can't parse entities: Can't find end tag corresponding to start tag \"{parser.open[-1]}\"")
        return "".join(parser.plain)
    if mode.lower() == "markdownv2":
        return markdown_v2(text)
    if mode.lower() == "markdown":
        return text
    raise Refusal("Bad Request: unsupported parse_mode")


def markdown_v2(text):
    plain, stack, i = [], [], 0
    in_code = None
    while i < len(text):
        char = text[i]
        if char == "\\" and i + 1 < len(text):
            plain.append(text[i + 1])
            i += 2
            continue
        if in_code:
            if text.startswith(in_code, i):
                i += len(in_code)
                in_code = None
            else:
                plain.append(char)
                i += 1
            continue
        if text.startswith("```", i):
            in_code, i = "```", i + 3
        elif char == "`":
            in_code, i = "`", i + 1
        elif char in "*_~|":
            mark = text[i:i + 2] if text[i:i + 2] in ("__", "||") else char
            if mark == "|":
                raise Refusal("Bad Request: can't parse entities: Character '|' is reserved and must be escaped with the preceding '\\'")
            if stack and stack[-1] == mark:
                stack.pop()
            else:
                stack.append(mark)
            i += len(mark)
        elif text.startswith("](", i):
            # In the URL of a link only its closing character is reserved.
            end = re.compile(r"(?:\\.|[^)\\])*").match(text, i + 2).end()
            if end == len(text):
                raise Refusal("Bad Request: can't parse entities: Can't find end of a URL")
            i = end + 1
        elif char in "[]()":
            i += 1
        elif char == ">" and (i == 0 or text[i - 1] == "\n"):
            i += 1
        elif char in MARKDOWN_V2_SPECIAL:
            raise Refusal(f"Bad Request: can't parse entities: Character '{char}' is reserved and must be escaped with the preceding '\\'")
        else:
            plain.append(char)
            i += 1
    if stack or in_code:
        raise Refusal("Bad Request: can't parse entities: Can't find end of the entity")
    return "".join(plain)


def utf16_units(text):
    return len(text.encode("utf-16-le")) // 2


def checked_text(params, key, limit, empty):
    text = params.get(key, "")
    plain = plain_text(text, params.get("parse_mode")) if not params.get("entities") else text
    if not plain.strip() and empty:
        raise Refusal(empty)
    if utf16_units(plain) > limit:
        raise Refusal("Bad Request: message is too long" if key == "text" else "Bad Request: message caption is too long")
    return plain


# --- one bot --------------------------------------------------------------------------------------

class Held:
    """The held calls of a method."""

    def __init__(self):
        self.go, self.dropped = asyncio.Event(), False


class Account:
    """The server's state of one bot."""

    def __init__(self):
        self.updates, self.update_id = [], 1000
        # Id 1 belongs to the first service message; as a topic it would be General.
        self.messages, self.message_id = {}, 1
        self.journal, self.faults = [], []
        self.topics, self.migrated, self.gone, self.names = {}, {}, set(), {}
        self.polling = 0
        self.changed = asyncio.Condition()
        self.webhook, self.files, self.commands = {}, {}, {}
        self.bringing = None
        self.plain, self.held = set(), {}

    async def touch(self):
        async with self.changed:
            self.changed.notify_all()

    def bring_to(self, webhook):
        """Delivers updates to a webhook from now on, or stops the delivery."""
        if self.bringing:
            self.bringing.cancel()
        self.webhook = webhook
        self.bringing = asyncio.create_task(self.bring()) if webhook else None

    async def bring(self):
        """Delivers one update after the other. An update without a 2xx response is repeated."""
        headers = {"X-Telegram-Bot-Api-Secret-Token": self.webhook["secret"]} if self.webhook["secret"] else {}
        async with ClientSession() as session:
            while True:
                async with self.changed:
                    await self.changed.wait_for(lambda: self.updates)
                update = self.updates[0]
                if self.webhook["allowed"] and not any(k in self.webhook["allowed"] for k in update):
                    self.updates.remove(update)
                    continue
                try:
                    async with session.post(self.webhook["url"], json=update, headers=headers) as answer:
                        error = None if answer.ok else f"Wrong response from the webhook: {answer.status} {answer.reason}"
                except ClientError as failed:
                    error = f"Connection refused ({type(failed).__name__})"
                if error is None:
                    self.updates.remove(update)
                else:
                    self.webhook |= {"error": error, "error_at": int(time.time())}
                    await asyncio.sleep(0.2)

    async def push(self, **update):
        self.update_id += 1
        self.updates.append({"update_id": self.update_id, **update})
        await self.touch()
        return self.update_id

    def store(self, chat, sender, **content):
        self.message_id += 1
        message = {"message_id": self.message_id, "date": int(time.time()), "chat": chat, "from": sender, **content}
        self.messages[(chat["id"], self.message_id)] = message
        return message

    def fault_for(self, method):
        for fault in self.faults:
            if fault["times"] > 0 and fault["method"].lower() in (method, "*"):
                fault["times"] -= 1
                return fault
        return None


ACCOUNTS = {}
SPOOL = sys.argv[3]
# Limits of the public server; a self-hosted one has others.
BOUNDS = {"in": 50 << 20, "photo": 10 << 20, "out": 20 << 20, "local": False}


def account(request):
    return ACCOUNTS.setdefault(request.match_info["token"], Account())


def chat_of(chat_id, bot=None):
    chat_id = int(chat_id)
    if chat_id > 0:
        return {"id": chat_id, "type": "private", "first_name": f"User {chat_id}"}
    topics = {} if bot and chat_id in bot.plain else {"is_forum": True}
    return {"id": chat_id, "type": "supergroup", "title": f"Group {chat_id}", **topics}


def ok(result):
    return web.json_response({"ok": True, "result": result})


def refuse(refusal):
    body = {"ok": False, "error_code": refusal.code, "description": refusal.text}
    if refusal.parameters:
        body["parameters"] = refusal.parameters
    headers = {"Retry-After": str(refusal.parameters["retry_after"])} if "retry_after" in refusal.parameters else {}
    return web.json_response(body, status=refusal.code, headers=headers)


async def parameters(request):
    """Returns the parameters from query, JSON body, form and multipart, like the server."""
    params = dict(request.query)
    if not request.can_read_body:
        return params
    if request.content_type == "application/json":
        params.update(await request.json())
    else:
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                value = Upload(value.filename, b"", value.content_type, path=spooled(value.file))
            params[name] = value
    return params


def spooled(file):
    """Writes the content of a part to the disk."""
    with tempfile.NamedTemporaryFile(dir=SPOOL, delete=False) as kept:
        shutil.copyfileobj(file, kept)
    return kept.name


def attached(value, params):
    """Resolves `attach://name`."""
    if isinstance(value, str) and value.startswith("attach://"):
        return params.get(value[len("attach://"):])
    return value


def target(bot, params):
    """Refuses missing chats and topics."""
    chat_id = params["chat_id"]
    if isinstance(chat_id, str) and chat_id.startswith("@"):
        if chat_id not in bot.names:
            raise Refusal("Bad Request: chat not found")
        chat_id = bot.names[chat_id]
    chat_id = int(chat_id)
    if chat_id in bot.migrated:
        raise Refusal("Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=bot.migrated[chat_id])
    if chat_id in bot.gone:
        raise Refusal("Forbidden: bot was kicked from the supergroup chat", 403)
    thread = params.get("message_thread_id")
    if thread is not None:
        if int(thread) == 1:
            raise Refusal("Bad Request: message thread not found")  # General accepts no id in outgoing messages.
        if int(thread) not in bot.topics.get(chat_id, {}):
            raise Refusal("Bad Request: message thread not found")
    return chat_of(chat_id, bot)


def reply_fields(bot, params, chat):
    fields = {}
    if params.get("message_thread_id") is not None:
        fields |= {"message_thread_id": int(params["message_thread_id"]), "is_topic_message": True}
    reply = params.get("reply_parameters")
    if reply:
        reply = json.loads(reply) if isinstance(reply, str) else reply
        answered = bot.messages.get((chat["id"], int(reply["message_id"])))
        if answered is None and not reply.get("allow_sending_without_reply"):
            raise Refusal("Bad Request: message to be replied not found")
        if answered is not None:
            fields["reply_to_message"] = {k: v for k, v in answered.items() if k != "reply_to_message"}
    return fields


async def run_method(bot, name, params):
    """Returns the result of one method, or raises a Refusal."""
    if name == "getme":
        return BOT
    if name == "sendmessage":
        chat = target(bot, params)
        checked_text(params, "text", TEXT_LIMIT_UTF16, "Bad Request: message text is empty")
        message = bot.store(chat, BOT, text=plain_text(params["text"], params.get("parse_mode")), **reply_fields(bot, params, chat))
        message |= {"_raw": params["text"], "_mode": params.get("parse_mode"), "_silent": params.get("disable_notification") in (True, "true")}
        if params.get("reply_markup"):
            markup = params["reply_markup"]
            message["reply_markup"] = json.loads(markup) if isinstance(markup, str) else markup
        return message
    if name == "sendmessagedraft":
        chat = target(bot, params)
        if chat["type"] != "private":
            raise Refusal("Bad Request: TEXTDRAFT_PEER_INVALID")
        if int(params["draft_id"]) == 0:
            raise Refusal("Bad Request: draft identifier must be non-zero")
        checked_text(params, "text", TEXT_LIMIT_UTF16, "")
        return True
    if name == "editmessagetext":
        message = bot.messages.get((int(params["chat_id"]), int(params["message_id"])))
        if message is None or message["from"]["id"] != BOT["id"]:
            raise Refusal("Bad Request: message to edit not found")
        plain = checked_text(params, "text", TEXT_LIMIT_UTF16, "Bad Request: message text is empty")
        if message.get("_raw") == params["text"] and not params.get("reply_markup") and not message.get("reply_markup"):
            raise Refusal("Bad Request: message is not modified: specified new message content and reply markup are "
                          "exactly the same as a current content and reply markup of the message")
        message |= {"text": plain, "_raw": params["text"], "_mode": params.get("parse_mode"), "edit_date": int(time.time())}
        message.setdefault("_edits", []).append(plain)
        message.pop("reply_markup", None)
        if params.get("reply_markup"):
            markup = params["reply_markup"]
            message["reply_markup"] = json.loads(markup) if isinstance(markup, str) else markup
        return message
    if name == "editmessagereplymarkup":
        message = bot.messages.get((int(params["chat_id"]), int(params["message_id"])))
        if message is None:
            raise Refusal("Bad Request: message to edit not found")
        message.pop("reply_markup", None)
        return message
    if name == "deletemessage":
        if bot.messages.pop((int(params["chat_id"]), int(params["message_id"])), None) is None:
            raise Refusal("Bad Request: message to delete not found")
        return True
    if name == "setmessagereaction":
        message = bot.messages.get((target(bot, params)["id"], int(params["message_id"])))
        if message is None:
            raise Refusal("Bad Request: message to react not found")
        wanted = params.get("reaction", [])
        wanted = json.loads(wanted) if isinstance(wanted, str) else wanted
        if len(wanted) > 1:
            raise Refusal("Bad Request: REACTIONS_TOO_MANY")
        if any(one["type"] != "emoji" or one["emoji"] not in REACTIONS for one in wanted):
            raise Refusal("Bad Request: REACTION_INVALID")
        message.setdefault("_reactions", []).append("".join(one["emoji"] for one in wanted))
        return True
    if name == "createforumtopic":
        chat_id = int(params["chat_id"])
        if chat_id in bot.migrated or chat_id in bot.gone:
            target(bot, params)
        if chat_id in bot.plain:
            raise Refusal("Bad Request: the chat is not a forum")
        bot.message_id += 1
        bot.topics.setdefault(chat_id, {})[bot.message_id] = params["name"]
        return {"message_thread_id": bot.message_id, "name": params["name"], "icon_color": 7322096}
    if name == "editforumtopic":
        chat_id, thread = int(params["chat_id"]), int(params["message_thread_id"])
        if thread not in bot.topics.get(chat_id, {}):
            raise Refusal("Bad Request: message thread not found")
        if "name" in params:
            if len(params["name"]) > 128:
                raise Refusal("Bad Request: TOPIC_TITLE_TOO_LONG")
            bot.topics[chat_id][thread] = params["name"]
        return True
    if name in ("sendphoto", "senddocument", "sendvideo", "sendaudio", "sendvoice", "sendanimation", "sendsticker"):
        kind = name[len("send"):]
        chat = target(bot, params)
        check_size(attached(params[kind], params), kind)
        checked_text(params, "caption", CAPTION_LIMIT_UTF16, "")
        content = {kind: keep_file(bot, attached(params[kind], params), kind)}
        if params.get("caption"):
            content["caption"] = plain_text(params["caption"], params.get("parse_mode"))
        return bot.store(chat, BOT, **content, **reply_fields(bot, params, chat))
    if name == "sendmediagroup":
        chat = target(bot, params)
        items = params["media"]
        items = json.loads(items) if isinstance(items, str) else items
        if not 2 <= len(items) <= 10:
            raise Refusal("Bad Request: there must be 2 to 10 items in an album")
        group_id, sent = str(time.time_ns()), []
        kinds = {item["type"] for item in items}
        if len(kinds) > 1 and kinds - {"photo", "video"}:
            raise Refusal("Bad Request: documents and audios can be grouped in an album with messages of the same type only")
        for item in items:
            check_size(attached(item["media"], params), item["type"])
            checked_text(item, "caption", CAPTION_LIMIT_UTF16, "")
        for item in items:
            content = {item["type"]: keep_file(bot, attached(item["media"], params), item["type"]), "media_group_id": group_id}
            if item.get("caption"):
                content["caption"] = plain_text(item["caption"], item.get("parse_mode"))
            sent.append(bot.store(chat, BOT, **content, **reply_fields(bot, params, chat)))
        return sent
    if name == "getfile":
        found = bot.files.get(params["file_id"])
        if found is None:
            raise Refusal("Bad Request: wrong file_id or the file is temporarily unavailable")
        if found.size > BOUNDS["out"]:
            raise Refusal("Bad Request: file is too big")
        path = found.path if BOUNDS["local"] else f"documents/{params['file_id']}"
        return {"file_id": params["file_id"], "file_unique_id": params["file_id"], "file_size": found.size, "file_path": path}
    if name == "setwebhook":
        secret, allowed = params.get("secret_token", ""), params.get("allowed_updates")
        if secret and not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret):
            raise Refusal("Bad Request: secret token contains unallowed characters")
        # Only a server with `--local` accepts http.
        if params["url"] and not re.match(r"https://|http://127\.0\.0\.1[:/]", params["url"]):
            raise Refusal("Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        allowed = json.loads(allowed) if isinstance(allowed, str) else allowed
        bot.bring_to({"url": params["url"], "secret": secret, "allowed": allowed} if params["url"] else {})
        return True
    if name == "deletewebhook":
        bot.bring_to({})
        if params.get("drop_pending_updates") in (True, "true", "True"):
            bot.updates.clear()
        return True
    if name == "getwebhookinfo":
        told = {"last_error_message": bot.webhook["error"], "last_error_date": bot.webhook["error_at"]} if "error" in bot.webhook else {}
        return {"url": bot.webhook.get("url", ""), "has_custom_certificate": False, "pending_update_count": len(bot.updates), **told}
    if name == "setmycommands":
        bot.commands[str(params.get("scope"))] = params["commands"]
        return True
    if name == "getchat":
        return {**target(bot, params), "accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": {
            "unlimited_gifts": True, "limited_gifts": True, "unique_gifts": True, "premium_subscription": True, "gifts_from_channels": True}}
    if name == "sendchataction":
        general = str(params.get("message_thread_id")) == "1" and int(params["chat_id"]) not in bot.plain
        target(bot, {"chat_id": params["chat_id"]} if general else params)
        return True
    return True  # For all other methods of the schema only the parameters are checked.


def check_size(value, kind):
    """Refuses files above the size limit."""
    if isinstance(value, Upload) and value.size > min(BOUNDS["in"], BOUNDS["photo"] if kind == "photo" else BOUNDS["in"]):
        raise Refusal("Request Entity Too Large", 413)
    if kind == "photo" and isinstance(value, Upload) and value.name.startswith("odd"):
        raise Refusal("Bad Request: PHOTO_INVALID_DIMENSIONS")


def keep_file(bot, value, kind):
    if isinstance(value, Upload):
        file_id = f"F{len(bot.files) + 1}"
        bot.files[file_id] = value
    else:
        file_id = str(value)
    size = bot.files[file_id].size if file_id in bot.files else 0
    entry = {"file_id": file_id, "file_unique_id": file_id, "file_size": size}
    if kind == "photo":
        return [{**entry, "width": 10, "height": 10}]
    if kind == "document":
        return {**entry, "file_name": getattr(bot.files.get(file_id), "name", "file")}
    if kind == "voice" or kind == "audio":
        return {**entry, "duration": 1}
    if kind == "video_note":
        return {**entry, "length": 10, "duration": 1}
    if kind == "sticker":
        return {**entry, "type": "regular", "width": 10, "height": 10, "is_animated": False, "is_video": False, "emoji": "🦀"}
    return {**entry, "width": 10, "height": 10, "duration": 1}


async def get_updates(bot, params, request):
    if bot.webhook:
        raise Refusal("Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first", 409)
    if bot.polling:
        raise Refusal("Conflict: terminated by other getUpdates request; make sure that only one bot instance is running", 409)
    offset = int(params.get("offset", 0))
    limit = int(params.get("limit", 100))
    deadline = time.monotonic() + float(params.get("timeout", 0))
    allowed = params.get("allowed_updates")
    allowed = json.loads(allowed) if isinstance(allowed, str) else allowed
    bot.polling += 1
    try:
        while True:
            bot.updates = [u for u in bot.updates if u["update_id"] >= offset] if offset >= 0 else bot.updates[offset:]
            ready = [u for u in bot.updates if not allowed or any(k in allowed for k in u if k != "update_id")][:limit]
            left = deadline - time.monotonic()
            if ready or left <= 0:
                return ready
            if request.transport is None or request.transport.is_closing():
                return []
            async with bot.changed:
                try:
                    await asyncio.wait_for(bot.changed.wait(), min(left, 0.5))
                except asyncio.TimeoutError:
                    pass
    finally:
        bot.polling -= 1


def public(value):
    """Removes the emulator's internal fields from a result."""
    if isinstance(value, dict):
        return {k: public(v) for k, v in value.items() if not k.startswith("_")}
    if isinstance(value, list):
        return [public(v) for v in value]
    return value


async def api(request):
    bot, name = account(request), request.match_info["method"].lower()
    try:
        params = await parameters(request)
    except ValueError:
        return refuse(Refusal("Bad Request: can't parse the request"))
    if name not in BY_LOWER_NAME:
        bot.journal.append({"method": request.match_info["method"], "errors": ["unknown method"], "params": {}})
        return refuse(Refusal("Not Found", 404))
    errors = []
    fields = {a["name"] for a in BY_LOWER_NAME[name]["annotations"]}
    extra_parts = {k for k, v in params.items() if isinstance(v, Upload) and k not in fields}
    check_object({k: v for k, v in params.items() if k not in extra_parts}, BY_LOWER_NAME[name], request.match_info["method"], errors)
    if not fields and params:
        errors.append(f"{name}: takes no parameters")
    entry = {"method": request.match_info["method"], "errors": errors, "at": time.time(),
             "params": {k: (f"<file {v.name}, {v.size} bytes>" if isinstance(v, Upload) else v) for k, v in params.items()}}
    bot.journal.append(entry)
    await bot.touch()
    fault = bot.fault_for(name)
    if fault:
        entry["fault"] = fault["kind"]
        kind = fault["kind"]
        if kind == "429":
            return refuse(Refusal(f"Too Many Requests: retry after {fault['retry_after']}", 429, retry_after=fault["retry_after"]))
        if kind == "5xx":
            return web.Response(status=502, text="<html>Bad Gateway</html>", content_type="text/html")
        if kind == "409":
            return refuse(Refusal("Conflict: terminated by other getUpdates request; make sure that only one bot instance is running", 409))
        if kind == "expired":
            return refuse(Refusal("Unauthorized", 401))
        if kind == "malformed":
            return web.Response(text='{"ok":true,"result":', content_type="application/json")
        if kind == "bad_format":
            return refuse(Refusal("Bad Request: can't parse entities: refused on request"))
        if kind == "cut":
            request.transport.abort()
            return web.Response()
        if kind in ("slow", "silence"):
            await asyncio.sleep(fault["delay_s"])
        if kind == "hold":
            held = bot.held.setdefault(name, Held())
            await held.go.wait()
            if held.dropped:
                request.transport and request.transport.abort()
                return web.Response()
    if errors:
        return refuse(Refusal("Bad Request: " + "; ".join(errors)))
    try:
        if name == "getupdates":
            result = await get_updates(bot, params, request)
        else:
            result = await run_method(bot, name, params)
    except Refusal as refusal:
        entry["refused"] = refusal.text
        return refuse(refusal)
    await bot.touch()
    if fault and fault["kind"] == "cut_after":
        request.transport.abort()
        return web.Response()
    if fault and fault["kind"] == "hold_after":
        await bot.held.setdefault(name, Held()).go.wait()
    return ok(public(result))


async def download(request):
    found = account(request).files.get(request.match_info["path"].split("/")[-1])
    if found is None or BOUNDS["local"]:
        return web.Response(status=404)
    return web.FileResponse(found.path) if found.path else web.Response(body=found.data)


# --- the other side of the conversation -------------------------------------------------------------

SIM = """
POST /_sim/T/message  {chat, from?, text?, entities?, thread?, reply_to?, quote?, location?, media_group_id?, caption?,
                       and the content of one of photo document voice video audio video_note animation sticker, or {path}}
POST /_sim/T/bounds   {in?, photo?, out?, local?}   what files the server takes and gives out; local: by their path
POST /_sim/T/edit     {chat, message_id, text}
POST /_sim/T/press    {chat, message_id, data, from?}
POST /_sim/T/fault    {method, kind, times?, retry_after?, delay_s?}   kind: 429 409 5xx slow silence cut cut_after malformed expired bad_format
                      and, until released, hold (before it is done) and hold_after (before it is answered)
POST /_sim/T/release  {method, dropped?}   dropped: what was held before it was done never is
POST /_sim/T/plain    {chat}   the chat has no topics
POST /_sim/T/topic    {chat, id, name?} | {chat, id, deleted: true}
POST /_sim/T/name     {chat, name}   the chat is public under @name
POST /_sim/T/migrate  {chat, to, from?, silent?}
POST /_sim/T/kick     {chat}
POST /_sim/T/raw      any update without update_id
GET  /_sim/T/journal              every call, with schema errors
GET  /_sim/T/chat/ID              what the chat shows
GET  /_sim/T/topics/ID            names of the topics of a chat, by id
GET  /_sim/T/wait?chat=&bot=N&timeout=  waits until the chat shows N messages of the bot
GET  /_sim/T/wait?method=&calls=N&timeout=
GET  /_sim/T/verdict              {"ok": bool, "errors": [...]}
"""


def person(user_id, **more):
    return {"id": int(user_id), "is_bot": False, "first_name": f"User {user_id}", "username": f"user{user_id}", **more}


async def sim_post(request):
    bot, what, body = account(request), request.match_info["what"], await request.json()
    if what == "message":
        chat = chat_of(body["chat"], bot)
        sender = body.get("from", abs(int(body["chat"])))
        sender = sender if isinstance(sender, dict) else person(sender)
        content = {k: body[k] for k in ("text", "entities", "caption", "caption_entities", "media_group_id") if k in body}
        if "thread" in body:
            content |= {"message_thread_id": int(body["thread"]), "is_topic_message": True}
            bot.topics.setdefault(chat["id"], {}).setdefault(int(body["thread"]), "topic")
        if "reply_to" in body:
            answered = bot.messages[(chat["id"], int(body["reply_to"]))]
            content["reply_to_message"] = public({k: v for k, v in answered.items() if k != "reply_to_message"})
        if "quote" in body:
            content["quote"] = {"text": body["quote"], "position": 0, "is_manual": True}
        if "location" in body:
            content["location"] = body["location"]
        for kind in ("photo", "document", "voice", "video", "audio", "video_note", "animation", "sticker"):
            if kind in body:
                name, given = body.get("file_name", f"{kind}.bin"), body[kind]
                content_bytes = b"" if isinstance(given, dict) else given.encode() if isinstance(given, str) else bytes(given)
                upload = Upload(name, content_bytes, "", given["path"] if isinstance(given, dict) else None)
                content[kind] = keep_file(bot, upload, kind)
        if "animation" in content:
            content["document"] = content["animation"]
        message = bot.store(chat, sender, **content)
        update_id = await bot.push(message=public(message))
        return web.json_response({"update_id": update_id, "message_id": message["message_id"]})
    if what == "edit":
        message = bot.messages[(int(body["chat"]), int(body["message_id"]))]
        message |= {"text": body["text"], "edit_date": int(time.time())}
        return web.json_response({"update_id": await bot.push(edited_message=public(message))})
    if what == "press":
        message = bot.messages[(int(body["chat"]), int(body["message_id"]))]
        sender = person(body.get("from", abs(int(body["chat"]))))
        update_id = await bot.push(callback_query={"id": str(time.time_ns()), "from": sender, "chat_instance": "1",
                                                   "data": body["data"], "message": public(message)})
        return web.json_response({"update_id": update_id})
    if what == "fault":
        bot.faults.append({"method": body["method"], "kind": body["kind"], "times": body.get("times", 1),
                           "retry_after": body.get("retry_after", 1), "delay_s": body.get("delay_s", 5)})
        return web.json_response({})
    if what == "topic":
        topics = bot.topics.setdefault(int(body["chat"]), {})
        if body.get("deleted"):
            topics.pop(int(body["id"]), None)
        else:
            topics[int(body["id"])] = body.get("name", "topic")
        return web.json_response({})
    if what == "release":
        held = bot.held.pop(body["method"].lower(), Held())
        held.dropped = body.get("dropped", False)
        held.go.set()
        return web.json_response({})
    if what == "plain":
        bot.plain.add(int(body["chat"]))
        return web.json_response({})
    if what == "name":
        bot.names["@" + body["name"]] = int(body["chat"])
        return web.json_response({})
    if what == "migrate":
        old, new = int(body["chat"]), int(body["to"])
        bot.migrated[old] = new
        message = bot.store(chat_of(old), person(body.get("from", 1)), migrate_to_chat_id=new)
        if not body.get("silent"):
            await bot.push(message=public(message))
        return web.json_response({})
    if what == "bounds":
        BOUNDS.update(body)
        return web.json_response(BOUNDS)
    if what == "kick":
        bot.gone.add(int(body["chat"]))
        return web.json_response({})
    if what == "raw":
        return web.json_response({"update_id": await bot.push(**body)})
    return web.json_response({"error": SIM}, status=404)


def shown(bot, chat_id):
    return [m for (chat, _), m in sorted(bot.messages.items()) if chat == chat_id]


async def sim_topics(request):
    return web.json_response(account(request).topics.get(int(request.match_info["chat"]), {}))


async def sim_get(request):
    bot, what = account(request), request.match_info["what"]
    if what == "journal":
        return web.json_response(bot.journal)
    if what == "verdict":
        errors = [f"{call['method']}: {error}" for call in bot.journal for error in call["errors"]]
        return web.json_response({"ok": not errors, "errors": errors, "calls": len(bot.journal)})
    if what == "wait":
        query = request.query
        deadline = time.monotonic() + float(query.get("timeout", 20))
        while True:
            if "chat" in query:
                found = [m for m in shown(bot, int(query["chat"])) if m["from"]["id"] == BOT["id"]]
                enough = len(found) >= int(query.get("bot", 1))
            else:
                found = [c for c in bot.journal if c["method"].lower() == query["method"].lower()]
                enough = len(found) >= int(query.get("calls", 1))
            left = deadline - time.monotonic()
            if enough or left <= 0:
                return web.json_response({"ok": enough, "found": public(found)})
            async with bot.changed:
                try:
                    await asyncio.wait_for(bot.changed.wait(), left)
                except asyncio.TimeoutError:
                    pass
    return web.json_response({"error": SIM}, status=404)


async def sim_chat(request):
    bot = account(request)
    notes = ("edits", []), ("raw", None), ("mode", None), ("silent", False), ("reactions", [])
    return web.json_response([{**public(m), **{note: m.get(f"_{note}", without) for note, without in notes}}
                              for m in shown(bot, int(request.match_info["chat"]))])


def main():
    app = web.Application(client_max_size=3 << 30)
    app.add_routes([
        web.get("/_sim/{token}/chat/{chat}", sim_chat),
        web.get("/_sim/{token}/topics/{chat}", sim_topics),
        web.get("/_sim/{token}/{what}", sim_get),
        web.post("/_sim/{token}/{what}", sim_post),
        web.get("/file/bot{token}/{path:.*}", download),
        web.route("*", "/bot{token}/{method}", api),
    ])
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), print=None, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)


if __name__ == "__main__":
    main()
