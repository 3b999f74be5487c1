"""Discord with the built host and library, against `yepcord-server`, an independent implementation of Discord.

It speaks version 9 of the API, has no endpoint for the bot's gateway and no menu of commands in one request. It
supports registered users, servers, invited bots, messages, threads, files and the gateway. Users cannot join
threads there, so messages in threads are read with the bot's own token, and people write in a channel. Sessions
cannot be resumed because of a fault of the server, so the host is not restarted.
"""

import os
import pathlib
import signal
import subprocess
import sys
import urllib.error
import uuid

import pytest

from conftest import HERE, Program, free_port, request, until, until_it_answers
from platforms import NUMBERED, fetched, without_fences
from test_model import config
from told_model import ToldModel, long_answer

KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
TEXT_CHANNEL = 0
INSTALL_S = 600
SAID = (0, 19)


class Yepcord:
    """The server, and a user who created a guild and invited the bot."""

    def __init__(self, base):
        self.base, self.api = base, f"{base}/api/v9"

    def call(self, method, path, body=None, token=None):
        return request(method, f"{self.api}/{path}", body, {"authorization": token} if token else {})

    def register(self, name):
        account = {"username": name, "email": f"{name}@example.com", "password": "a password 123", "date_of_birth": "2000-01-01"}
        token = self.call("POST", "auth/register", account)["token"]
        return {"token": token, "id": self.call("GET", "users/@me", token=token)["id"]}

    def furnish(self):
        self.alice, self.bob = self.register("alice"), self.register("bob")
        alice = self.alice["token"]
        guild = self.call("POST", "guilds", {"name": "The Guild", "icon": None, "template_code": "2TffvPucqHkN"}, alice)
        self.general = next(one["id"] for one in guild["channels"] if one["type"] == TEXT_CHANNEL)
        self.plain = self.call("POST", f"guilds/{guild['id']}/channels", {"name": "plain", "type": TEXT_CHANNEL}, alice)["id"]
        self.bot = self.call("POST", "applications", {"name": "hermes"}, alice)["id"]
        self.bot_token = self.call("POST", f"applications/{self.bot}/bot/reset", {}, alice)["token"]
        wanted = f"oauth2/authorize?client_id={self.bot}&scope=bot%20applications.commands"
        self.call("POST", wanted, {"authorize": True, "guild_id": guild["id"], "permissions": "8"}, alice)
        code = self.call("POST", f"channels/{self.general}/invites", {"max_age": 0}, alice)["code"]
        self.call("POST", f"invites/{code}", {}, self.bob["token"])

    def says(self, who, channel, text):
        return self.call("POST", f"channels/{channel}/messages", {"content": text}, who["token"])["id"]

    def dm(self, who):
        return self.call("POST", "users/@me/channels", {"recipients": [self.bot]}, who["token"])["id"]

    def shown(self, channel, token=None):
        """Returns the bot's messages in order."""
        try:
            messages = self.call("GET", f"channels/{channel}/messages?limit=50", token=token or self.alice["token"])
        except urllib.error.HTTPError:
            return []  # The thread does not exist yet.
        said = (one for one in messages if one["author"]["id"] == self.bot and one["type"] in SAID)
        return sorted(said, key=lambda one: int(one["id"]))

    def answer(self, channel, text, token=None):
        return until(f"{text!r} in {channel}", lambda: [one for one in self.shown(channel, token) if text in one["content"]])[0]


@pytest.fixture(scope="session")
def program():
    """Returns the server's program; installs it by pinned names if it is missing, which takes about a minute. The
    server is licensed under the AGPL, so it runs in a separate process and none of its code is part of this
    repository."""
    folder, wanted = pathlib.Path(os.environ["YEPCORD"]), HERE / "requirements-yepcord.txt"
    installed = folder / wanted.name
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", wanted]
        subprocess.run(pip, check=True, timeout=INSTALL_S)
        installed.write_bytes(wanted.read_bytes())
    return folder / "bin/yepcord"


