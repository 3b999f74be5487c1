"""A conversation of the terminal moves to a chat, with a crash of the host at any point, and returns."""

import json
import re
import subprocess

import pytest

from conftest import BIN, free_port, telegram_section, until
from held_model import HeldModel
from test_model import config
from test_terminal import terminal  # noqa: F401 - a fixture
from test_webchat import Page, link

MOVED = "was moved to this chat"
MARK = "(possibly repeated)"
# Destinations: a forum and a private chat with topics, and one of each without.
HOMES = {"forum": (-100, True), "private topics": (7, True), "group": (-200, False), "private": (8, False)}


@pytest.fixture
def held():
    model = HeldModel(lambda said: f"It {MOVED}." if MOVED in said else f"answer to <{said}>")
    yield model
    model.stop()


@pytest.fixture
def place(host, telegram, held, isolation):
    """Returns a host with a web chat and Telegram, whose home channel is `home`."""

    def make(home, more="", topics=True):
        if not topics:
            telegram.sim("plain", chat=home)
        section = telegram_section(telegram, isolation, f'home_channel = "{home}"\nsession = {{ merge_ms = 0, require_mention = false{more} }}')
        page = f'[adapter.webchat]\nlisten = "127.0.0.1:{free_port()}"\nisolation = "{isolation}"\nhome_channel = "inbox"\n'
        one = host(config(held.base) + section + page, {"OPENAI_API_KEY": "sk-test"})
        one.start(online=["telegram", "webchat"])
        return one

    return make


def handoff(one, session):
    return json.loads(one.cli("handoff", "show", session, "--json").stdout)


def arrives(one, session):
    def look():
        shown = handoff(one, session)
        assert shown["state"] != "failed", shown
        return shown if shown["state"] == "completed" else None

    return until("it arrives", look, 60)


def said_once(one, text="of boats"):
    """Returns a session of the terminal with one message."""
    one.cli("chat", "-m", text)
    return json.loads(one.cli("session", "list", "--json").stdout)[0]["id"]


def messages(one, session):
    shown = json.loads(one.cli("session", "show", session, "--json").stdout)
    return [(message["role"], message["content"]) for message in shown["messages"]]


def openings(telegram, chat):
    """Returns the first messages of the bot in a chat after an arrival, without marks."""
    return [message for message in telegram.from_bot(chat) if MOVED in (message.get("text") or "")]


def topics(telegram, chat):
    return telegram.get(f"topics/{chat}")


def roles(request):
    return [message["role"] for message in request if message["role"] != "system"]


def contents(request):
    return [message["content"] for message in request if message["role"] != "system"]


