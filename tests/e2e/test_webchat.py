"""The web chat from the point of view of its page: built host, built library, a separate HTTP client."""

import json
import re
import threading
import uuid

import httpx
import pytest

from conftest import WAIT_S, free_port, until
from files import FILES, is_read

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


class Page:
    """A browser: a link, the list of conversations, one stream, and its state of one conversation."""

    def __init__(self, link):
        base, token = link.split("/?token=")
        self.http = httpx.Client(base_url=base, headers={"origin": base}, timeout=WAIT_S)
        assert self.http.get("/", params={"token": token}, follow_redirects=True).status_code == 200
        self.events, self.texts, self.last, self.stream, self.reader = [], {}, None, None, None

    def get(self, path, **more):
        answer = self.http.get(path, **more)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def post(self, path, body=None):
        answer = self.http.post(path, json=body or {})
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def conversation(self):
        return self.post("/api/conversations")["id"]

    def says(self, chat, text, files=()):
        said = {"id": f"w{uuid.uuid4().hex[:20]}", "text": text, "files": list(files)}
        return self.post(f"/api/conversations/{chat}/messages", said)

    def read(self, chat):
        return self.get(f"/api/conversations/{chat}")

    def entries(self, chat, sender="agent"):
        return [entry for entry in self.read(chat)["entries"] if entry["from"] == sender]

    def answers(self, chat, what, timeout=WAIT_S):
        return until(f"{what!r} in {chat}", lambda: [entry for entry in self.entries(chat) if what in entry["text"]], timeout)

    def title(self, chat):
        return next(line["title"] for line in self.get("/api/state")["conversations"] if line["id"] == chat)

    def others(self):
        return self.get("/api/state")["sessions"]

    def listen(self):
        """Reads the stream from the last position until it is closed or cut."""
        headers = {} if self.last is None else {"last-event-id": self.last}
        self.stream = self.http.stream("GET", "/api/stream", headers=headers, timeout=httpx.Timeout(WAIT_S, read=60))
        answer, stands = self.stream.__enter__(), threading.Event()
        assert answer.status_code == 200

        def read():
            ident = self.last
            try:
                for line in answer.iter_lines():
                    if line.startswith("id:"):
                        ident = line[3:].strip()
                    elif line.startswith("data:"):
                        self.events.append((ident, json.loads(line[5:])))
                    elif line.startswith(":"):
                        stands.set()
                    elif not line:
                        self.last = ident
            except (httpx.HTTPError, httpx.StreamError, OSError):
                pass  # The stream was cut by the host's end or by `leaves`.

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        assert stands.wait(WAIT_S), "the stream stands"
        return self

    def leaves(self):
        """Disconnects in the middle of the stream."""
        self.stream.__exit__(None, None, None)
        self.reader.join(WAIT_S)

    def told(self, kind):
        return [event for _, event in list(self.events) if event["type"] == kind]

    def streamed(self, inbox_id):
        """Returns the answer that a page builds from the pieces; a missing or repeated piece is visible."""
        text = ""
        for chunk in self.told("chunk"):
            if chunk["inbox_id"] == inbox_id:
                assert chunk["at"] == len(text.encode("utf-16-le")) // 2, (chunk, text)
                text += chunk["text"]
        return text


def config(isolation, port, more=""):
    return f"""
[host]
status = ""

[agent]
runtime    = "echo"
test_words = true

{more}

[adapter.webchat]
listen    = "127.0.0.1:{port}"
isolation = "{isolation}"
"""


@pytest.fixture
def served(host, isolation):
    """Returns a host that serves the page, and a browser that has opened it."""

    def make(more=""):
        one = host(config(isolation, free_port(), more))
        one.start(online=["webchat"])
        return one, Page(link(one))

    return make


