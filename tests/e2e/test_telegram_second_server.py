"""A conversation with an independent Bot API server, checked by its own journal."""

import json
import pathlib
import subprocess
import sys
import time
import urllib.request
import uuid

import pytest

from conftest import HEADER, Program, free_port, request, until

LO = pathlib.Path(sys.executable).parent / "lo-bot-api-emulator"
TOKEN = "123:abc"


class Second:
    """The server, from the point of view of people who write to the bot."""

    def __init__(self, folder):
        self.journal, port = folder / "journal.jsonl", free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.program = Program([LO, "--port", str(port), "--enable-control", "--journal", self.journal], folder / "lo.log")
        self.message_id = 4

    def bring(self, **update):
        def taken():
            try:
                return request("POST", f"{self.base}/__fixture/updates", {"token": TOKEN, "update": update})
            except OSError:
                return None

        return until("the update is taken", taken)

    def message(self, **content):
        self.message_id += 1
        person = {"id": 8, "is_bot": False, "first_name": "A"}
        chat = {"id": 8, "type": "private", "first_name": "A"}
        return {"message_id": self.message_id, "date": int(time.time()), "chat": chat, "from": person, **content}

    def says(self, text, **more):
        self.bring(message=self.message(text=text, **more))

    def calls(self, method):
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        return [one for one in map(json.loads, lines) if one.get("method") == method and one["status"] == 200]

    def holds(self, name, content):
        """Uploads a file, so that a message can contain it."""
        border = uuid.uuid4().hex
        body = (f'--{border}\r\ncontent-disposition: form-data; name="chat_id"\r\n\r\n8\r\n'
                f'--{border}\r\ncontent-disposition: form-data; name="document"; filename="{name}"\r\n\r\n').encode()
        body += content + f"\r\n--{border}--\r\n".encode()
        call = urllib.request.Request(f"{self.base}/bot{TOKEN}/sendDocument", body, {"content-type": f"multipart/form-data; boundary={border}"})
        return json.load(urllib.request.urlopen(call, timeout=30))["result"]["document"]

    def verdict(self, *methods):
        wanted = [argument for method in methods for argument in ("--require-method", method)]
        return subprocess.run([LO, "verdict", self.journal, "--require-response", *wanted], capture_output=True, text=True, timeout=30)


@pytest.fixture
def second(tmp_path):
    found = Second(tmp_path)
    yield found
    found.program.stop()


def test_a_conversation_with_files_and_growing_answers_passes_its_verdict(host, second, isolation):
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    # This server has no reactions and no preview options.
    one = host(header + f"""
[adapter.telegram]
token     = "{TOKEN}"
base_url  = "{second.base}"
isolation = "{isolation}"
poll_timeout_s = 2
link_previews = true
access    = {{ allowed_users = ["8"] }}
session   = {{ reactions = false, receipts = false }}
""").start(online=["telegram"])
    second.says("hello *world* <b> & more")
    until("an answer", lambda: second.calls("sendMessage"))
    second.says("/status")
    until("another", lambda: len(second.calls("sendMessage")) >= 2)
    second.says("/slow 150 " + " ".join(f"w{n}" for n in range(30)))
    until("it grows and ends", lambda: len(second.calls("editMessageText")) >= 2)
    until("it typed", lambda: second.calls("sendChatAction"))
    held = second.holds("notes.txt", b"what is in it")
    second.bring(message=second.message(document=held, caption="read this"))
    until("the file was fetched", lambda: second.calls("getFile"))
    media = one.home / "media"
    until("it is kept", lambda: any(path.read_bytes() == b"what is in it" for path in (media / "telegram" / "in").rglob("*") if path.is_file()))
    for name in ("a.png", "b.png", "c.pdf"):
        (media / name).write_bytes(b"x")
    second.says(f"a picture\nMEDIA:{media}/a.png")
    until("a picture", lambda: second.calls("sendPhoto"))
    second.says(f"an album\nMEDIA:{media}/a.png\nMEDIA:{media}/b.png")
    until("an album", lambda: second.calls("sendMediaGroup"))
    second.says(f"a document\nMEDIA:{media}/c.pdf")
    until("a document", lambda: len(second.calls("sendDocument")) >= 2)
    one.stop()
    judged = second.verdict("getMe", "deleteWebhook", "setMyCommands", "getUpdates", "sendMessage", "editMessageText",
                            "sendChatAction", "getFile", "sendPhoto", "sendMediaGroup", "sendDocument")
    assert judged.returncode == 0, judged.stdout + judged.stderr
