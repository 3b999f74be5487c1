"""The platforms of the story: actions of people and visible messages, in the same terms for each platform.

A `Platform` is an emulator from the point of view of people who write to the agent. `dm`, `group` and `thread`
return their places; `shown` returns the visible messages of the agent in a place, in order. A platform that is
added here runs the whole story of test_three_platforms.py.
"""

import dataclasses
import json
import re
import urllib.request

from conftest import WAIT_S, telegram_section, until
from test_discord import GENERAL, RANDOM
from test_discord import section as discord_section
from test_slack import BOT as SLACK_BOT
from test_slack import section as slack_section

REPEATED = "(possibly repeated)"
NUMBERED = re.compile(r"\s*\((\d+)/(\d+)\)\s*$")


@dataclasses.dataclass
class Place:
    """A place in which people and the agent write."""

    chat: object
    thread: object = None
    person: object = None
    """Person of a direct chat; None for other places."""
    begins: bool = False
    """True if the next message begins the thread of the place."""


@dataclasses.dataclass
class Seen:
    """A visible message of the agent, without markup and with code without its fences."""

    text: str
    raw: list
    """All versions of the text with markup; each must fit the limit and close its code blocks."""
    files: list
    """Names and contents of the files."""

    @property
    def repeated(self):
        return REPEATED in self.text

    @property
    def number(self):
        found = NUMBERED.search(self.text)
        return (int(found[1]), int(found[2])) if found else (1, 1)

    @property
    def words(self):
        return NUMBERED.sub("", self.text).replace(REPEATED, "").split()


def without_fences(text):
    return "\n".join(line for line in text.split("\n") if not line.startswith("```"))


def fetched(url, token=""):
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=WAIT_S) as answer:
        return answer.read()


class Telegram:
    name, limit, idempotent, home = "telegram", 4096, False, "-100"
    first, second = 7, 8

    def __init__(self, server, isolation):
        self.server, self.isolation, self.topic = server, isolation, 16

    def section(self, more="", flat=False):
        return telegram_section(self.server, self.isolation, f"session = {{ merge_ms = 0, require_mention = true }}\n{more}")

    def dm(self, who):
        return Place(who, person=who)

    def group(self):
        return Place(-200)

    def thread(self):
        self.topic += 1
        return Place(-100, self.topic)

    def private_home(self, who):
        return str(who)

    def says(self, place, who, text, call=False, files=()):
        more = {"from": who, **({"thread": place.thread} if place.thread else {})}
        entities = []
        if call:
            text, entities = f"@hermes_bot {text}", [{"type": "mention", "offset": 0, "length": len("@hermes_bot")}]
        if not files:
            self.server.says(place.chat, text, **({"entities": entities} if entities else {}), **more)
        for n, (name, content) in enumerate(files):
            caption = {"caption": text, **({"caption_entities": entities} if entities else {})} if n == 0 else {}
            self.server.sim("message", chat=place.chat, document=content, file_name=name, media_group_id=f"G{text}", **caption, **more)

    def shown(self, place):
        found = []
        for message in self.server.from_bot(place.chat):
            if message.get("message_thread_id") != place.thread:
                continue
            text = message.get("text") or message.get("caption") or ""
            files = []
            if document := message.get("document"):
                path = f"{self.server.base}/file/bot{self.server.TOKEN}/documents/{document['file_id']}"
                files.append((document["file_name"], fetched(path)))
            found.append(Seen(text, [*message.get("edits", []), text], files))
        return found

    def arrived(self, words):
        """Returns the place of a conversation that arrived with these words."""
        chats = (-100, 7)
        [(chat, message)] = [(chat, m) for chat in chats for m in self.server.from_bot(chat) if words in (m.get("text") or "")]
        return Place(chat, message.get("message_thread_id"), person=chat if chat > 0 else None)

    METHODS = {"send": "sendMessage", "edit": "editMessageText"}

    def limit_once(self, what):
        self.server.fault(self.METHODS[what], "429", retry_after=1)

    def hold(self, what, done):
        self.server.fault(self.METHODS[what], "hold_after" if done else "hold")

    def held(self):
        return [call for call in self.server.get("journal") if (call.get("fault") or "").startswith("hold")]

    def cut(self):
        """Breaks the connection for events, and the answer to the next edit."""
        self.server.fault("getUpdates", "cut", times=2)
        self.server.fault("editMessageText", "cut")

    def calls(self, what):
        """Returns the times of these calls, and whether the rate limit was exceeded."""
        calls = [call for call in self.server.get("journal") if call["method"] == self.METHODS[what]]
        return [(call["at"], call.get("fault") == "429") for call in calls]

    def fits(self, raw):
        return len(raw.encode("utf-16-le")) // 2 <= self.limit

    def verdict(self):
        self.server.verdict()
        refused = [call["refused"] for call in self.server.get("journal") if "parse entities" in call.get("refused", "")]
        assert not refused, refused