def link(one):
    """Returns the link of the running host; its log, which is not a terminal, hides the token."""
    return until("the link", lambda: re.findall(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+", one.cli("webchat", "link", check=False).stdout))[-1]


def idle(one):
    until("nothing waits", lambda: (queues := one.status()["queues"]) and queues["turns"] == 0 and queues["inbox"] == 0)


def test_a_burst_while_busy_is_answered_once_each_in_order_and_its_receipts_are_true(served):
    one, page = served('[session]\nbusy = "queue"')
    chat = page.conversation()
    page.listen()
    said = [page.says(chat, "/slow 300 one two three <0>")]
    until("the turn runs", lambda: one.status()["queues"]["turns"] == 1)
    said += [page.says(chat, f"message <{n}>") for n in range(1, 9)]
    assert len({entry["inbox_id"] for entry in said}) == 9
    waiting = [turn["inbox_id"] for turn in page.read(chat)["turns"] if turn["state"] == "waiting"]
    assert set(waiting) <= {entry["inbox_id"] for entry in said[1:]}
    assert page.read(chat)["turns"][0]["inbox_id"] == said[0]["inbox_id"]
    page.answers(chat, "<8>", 60)
    idle(one)
    found = re.findall(r"<(\d)>", "\n".join(entry["text"] for entry in page.entries(chat)))
    assert [int(n) for n in found] == list(range(9))
    assert [entry["text"] for entry in page.entries(chat, "me")] == [entry["text"] for entry in said]
    # A receipt contains the number of waiting messages at its time; none waits when all are answered.
    counts = [int(n) for entry in page.entries(chat, "notice") for n in re.findall(r"Queued \((\d+) waiting\)", entry["text"])]
    assert counts == sorted(counts) and counts, page.entries(chat, "notice")
    until("nothing is shown as waiting", lambda: page.read(chat)["turns"] == [])
    page.leaves()
    one.stop()


def test_the_same_message_sent_twice_is_one(served):
    one, page = served()
    chat = page.conversation()
    said = {"id": "w1", "text": "once <1>"}
    first = page.post(f"/api/conversations/{chat}/messages", said)
    again = page.post(f"/api/conversations/{chat}/messages", said)
    assert first["inbox_id"] == again["inbox_id"]
    page.answers(chat, "<1>")
    idle(one)
    assert len(page.read(chat)["entries"]) == 2
    one.stop()


@pytest.mark.parametrize("way", ["command", "button"])
def test_stop_frees_a_conversation_whose_model_hangs_and_keeps_what_was_said(served, way):
    one, page = served()
    chat = page.conversation()
    page.listen()
    inbox_id = page.says(chat, "/hang what is said before")["inbox_id"]
    until("it is said", lambda: page.streamed(inbox_id) == "what is said before")
    if way == "command":
        page.says(chat, "/stop")
    else:
        assert page.post(f"/api/conversations/{chat}/stop") == {"stopped": True}
    until("the turn is over", lambda: one.status()["queues"]["turns"] == 0, 10)
    cut = page.answers(chat, "what is said before")[0]
    assert cut["interrupted"] and cut["in_reply_to"] == inbox_id
    page.says(chat, "next <1>")
    page.answers(chat, "next <1>")
    assert page.read(chat)["turns"] == []
    page.leaves()
    one.stop()


def test_a_newer_message_interrupts_and_the_cut_answer_is_marked(served):
    one, page = served()
    chat = page.conversation()
    page.listen()
    first = page.says(chat, "/hang half of it")["inbox_id"]
    until("it is said", lambda: page.streamed(first) == "half of it")
    page.says(chat, "rather this <1>")
    page.answers(chat, "rather this <1>")
    assert [(entry["text"], entry["interrupted"]) for entry in page.entries(chat)] == [
        ("half of it\n\n(interrupted)", True), ("rather this <1>", False),
    ]
    page.leaves()
    one.stop()


def test_nine_thousand_characters_with_code_and_a_table_arrive_whole(served):
    one, page = served()
    code = "\n".join(f"    let value_{n} = {n}; // {'x' * 20}" for n in range(100))
    table = "| name | value |\n|---|---|\n" + "\n".join(f"| row {n} | {n * n} |" for n in range(40))
    prose = "\n\n".join(f"Paragraph {n}. " + "It goes on and on. " * 14 + "ünd 😀." for n in range(15))
    text = f"{prose}\n\n```rust\n{code}\n```\n\n{table}\n\nthe end of it"
    assert len(text) > 9_000
    chat = page.conversation()
    page.listen()
    said = page.says(chat, text)
    page.answers(chat, "the end of it", 60)
    idle(one)
    assert [entry["text"].strip() for entry in page.entries(chat)] == [text], "one message, nothing cut and nothing added"
    assert page.entries(chat, "me")[0]["text"] == text
    assert text.startswith(page.streamed(said["inbox_id"]).strip())
    page.leaves()
    one.stop()


def test_a_file_goes_up_and_a_picture_comes_down(served, tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "cat.png").write_bytes(PNG)
    (folder / "notes.txt").write_text("some notes")
    one, page = served(f'[session]\noutbound_dirs = ["{folder}"]')
    chat = page.conversation()
    up = page.http.post(f"/api/conversations/{chat}/files", params={"name": "report.pdf"}, content=b"%PDF-1.4 not really",
                        headers={"content-type": "application/pdf"})
    assert up.status_code == 200, up.text
    said = page.says(chat, "read this <1>", [up.json()["id"]])
    assert [file["name"] for file in said["files"]] == ["report.pdf"]
    page.answers(chat, "report.pdf")
    assert page.http.get(said["files"][0]["url"]).content == b"%PDF-1.4 not really"

    page.says(chat, f"look\nMEDIA:{folder / 'cat.png'}\nMEDIA:{folder / 'notes.txt'}")
    files = until("the files", lambda: [file for entry in page.entries(chat) for file in entry["files"]])
    until("both", lambda: len([file for entry in page.entries(chat) for file in entry["files"]]) == 2)
    files = {file["name"]: file for entry in page.entries(chat) for file in entry["files"]}
    picture = page.http.get(files["cat.png"]["url"])
    assert picture.content == PNG and picture.headers["content-type"] == "image/png"
    assert picture.headers["content-disposition"].startswith("inline")
    notes = page.http.get(files["notes.txt"]["url"])
    assert notes.text == "some notes" and notes.headers["content-disposition"].startswith("attachment")
    one.stop()


def test_the_text_of_a_text_file_and_of_a_pdf_file_reaches_the_turn(served):
    one, page = served()
    chat = page.conversation()
    for name, content, text in FILES:
        up = page.http.post(f"/api/conversations/{chat}/files", params={"name": name}, content=content.encode())
        page.says(chat, f"read {name}", [up.json()["id"]])
        page.answers(chat, f"read {name}")
        until(f"the text of {name}", lambda: is_read(one, name, text))
    one.stop()


def test_two_browsers_on_one_conversation_see_the_same(served):
    one, left = served()
    chat = left.conversation()
    left.listen()
    right = Page(link(one)).listen()
    first = left.says(chat, "/slow 60 from the left <1>")["inbox_id"]
    until("the other sees it", lambda: [event for event in right.told("entry") if event["entry"]["inbox_id"] == first])
    left.answers(chat, "<1>")
    second = right.says(chat, "/slow 60 from the right <2>")["inbox_id"]
    right.answers(chat, "<2>")
    idle(one)

    def seen(page):
        return [(event["entry"]["from"], event["entry"]["text"]) for event in page.told("entry")]

    until("both were told all", lambda: len(seen(left)) == len(seen(right)) == 4)
    assert seen(left) == seen(right)
    for inbox_id, words in ((first, "from the left <1>"), (second, "from the right <2>")):
        assert left.streamed(inbox_id) == right.streamed(inbox_id) == words
    left.leaves()
    right.leaves()
    one.stop()


def test_a_page_that_reconnects_in_the_middle_of_an_answer_loses_and_doubles_nothing(served):
    one, page = served()
    chat = page.conversation()
    page.listen()
    words = " ".join(f"w{n}" for n in range(40))
    inbox_id = page.says(chat, f"/slow 80 {words}")["inbox_id"]
    for n in (5, 12, 20):
        until("the answer grows", lambda n=n: f"w{n}" in page.streamed(inbox_id))
        page.leaves()
        page.listen()
    page.answers(chat, "w39", 60)
    until("all was streamed", lambda: page.streamed(inbox_id) == words)
    until("the answer was told", lambda: [event for event in page.told("entry") if event["entry"]["text"] == words])
    numbers = [int(ident.split(".")[1]) for ident, _ in page.events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "each event once, in order"
    assert not page.told("reset")
    page.leaves()
    one.stop()


def test_kill_dash_nine_in_the_middle_of_an_answer_loses_and_doubles_nothing(served):
    one, page = served()
    chat = page.conversation()
    page.listen()
    page.says(chat, "before <0>")
    page.answers(chat, "<0>")
    words = " ".join(f"w{n}" for n in range(30))
    inbox_id = page.says(chat, f"/slow 80 {words}")["inbox_id"]
    page.says(chat, "/queue and then <1>")
    until("the answer grows", lambda: "w5" in page.streamed(inbox_id))
    one.kill()
    page.reader.join(WAIT_S)
    one.start(online=["webchat"])
    page.answers(chat, "<1>", 60)
    idle(one)
    assert [entry["text"] for entry in page.entries(chat)] == ["before <0>", words, "and then <1>"]
    assert [entry["text"] for entry in page.entries(chat, "me")] == ["before <0>", f"/slow 80 {words}", "/queue and then <1>"]
    # A page of the former run must reload its data, and its link remains valid.
    page.listen()
    until("it is told", lambda: page.told("reset"))
    assert link(one) == link(one)
    page.leaves()
    one.stop()


def test_titles_branches_and_resumed_conversations_are_the_hosts(served):
    one, page = served()
    chat, other = page.conversation(), page.conversation()
    page.listen()
    page.says(chat, "Plan the trip to Rome")
    page.answers(chat, "Plan the trip")
    until("the host's title", lambda: page.title(chat) == "Plan the trip to Rome")
    page.says(chat, "/title Holidays")
    until("the title of /title", lambda: page.title(chat) == "Holidays")
    told = lambda: [line for line in page.told("conversation") if line["conversation"]["title"] == "Holidays"]
    until("it is told, too", told)
    sessions = json.loads(one.cli("session", "list", "--json").stdout)
    assert [session["title"] for session in sessions] == ["Holidays"]

    page.says(other, "something else")
    page.answers(other, "something else")
    until("a session", lambda: next(line["session"] for line in page.get("/api/state")["conversations"] if line["id"] == other))
    renamed = page.http.patch(f"/api/conversations/{other}", json={"title": "Holidays"})
    assert renamed.json()["title"] == "Holidays #2"

    page.says(chat, "/branch")
    page.answers(chat, "Switched to a new branch")
    parent = until("the parent is listed", lambda: [session for session in page.others() if session["title"] == "Holidays"])[0]
    assert page.title(chat) not in ("Holidays", "Holidays #2")
    said = page.get(f"/api/sessions/{parent['id']}")["entries"]
    assert [entry["text"] for entry in said] == ["Plan the trip to Rome", "Plan the trip to Rome"]
    again = page.post(f"/api/sessions/{parent['id']}/conversation")["id"]
    assert again not in (chat, other) and page.title(again) == "Holidays" and page.others() == []
    page.says(again, "history? <9>")
    page.answers(again, "<9>")
    assert any(hit["conversation"] == other for hit in page.get("/api/search", params={"q": "something"}))

    assert page.http.delete(f"/api/conversations/{other}").status_code == 200
    titles = {session["title"] for session in json.loads(one.cli("session", "list", "--json").stdout)}
    assert "Holidays #2" not in titles and "Holidays" in titles
    page.leaves()
    one.stop()


def test_deleting_a_conversation_ends_what_runs_in_it(served):
    one, page = served('[session]\nbusy = "queue"')
    chat = page.conversation()
    page.says(chat, "/hang on")
    until("the turn runs", lambda: one.status()["queues"]["turns"] == 1)
    page.says(chat, "and this waits")
    assert page.http.delete(f"/api/conversations/{chat}").status_code == 200
    idle(one)
    assert page.get("/api/state")["conversations"] == [] and page.others() == []
    assert json.loads(one.cli("session", "list", "--json").stdout) == []
    one.stop()


def test_the_menu_is_what_the_operator_may_run_and_follows_the_configuration(served):
    one, page = served()
    page.listen()

    def menu():
        return {command["name"]: command.get("values", []) for command in page.get("/api/state")["commands"]}

    assert {"restart", "sessions", "background"} <= set(menu())
    assert menu()["busy"] == ["interrupt", "queue", "steer", "reset"] and "reset" in menu()["model"]
    one.config.write_text(one.config.read_text() + "\n[commands]\nbackground = false\n")
    one.cli("reload")
    until("the page is told", lambda: [event for event in page.told("commands")
                                       if "background" not in {command["name"] for command in event["commands"]}])
    assert "background" not in menu()
    page.leaves()
    one.stop()