@pytest.mark.parametrize("where", HOMES)
def test_five_turns_move_to_a_chat_and_back_and_to_the_page(place, telegram, held, terminal, where):  # noqa: F811 - a fixture
    home, has_topics = HOMES[where]
    one = place(home, topics=has_topics)
    at = terminal(one).sees("/quit exits")
    for n in range(1, 6):
        at.types(f"turn number {n}").sees(f"answer to <turn number {n}>")
    at.types("/handoff telegram")
    assert at.ends() == 0
    session = at.session()
    assert f"hermes-host chat --resume {session}" in at.said()
    assert arrives(one, session)["state"] == "completed"
    [opened] = openings(telegram, home)
    thread = opened.get("message_thread_id")
    assert (thread is not None) == has_topics and len(topics(telegram, home)) == (1 if has_topics else 0)

    more = {"thread": thread} if has_topics else {}
    telegram.says(home, "and now from the chat", **{"from": 7 if home < 0 else home, **more})
    until("it is answered", lambda: [m for m in telegram.from_bot(home) if "from the chat>" in (m.get("text") or "")])
    assert telegram.from_bot(home)[-1].get("message_thread_id") == thread
    [request] = held.asked("and now from the chat")
    assert roles(request) == ["user", "assistant"] * 6 + ["user"], "the whole conversation, each with its role"
    for n in range(5):
        assert contents(request)[2 * n:2 * n + 2] == [f"turn number {n + 1}", f"answer to <turn number {n + 1}>"]
    assert MOVED in contents(request)[10]

    telegram.says(home, "/return", **{"from": 7 if home < 0 else home, **more})
    until("it is back", lambda: [m for m in telegram.from_bot(home) if "is back in the terminal" in (m.get("text") or "")])
    again = terminal(one, "--resume", session).sees("Resumed session").types("at home again").sees("answer to <at home again>")
    [request] = held.asked("at home again")
    assert roles(request) == ["user", "assistant"] * 7 + ["user"] and contents(request)[0] == "turn number 1"
    assert "and now from the chat" in contents(request)[12]

    again.types("/handoff").sees("/claim ")
    code = re.findall(r"/claim ([A-Z0-9-]+)", again.said())[-1]
    again.types("/quit")
    assert again.ends() == 0
    page = Page(link(one))
    chat = page.conversation()
    page.says(chat, f"/claim {code}")
    page.answers(chat, "Back in")
    page.says(chat, "on the page")
    page.answers(chat, "answer to <on the page>")
    [request] = held.asked("on the page")
    assert roles(request) == ["user", "assistant"] * 8 + ["user"]
    assert contents(request)[0] == "turn number 1" and contents(request)[14] == "at home again"
    page.says(chat, f"/claim {code}")
    page.answers(chat, "No conversation is offered with this code")
    one.stop()
    telegram.verdict()


@pytest.mark.parametrize("state", ["opening its topic", "topic made, not told", "in its turn", "sending", "sent, not told"])
def test_it_arrives_once_wherever_the_host_is_killed(place, telegram, held, state):
    one = place(-100)
    session = said_once(one)
    method, kind = {
        "opening its topic": ("createForumTopic", "hold"), "topic made, not told": ("createForumTopic", "hold_after"),
        "in its turn": (None, None), "sending": ("sendMessage", "hold"), "sent, not told": ("sendMessage", "hold_after"),
    }[state]
    if method:
        telegram.fault(method, kind)
    else:
        held.hold()
    asked = one.cli("handoff", session, "telegram", "--wait", "1", check=False)
    assert asked.returncode == 3 and "is still in progress" in asked.stdout, asked

    def reached():
        if method is None:
            return held.asked(MOVED)
        done = kind == "hold" or (topics(telegram, -100) if method == "createForumTopic" else openings(telegram, -100))
        return done and [call for call in telegram.get("journal") if call["method"] == method]

    until(f"it is {state}", reached)
    assert handoff(one, session)["state"] == "running"
    one.kill()
    held.release()
    one.start(online=["telegram"])
    arrives(one, session)
    # A message that may have arrived counts as arrived and is repeated afterwards.
    until("all is delivered", lambda: one.status()["queues"]["outbox"] == 0)
    assert len(topics(telegram, -100)) <= 1, "never two threads"
    unmarked = [m for m in openings(telegram, -100) if MARK not in m["text"]]
    assert len(openings(telegram, -100)) == (2 if state == "sent, not told" else 1)
    assert len(unmarked) <= 1, "what may be a second copy says so"
    thread = openings(telegram, -100)[-1].get("message_thread_id")
    telegram.says(-100, "and on", **{"from": 7, **({"thread": thread} if thread else {})})
    until("it goes on there", lambda: [m for m in telegram.from_bot(-100) if "and on>" in (m.get("text") or "")])
    [request] = held.asked("and on")
    assert contents(request)[:2] == ["of boats", "answer to <of boats>"]
    assert roles(request) == ["user", "assistant", "user", "assistant", "user"], "one opening, one answer"
    assert one.stop() == 0