class Discord:
    name, limit, idempotent, home = "discord", 2000, True, GENERAL
    first, second = 7, 8

    def __init__(self, server, isolation):
        self.server, self.isolation = server, isolation

    def section(self, more="", flat=False):
        keys = f'no_thread_channels = ["{RANDOM}"]\nsession = {{ merge_ms = 0 }}\n{more}'
        return discord_section(self.server, self.isolation, keys)

    def dm(self, who):
        return Place(None, person=who)

    def group(self):
        return Place(RANDOM)

    def thread(self):
        return Place(GENERAL, begins=True)

    def private_home(self, who):
        return f"user:{who}"

    def says(self, place, who, text, call=False, files=()):
        files = [{"name": name, "body": content} for name, content in files]
        said = self.server.says(who, f"<@42> {text}" if call else text, channel=place.chat, files=files)
        if place.begins:
            place.chat, place.begins = said, False

    def shown(self, place):
        found = []
        for message in self.server.from_bot(place.chat, place.person):
            files = [(one["filename"], fetched(one["url"])) for one in message["attachments"]]
            found.append(Seen(without_fences(message["content"]), [*message.get("history", []), message["content"]], files))
        return found

    def arrived(self, words):
        places = [Place(one["id"]) for one in self.server.get("channels").values() if one["type"] == 11] + [self.dm(self.first)]
        [place] = [place for place in places if any(words in seen.text for seen in self.shown(place))]
        return place

    ROUTES = {"send": r"^POST channels/\d+/messages$", "edit": r"^PATCH channels/\d+/messages/"}

    def limit_once(self, what):
        self.server.fault(self.ROUTES[what], "429", retry_after=1.0)

    def hold(self, what, done):
        self.server.fault(self.ROUTES[what], "slow_after" if done else "slow", delay_s=60)

    def held(self):
        return [call for call in self.server.get("journal") if (call.get("fault") or "").startswith("slow")]

    def cut(self):
        self.server.sim("gateway", do="cut")
        self.server.fault(self.ROUTES["edit"], "cut")

    def calls(self, what):
        calls = [call for call in self.server.get("journal") if re.search(self.ROUTES[what], call["route"])]
        return [(call["at"], call.get("fault") == "429") for call in calls]

    def fits(self, raw):
        return len(raw) <= self.limit and raw.count("```") % 2 == 0

    def verdict(self):
        self.server.verdict()


class Slack:
    name, limit, idempotent, home = "slack", 12000, False, "#home"

    def __init__(self, server, isolation):
        self.server, self.isolation, self.flat = server, isolation, False
        self.first, self.second = "alice", "bob"

    def section(self, more="", flat=False):
        self.flat = flat
        keys = "reply_in_thread = false\ndm_threads = false\n" if flat else ""
        return slack_section(self.server, self.isolation, f"{keys}session = {{ merge_ms = 0 }}\n{more}")

    def dm(self, who):
        return Place(self.server.dm(who), person=who, begins=not self.flat)

    def group(self):
        return Place(self.server.channel("ops"))

    def thread(self):
        return Place(self.server.channel("ops"), begins=True)

    def private_home(self, who):
        return self.server.who(who)

    def says(self, place, who, text, call=False, files=()):
        text = f"<@{SLACK_BOT}> {text}" if call else text
        more = {"thread_ts": place.thread} if place.thread else {}
        if files:
            said = self.server.uploads(place.chat, text, dict(files), who, **more)
        else:
            said = self.server.says(place.chat, text, who, **more)
        if place.begins:
            place.thread, place.begins = said, False

    def shown(self, place):
        changes = [call["call"] for call in self.server.calls("chat.update")]
        found = []
        for message in self.server.from_bot(place.chat):
            if message.get("thread_ts") != place.thread:
                continue
            states = [self.raw(change) for change in changes if change["ts"] == message["ts"]] + [self.raw(message)]
            files = [(file["name"], fetched(file["url_private"], "xoxp-alice")) for file in message.get("files") or []]
            found.append(Seen(self.read(states[-1]), states, files))
        return found

    @staticmethod
    def raw(message):
        blocks = message.get("blocks") or []
        blocks = json.loads(blocks) if isinstance(blocks, str) else blocks
        return "\n".join(block["text"]["text"] for block in blocks) or message["text"]

    @staticmethod
    def read(raw):
        return without_fences(raw.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))

    def arrived(self, words):
        [(chat, message)] = [(chat, m) for chat in (self.server.channel("home"), self.server.dm(self.first)) for m in self.server.from_bot(chat)
                             if words in m["text"]]
        return Place(chat, message.get("thread_ts"))

    METHODS = {"send": "chat.postMessage", "edit": "chat.update"}

    def limit_once(self, what):
        self.server.fault(self.METHODS[what], 429, after=1)

    def hold(self, what, done):
        self.server.fault(self.METHODS[what], "hold_after" if done else "hold")

    def held(self):
        return [call for call in self.server.sim("state")["journal"] if str(call.get("fault") or "").startswith("hold")]

    def cut(self):
        self.server.sim("cut")
        self.server.fault(self.METHODS["edit"], "cut")

    def calls(self, what):
        return [(call["at"], call.get("fault") == 429) for call in self.server.calls(self.METHODS[what])]

    def fits(self, raw):
        return len(raw.encode("utf-16-le")) // 2 <= self.limit + 200 and raw.count("```") % 2 == 0

    def verdict(self):
        self.server.verdict(late=None)


PLATFORMS = {one.name: one for one in (Telegram, Discord, Slack)}


def answered(platform, place, words, timeout=WAIT_S):
    """Waits for a message of the agent in a place that contains these words."""
    return until(f"{words!r} on {platform.name}", lambda: [seen for seen in platform.shown(place) if words in seen.text], timeout)[0]