@pytest.fixture
def yepcord(tmp_path, program):
    folder = tmp_path / "yepcord"
    folder.mkdir()
    port = free_port()
    config = folder / "config.py"
    address = f"127.0.0.1:{port}"
    config.write_text(f"""
DB_CONNECT_STRING = "sqlite:///{folder}/db.sqlite"
MIGRATIONS_DIR = "{folder}/migrations"
KEY = "{KEY}"
PUBLIC_HOST, GATEWAY_HOST, CDN_HOST = "{address}", "{address}/gateway", "{address}/media"
STORAGE = {{"type": "local", "local": {{"path": "{folder}/files"}}}}
BCRYPT_ROUNDS = 4
""")
    migrated = Program([program, "migrate", "-c", config], folder / "migrate.log", cwd=folder)
    assert migrated.process.wait(60) == 0, migrated.said()
    running = Program([program, "run_all", "-c", config, "-h", "127.0.0.1", "-p", str(port)], folder / "server.log", cwd=folder)
    found = Yepcord(f"http://{address}")
    until_it_answers(running, lambda: found.call("GET", "gateway"))
    found.furnish()
    yield found
    running.stop(signal.SIGKILL)


def section(yepcord, isolation):
    return f"""
[adapter.discord]
token       = "{yepcord.bot_token}"
base_url    = "{yepcord.api}"
gateway_url = "{yepcord.base.replace("http", "ws")}/gateway"
isolation   = "{isolation}"
session     = {{ merge_ms = 0 }}
reply_mode  = "off"  # This server breaks on a reply in private messages.
no_thread_channels = ["{yepcord.plain}"]
access      = {{ allowed_users = ["{yepcord.alice["id"]}", "{yepcord.bob["id"]}"] }}
"""


def test_on_a_discord_of_somebody_else_two_people_talk_and_a_long_answer_and_a_file_arrive(host, yepcord, isolation):
    model = ToldModel(long_answer())
    try:
        one = host(config(model.base) + section(yepcord, isolation), {"OPENAI_API_KEY": "sk-test"}).start(online=["discord"])
        story(one, yepcord, model)
    finally:
        model.stop()


def story(one, yepcord, model):
    alice, bob, plain, call = yepcord.alice, yepcord.bob, yepcord.plain, f"<@{yepcord.bot}>"
    private = yepcord.dm(alice)
    yepcord.says(alice, private, "this is number 1")
    yepcord.answer(private, "Answer to number 1.")
    thread = yepcord.says(alice, yepcord.general, f"{call} this is number 2")
    yepcord.answer(thread, "Answer to number 2.", f"Bot {yepcord.bot_token}")
    yepcord.says(bob, plain, "nobody is called, not even by number 9")
    for who, n in ((alice, 3), (bob, 4)):
        yepcord.says(who, plain, f"{call} this is number {n}")
        yepcord.answer(plain, f"Answer to number {n}.")

    model.hold()
    yepcord.says(alice, plain, f"{call} tell me at length")
    model.allow(2)
    yepcord.answer(plain, "Here is all of it")
    model.allow(2)
    until("it grows", lambda: yepcord.answer(plain, "Here is all of it")["edited_timestamp"])
    model.release()
    until("the end", lambda: "end of it" in yepcord.shown(plain)[-1]["content"])
    texts = [message["content"] for message in yepcord.shown(plain)[2:]]
    assert len(texts) > 3 and all(len(text) <= 2000 and text.count("```") % 2 == 0 for text in texts)
    words = [word for text in texts for word in without_fences(NUMBERED.sub("", text)).split()]
    assert words == without_fences(model.long).split()

    # A file is sent. Incoming files are impossible: the server names them by https URLs, but does not speak https.
    sent = uuid.uuid4().hex
    (one.folder / "notes.txt").write_text(sent)
    one.cli("send", f"discord:{plain}", "take this", "--file", "notes.txt")
    message = yepcord.answer(plain, "take this")
    [file] = message["attachments"]
    assert file["filename"] == "notes.txt" and fetched(file["url"].replace("https:", "http:")) == sent.encode()
    assert len(yepcord.shown(private)) == 1 and yepcord.shown(yepcord.general) == []
    assert one.stop() == 0