def test_what_waits_to_be_taken_up_arrives_after_a_kill(place, telegram, held):
    one = place(-100)
    # Eight run at once; the ninth waits.
    sessions = [said_once(one, f"of boat {n}") for n in range(9)]
    held.hold()
    command = [BIN / "hermes-host", "handoff", "--home", one.home, "--config", one.config]
    asking = [subprocess.Popen([*command, session, "telegram"], env=one.env, cwd=one.folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL) for session in sessions]

    def states():
        return sorted(row["state"] for row in json.loads(one.cli("handoff", "list", "--json").stdout))

    until("one waits for the others", lambda: states() == ["pending"] + ["running"] * 8 and len(held.asked(MOVED)) == 8)
    one.kill()
    for program in asking:
        assert program.wait(30) not in (0, 3), "nobody is told that it arrived"
    held.release()
    one.start(online=["telegram"])
    for session in sessions:
        arrives(one, session)
    until("all is delivered", lambda: one.status()["queues"]["outbox"] == 0)
    assert sorted(topics(telegram, -100).values()) == sorted(f"of boat {n}" for n in range(9))
    assert len({message["message_thread_id"] for message in openings(telegram, -100)}) == len(openings(telegram, -100)) == 9
    assert one.stop() == 0


def test_nobody_else_serves_a_handoff_and_two_people_share_what_arrived(place, telegram, held):
    one = place(-100)
    session = said_once(one)
    held.hold()
    assert one.cli("handoff", session, "telegram", "--wait", "1", check=False).returncode == 3
    second = one.cli("run", check=False)
    assert second.returncode == 1 and "another host" in second.stderr
    meanwhile = one.cli("chat", "--resume", session, "-m", "meanwhile", check=False)
    assert meanwhile.returncode == 1 and "try again" in meanwhile.stderr, meanwhile
    again = one.cli("handoff", session, "webchat", check=False)
    assert again.returncode == 1 and "to telegram is already in progress" in again.stderr, again
    held.release()
    arrives(one, session)
    [opened] = openings(telegram, -100)
    thread = opened["message_thread_id"]
    for person, text in ((7, "the first speaks"), (8, "the second speaks")):
        telegram.says(-100, text, thread=thread, **{"from": person})
        until("it is answered", lambda text=text: [m for m in telegram.from_bot(-100) if f"{text}>" in (m.get("text") or "")])
    [request] = held.asked("the second speaks")
    assert roles(request) == ["user", "assistant"] * 3 + ["user"] and "the first speaks" in contents(request)[4]
    assert [role for role, _ in messages(one, session)] == ["user", "assistant"] * 4
    # A chat has the conversation now, so neither the shell nor the terminal can move it.
    for arguments in (("handoff", session, "telegram"), ("handoff", session, "webchat"), ("handoff", "offer", session)):
        refused = one.cli(*arguments, check=False)
        assert refused.returncode == 1 and "continues in telegram:Group -100, of boats" in refused.stderr and "/new" in refused.stderr, refused
    assert handoff(one, session)["state"] == "completed"
    assert one.stop() == 0
    telegram.verdict()


@pytest.mark.parametrize("isolation", ["in-process"])
def test_what_takes_longer_than_the_terminal_waits_arrives_all_the_same(place, telegram, held, terminal):  # noqa: F811 - a fixture
    # The terminal waits for one minute, and so does this test.
    one = place(-100)
    at = terminal(one).sees("/quit exits").types("of boats").sees("answer to <of boats>")
    held.hold()
    at.types("/handoff telegram").sees("is still in progress", timeout=90)
    session = handoff(one, json.loads(one.cli("session", "list", "--json").stdout)[0]["id"])["session"]
    assert handoff(one, session)["state"] == "running"
    # The terminal shows the place of the conversation until the user begins another one there.
    at.types("is anybody here?").sees("Message not sent: this conversation continues in telegram").sees(f"/resume {session}")
    held.release()
    arrives(one, session)
    at.types("/new").sees("Started a new conversation").types("of cars").sees("answer to <of cars>")
    assert len(openings(telegram, -100)) == 1
    at.types("/quit")
    assert at.ends() == 0
    assert messages(one, session)[0] == ("user", "of boats") and len(messages(one, session)) == 4, "nothing was added meanwhile"
    assert one.stop() == 0
