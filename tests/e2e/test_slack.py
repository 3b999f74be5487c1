"""Slack with the built host and library, against an emulator that was checked with Slack's SDK."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import pytest

from chat_server import Chat, ChatServer
from conftest import HEADER, HERE, WAIT_S, Program, free_port, request, until, until_it_answers
from files import FILES, is_read
from held_model import HeldModel
from test_model import config

BOT, TEAM = "U0HERMES1", "T000000001"
MENTION = f"<@{BOT}>"
SECRETS = ("xoxb-hermes", "xapp-1-A-1", "xoxb-second", "sekret")


class Slack:
    """The emulator, from the point of view of people who write to the app."""

    def __init__(self, base):
        self.base, self.ids = base, {}

    def sim(self, what, **body):
        return request("POST", f"{self.base}/_sim/{what}", body)

    def call(self, method, token="xoxp-alice", **form):
        data = urllib.parse.urlencode(form).encode()
        asked = urllib.request.Request(f"{self.base}/api/{method}", data, {"authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=WAIT_S) as answer:
            found = json.loads(answer.read())
        assert found["ok"], (method, found)
        return found

    def who(self, name="alice"):
        if name not in self.ids:
            self.ids[name] = self.call("auth.test", f"xoxp-{name}")["user_id"]
        return self.ids[name]

    def channel(self, name="ops"):
        if name not in self.ids:
            self.ids[name] = next(one["id"] for one in self.call("conversations.list")["channels"] if one["name"] == name)
        return self.ids[name]

    def dm(self, name="alice"):
        return self.call("conversations.open", f"xoxp-{name}", users=BOT)["channel"]["id"]

    def says(self, channel, text, name="alice", **more):
        return self.call("chat.postMessage", f"xoxp-{name}", channel=channel, text=text, **more)["ts"]

    def uploads(self, channel, text, files, name="alice", **more):
        ids = []
        for file, content in files.items():
            place = self.call("files.getUploadURLExternal", f"xoxp-{name}", filename=file, length=len(content))
            urllib.request.urlopen(urllib.request.Request(place["upload_url"], content.encode()), timeout=WAIT_S)
            ids.append({"id": place["file_id"], "title": file})
        self.call("files.completeUploadExternal", f"xoxp-{name}", files=json.dumps(ids), channel_id=channel, initial_comment=text, **more)
        return next(one["ts"] for one in self.sim("messages", channel=channel) if one["text"] == text and one.get("files"))

    def from_bot(self, channel):
        return [one for one in self.sim("messages", channel=channel) if one["user"] == BOT]

    def answers(self, channel, count, timeout=WAIT_S):
        until(f"{count} messages of the bot in {channel}", lambda: len(self.from_bot(channel)) >= count, timeout)
        return self.from_bot(channel)

    def answer_with(self, channel, text, timeout=WAIT_S):
        return until(f"{text!r} in {channel}", lambda: [one for one in self.from_bot(channel) if text in one["text"]], timeout)[0]

    def calls(self, method):
        return [one for one in self.sim("state")["journal"] if one["method"] == method]

    def fault(self, method, kind, **more):
        self.sim("fault", method=method, kind=kind, **more)

    def quiet(self):
        """Returns true once all events are acknowledged."""
        return until("nothing waits", lambda: self.sim("state")["waiting"] == 0)

    def verdict(self, late=0):
        state = self.sim("state")
        assert state["errors"] == [] and state["journal"]
        assert late is None or state["late"] == late, "every delivery is acknowledged within three seconds"


@pytest.fixture
def slack_host(tmp_path):
    made = []

    def make(events_url=None):
        port = free_port()
        arguments = ["node", HERE / "slack_host.mjs", os.environ["SLACK_EMULATE"], str(port), HERE / "slack_seed.json"]
        program = Program(arguments + ([events_url] if events_url else []), tmp_path / f"slack-{port}.log")
        made.append(program)
        found = Slack(f"http://127.0.0.1:{port}")
        until_it_answers(program, lambda: found.sim("state"))
        return found

    yield make
    for program in made:
        program.stop(signal.SIGKILL)


@pytest.fixture
def slack(slack_host):
    return slack_host()


class GrowingModel(ChatServer):
    """A model that streams its answer piece by piece on command."""

    def __init__(self, *pieces):
        self.steps = threading.Semaphore(0)
        outer = self

        class Handler(Chat):
            def do_POST(self):
                self.asked()
                self.stream(outer.told(pieces))

        self.serve(Handler)

    def told(self, pieces):
        for piece in pieces:
            self.steps.acquire()
            yield {"content": piece}

    def step(self):
        self.steps.release()

    def stop(self):
        for _ in range(10):
            self.step()
        super().stop()


def section(slack, isolation, more="", transport='app_token  = "xapp-1-A-1"', tokens="xoxb-hermes"):
    # Most tests look for the answer to a direct message in its thread.
    more = more if "dm_threads" in more else f"dm_threads = true\n{more}"
    return f"""
[adapter.slack]
bot_token  = "{tokens}"
{transport}
base_url   = "{slack.base}/api"
ping_s     = 1
isolation  = "{isolation}"
access     = {{ allowed_users = ["{slack.who("alice")}", "{slack.who("bob")}"] }}
{more}
"""


def started(host, slack, isolation, more="", header=HEADER, **kind):
    return host(header + section(slack, isolation, more, **kind)).start(online=["slack"])


def test_slacks_sdk_finds_the_stand_in_true(slack_host):
    for more in ([], [str(free_port())]):
        stand_in = slack_host(f"http://127.0.0.1:{more[0]}" if more else None)
        done = subprocess.run([sys.executable, HERE / "check_slack_host.py", stand_in.base, *more], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_mention_is_answered_once_in_a_thread_that_goes_on_without_one(host, slack, isolation):
    one = started(host, slack, isolation)
    assert one.adapter("slack")["isolation"] == isolation
    ops = slack.channel()
    slack.says(ops, f"nothing for hermes, @hermes or &lt;@{BOT}&gt;")
    first = slack.says(ops, f"{MENTION} hello *world* <!channel>")
    answer = slack.answers(ops, 1)[0]
    assert answer["thread_ts"] == first and "hello" in answer["text"] and BOT not in answer["text"]
    assert "<!channel>" not in answer["text"], "nobody is called by an answer"
    slack.says(ops, "and on", thread_ts=first)
    assert slack.answer_with(ops, "and on")["thread_ts"] == first
    slack.quiet()
    assert len(slack.from_bot(ops)) == 2, "`message` and `app_mention` are one message, and the first text was nobody's"
    statuses = [call["call"] for call in slack.calls("assistant.threads.setStatus")]
    assert all(call["channel_id"] == ops and call["thread_ts"] == first for call in statuses)
    one.stop()
    slack.verdict()


def test_direct_messages_are_one_conversation_or_threads(host, slack, isolation):
    one = started(host, slack, isolation, "dm_threads = true")
    dm = slack.dm()
    first = slack.says(dm, "hello")
    assert slack.answer_with(dm, "hello")["thread_ts"] == first
    one.stop()
    flat = section(slack, isolation).replace("dm_threads = true\n", "")
    one = host(HEADER + flat, name="flat").start(online=["slack"])
    slack.says(dm, "flat")
    assert not slack.answer_with(dm, "flat").get("thread_ts")
    one.stop()
    slack.verdict()


def test_a_stranger_gets_silence_and_a_bot_is_answered_only_when_it_mentions(host, slack, isolation):
    one = started(host, slack, isolation, more='session = { require_mention = false }')
    ops = slack.channel()
    bot = {"type": "message", "subtype": "bot_message", "bot_id": "B0OTHER", "channel": ops, "username": "deploy"}
    slack.sim("event", event={**bot, "text": "deployed", "ts": "1700000000.000100"})
    slack.sim("event", event={"type": "message", "channel": ops, "user": "U0STRANGER", "text": f"{MENTION} hi", "ts": "1700000001.000100"})
    slack.says(ops, "me")
    slack.answer_with(ops, "me")
    slack.quiet()
    assert len(slack.from_bot(ops)) == 1
    one.stop()
    slack.verdict()


def test_channels_may_be_named_that_are_listened_to_and_answered_without_a_mention(host, slack, isolation):
    ops, home = slack.channel(), slack.channel("home")
    one = started(host, slack, isolation, f'allowed_channels = ["{home}"]\nsession = {{ free_chats = ["{home}"] }}')
    slack.says(ops, f"{MENTION} not here")
    slack.says(home, "without a mention")
    slack.answer_with(home, "without a mention")
    slack.says(slack.dm(), "and directly")
    slack.answer_with(slack.dm(), "and directly")
    slack.quiet()
    assert slack.from_bot(ops) == []
    one.stop()
    slack.verdict()


def test_what_slack_sends_again_about_a_message_is_no_second_one(host, slack, isolation):
    one = started(host, slack, isolation)
    dm = slack.dm()
    ts = slack.says(dm, "look at https://a.b")
    slack.answers(dm, 1)
    message = {"type": "message", "user": slack.who(), "ts": ts, "text": "look at https://a.b"}
    shown = {**message, "attachments": [{"from_url": "https://a.b"}]}
    slack.sim("event", event={"type": "message", "subtype": "message_changed", "hidden": True, "channel": dm, "ts": "1700000001.000100",
                              "message": shown, "previous_message": message})
    slack.sim("event", event={**message, "channel": dm, "channel_type": "im"})
    slack.says(dm, "next")
    slack.answer_with(dm, "next")
    slack.quiet()
    assert len(slack.from_bot(dm)) == 2
    one.stop()
    slack.verdict()


def test_a_message_that_waits_is_answered_as_it_was_edited_and_no_edit_is_a_second_message(host, slack, isolation):
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    one = started(host, slack, isolation, 'dm_threads = false\nsession = { busy = "queue", receipts = false }', header=header)
    dm, other = slack.dm(), slack.dm("bob")

    def changes(ts, before, after, edited=None, user=slack.who()):
        said = {"type": "message", "user": user, "ts": ts, "text": after, **({"edited": {"user": user, "ts": edited}} if edited else {})}
        slack.sim("event", event={"type": "message", "subtype": "message_changed", "hidden": True, "channel": dm, "ts": f"{time.time():.6f}",
                                  "message": said, "previous_message": {**said, "text": before}})

    slack.says(dm, "/hang on")
    waits = slack.says(dm, "teh question")
    for _ in range(2):
        changes(waits, "teh question", "the question", edited="1700000001.000000")
    slack.says(other, "what comes after the edit", name="bob")
    slack.answer_with(other, "after the edit")
    slack.quiet()
    slack.says(dm, "!stop")
    answer = slack.answer_with(dm, "the question")
    before = len(slack.from_bot(dm))
    changes(waits, "the question", "something else", edited="1700000002.000000")
    changes(waits, "something else", "something else", edited="1700000002.000000")
    changes(waits, "something else", "with a preview")
    changes(answer["ts"], answer["text"], "what the bot said otherwise", edited="1700000003.000000", user=BOT)
    slack.says(dm, "the end")
    slack.answer_with(dm, "the end")
    slack.quiet()
    texts = [m["text"] for m in slack.from_bot(dm)]
    unsaid = ("teh question", "something else", "preview", "otherwise")
    assert not any(word in text for text in texts for word in unsaid) and len(texts) == before + 1, texts
    one.stop()
    slack.verdict()


def test_commands_come_by_exclamation_mark_and_by_slash(host, slack, isolation):
    one = started(host, slack, isolation)
    ops, dm = slack.channel(), slack.dm()
    slack.says(dm, "!help")
    assert "stop" in slack.answers(dm, 1)[0]["text"]
    asked = {"command": "/hermes", "user_id": slack.who(), "channel_id": ops, "team_id": TEAM, "api_app_id": "A000000001"}
    slack.sim("slash", **asked, text="help", trigger_id="1.1")
    shown = until("the answer", lambda: slack.sim("ephemeral", channel=ops))
    assert "stop" in shown[0]["text"] and shown[0]["target_user"] == slack.who(), "only who asked sees it"
    slack.sim("slash", **asked, text="what is the weather", trigger_id="1.2")
    slack.answer_with(ops, "what is the weather")
    slack.fault("chat.postEphemeral", "not_in_channel")
    slack.sim("slash", **asked, text="help", trigger_id="1.3", response_url=f"{slack.base}/_sim/respond")
    said = until("an answer where the app is no member", lambda: slack.sim("state")["responses"])
    assert said[0]["response_type"] == "ephemeral" and "stop" in said[0]["text"]
    slack.quiet()
    one.stop()
    slack.verdict()


def test_a_question_has_buttons_and_loses_them_when_it_is_answered(host, slack, isolation):
    one = started(host, slack, isolation, header=HEADER.replace("[agent]", "[agent]\ntest_words = true", 1))
    dm = slack.dm()
    slack.says(dm, "/ask make coffee")
    asked = until("the question", lambda: [m for m in slack.from_bot(dm) if m.get("blocks")])[0]
    values = [button["value"] for block in asked["blocks"] for button in block.get("elements", [])]
    assert values and asked["thread_ts"]
    slack.sim("press", channel=dm, ts=asked["ts"], value=values[0], user=slack.who())
    slack.answer_with(dm, "approved: once")
    said = slack.answer_with(dm, "Approved once.")
    assert said["ts"] == asked["ts"] and not said.get("blocks")
    slack.quiet()
    one.stop()
    slack.verdict()


def test_a_limit_is_waited_for_and_what_may_have_arrived_is_repeated_once_and_marked(host, slack, isolation):
    one = started(host, slack, isolation)
    dm = slack.dm()
    slack.fault("chat.postMessage", 429, after=2)
    slack.says(dm, "limited")
    slack.answer_with(dm, "limited")
    asked = len(slack.calls("chat.postMessage"))
    assert asked == 2, "the limit is waited for, not tried"
    slack.fault("chat.postMessage", "cut")
    slack.says(dm, "doubtful")
    found = until("both", lambda: [m for m in slack.from_bot(dm) if "doubtful" in m["text"]][1:])
    assert "(possibly repeated)" in found[0]["text"]
    slack.fault("chat.postMessage", "service_unavailable")
    slack.says(dm, "sick")
    slack.answer_with(dm, "sick")
    slack.quiet()
    assert len([m for m in slack.from_bot(dm) if "sick" in m["text"]]) == 1
    one.stop()
    slack.verdict()


@pytest.mark.parametrize("how", ["refresh_requested", "warning", "cut", "silence"])
def test_nothing_is_lost_or_doubled_however_the_sockets_end(host, slack, isolation, how):
    one = started(host, slack, isolation)
    dm = slack.dm()
    for n in range(6):
        slack.says(dm, f"text {n}.")
        if n % 2:
            slack.sim(how) if how in ("cut", "silence") else slack.sim("disconnect", reason=how)
    until("all are answered", lambda: len(slack.from_bot(dm)) >= 6, 60)
    until("the sockets are back", lambda: slack.sim("state")["sockets"] >= 2, 60)
    slack.quiet()
    assert sorted(next(n for n in range(6) if f"text {n}." in m["text"]) for m in slack.from_bot(dm)) == list(range(6))
    assert slack.sim("state")["opened"] > 2, "they were opened anew"
    one.stop()
    slack.verdict(late=None)


def test_what_was_said_while_the_host_was_dead_is_answered_when_it_is_back(host, slack, isolation):
    one = started(host, slack, isolation)
    dm = slack.dm()
    slack.says(dm, "before")
    slack.answer_with(dm, "before")
    slack.quiet()
    one.kill()
    until("the sockets are gone", lambda: slack.sim("state")["sockets"] == 0)
    slack.says(dm, "meanwhile")
    one.start(online=["slack"])
    slack.answer_with(dm, "meanwhile")
    slack.quiet()
    assert len(slack.from_bot(dm)) == 2
    one.stop()
    slack.verdict(late=None)


def test_socket_mode_that_is_switched_off_needs_a_person(host, slack, isolation):
    one = started(host, slack, isolation)
    slack.sim("disconnect", reason="link_disabled")
    one.wait_state("slack", "failed")
    assert "Socket Mode is disabled" in one.cli("status").stdout
    one.stop()


def test_a_token_that_is_refused_is_said_with_the_key_to_mend(host, slack, isolation):
    slack.fault("auth.test", "invalid_auth", times=100)
    one = host(HEADER + section(slack, isolation)).start()
    one.wait_state("slack", "failed")
    assert "bot_token" in one.cli("status").stdout
    one.stop()


def test_a_long_answer_is_cut_within_what_can_be_changed_later(host, slack, isolation):
    one = started(host, slack, isolation)
    dm = slack.dm()
    code = "\n".join(f"    let value_{n} = {n}; // 🦀 & <more>" for n in range(500))
    event = {"type": "message", "channel": dm, "user": slack.who(), "ts": "1700000009.000100", "text": f"look\n\n```rust\n{code.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')}\n```\n\nend of it"}
    slack.sim("event", event=event)
    until("the end", lambda: any("end of it" in json.dumps(m) for m in slack.from_bot(dm)))
    for message in slack.from_bot(dm):
        texts = [block["text"]["text"] for block in message.get("blocks") or []] or [message["text"]]
        assert len(message["text"].encode()) <= 4000 and sum(len(text.encode("utf-16-le")) // 2 for text in texts) <= 12100
        assert all(text.count("```") % 2 == 0 for text in texts)
    assert len(slack.from_bot(dm)) >= 2
    one.stop()
    slack.verdict()


def test_a_growing_answer_is_one_message_that_is_changed_beyond_what_its_text_may_hold(host, slack, isolation):
    code = "\n".join(f"    let value_{n} = {n}; // & <more>" for n in range(200))
    model = GrowingModel("The first words.\n\n", f"```rust\n{code}\n```\n\n", "And the end of it.")
    try:
        one = host(config(model.base) + section(slack, isolation, "session = { merge_ms = 0 }"), {"OPENAI_API_KEY": "sk-test"}).start(online=["slack"])
        dm = slack.dm()
        asked = slack.says(dm, "go on")
        shown = {"channel_id": dm, "thread_ts": asked, "status": "is thinking…"}
        until("the status", lambda: shown in [call["call"] for call in slack.calls("assistant.threads.setStatus")])
        model.step()
        first = slack.answer_with(dm, "The first words.")
        model.step()
        until("the code", lambda: any("value_199" in json.dumps(m.get("blocks")) for m in slack.from_bot(dm)))
        model.step()
        until("the end", lambda: any("the end of it" in json.dumps(m.get("blocks")) for m in slack.from_bot(dm)))
        slack.quiet()
        [message] = slack.from_bot(dm)
        assert message["ts"] == first["ts"] and len(message["blocks"]) >= 3
        texts = [block["text"]["text"] for block in message["blocks"]]
        assert all(text.count("```") % 2 == 0 for text in texts) and sum(text.count("let value_") for text in texts) == 200
        one.stop()
        slack.verdict()
    finally:
        model.stop()


def test_files_reach_the_agent_and_go_out_with_a_text(host, slack, isolation):
    one = started(host, slack, isolation)
    dm = slack.dm()
    slack.uploads(dm, "look at these", {"0.txt": "bytes 0", "1.txt": "bytes 1"})
    slack.answer_with(dm, "look at these")
    kept = [path for path in (one.home / "media").rglob("*") if path.is_file()]
    assert sorted(path.read_bytes() for path in kept) == [b"bytes 0", b"bytes 1"]
    (one.folder / "x.txt").write_text("what is in it")
    ops = slack.channel()
    one.cli("send", f"slack:{ops}", "take *this*", "--file", "x.txt")
    message = until("the file", lambda: [m for m in slack.from_bot(ops) if m.get("files")])[0]
    assert [file["name"] for file in message["files"]] == ["x.txt"] and message["text"] == "take _this_"
    slack.fault("files.completeUploadExternal", 429, after=1)
    one.cli("send", f"slack:{ops}", "again", "--file", "x.txt")
    slack.answer_with(ops, "again")
    assert len([m for m in slack.from_bot(ops) if "again" in m["text"]]) == 1
    slack.quiet()
    one.stop()
    slack.verdict()


def test_the_text_of_a_text_file_and_of_a_pdf_file_reaches_the_turn(host, slack, isolation):
    one = started(host, slack, isolation)
    dm = slack.dm()
    for name, content, text in FILES:
        slack.uploads(dm, f"read {name}", {name: content})
        slack.answer_with(dm, f"read {name}")
        until(f"the text of {name}", lambda: is_read(one, name, text))
    slack.quiet()
    one.stop()
    slack.verdict()


def test_a_message_whose_file_was_on_its_way_is_answered_once_after_a_kill(host, slack, isolation):
    one = started(host, slack, isolation)
    dm = slack.dm()
    slack.sim("hold", on=True)
    slack.uploads(dm, "with a file", {"a.txt": "bytes"})
    until("the file is asked for", lambda: slack.sim("state")["fetches"])
    slack.quiet()
    assert slack.sim("state")["late"] == 0, "it is acknowledged, however long the file takes"
    one.kill()
    slack.sim("hold", on=False)
    one.start(online=["slack"])
    slack.answer_with(dm, "with a file")
    slack.says(dm, "next")
    slack.answer_with(dm, "next")
    slack.quiet()
    assert len(slack.from_bot(dm)) == 2
    kept = [path for path in (one.home / "media").rglob("*") if path.is_file()]
    assert b"bytes" in [path.read_bytes() for path in kept]
    one.stop()
    slack.verdict()


def test_an_operator_reaches_a_channel_by_id_and_by_name_and_a_person(host, slack, isolation):
    one = started(host, slack, isolation)
    one.cli("send", "slack:#ops", "by name")
    one.cli("send", f"slack:{slack.channel()}", "by id")
    one.cli("send", f"slack:{slack.who()}", "to you")
    slack.answer_with(slack.channel(), "by name"), slack.answer_with(slack.channel(), "by id")
    slack.answer_with(slack.dm(), "to you")
    assert one.cli("send", "slack:#nowhere", "x", check=False).returncode != 0
    one.stop()
    slack.verdict()


def test_a_conversation_moves_into_a_thread_that_it_begins(host, slack, isolation):
    model = HeldModel()
    try:
        home = slack.channel("home")
        more = f'home_channel = "#home"\nsession = {{ merge_ms = 0 }}'
        one = host(config(model.base) + section(slack, isolation, more), {"OPENAI_API_KEY": "sk-test"}).start(online=["slack"])
        one.cli("chat", "-m", "of boats")
        session = json.loads(one.cli("session", "list", "--json").stdout)[0]["id"]
        one.cli("handoff", session, "slack", "--wait", "60")
        seed = next(m for m in slack.from_bot(home) if not m.get("thread_ts"))
        opening = until("the opening", lambda: [m for m in slack.from_bot(home) if m.get("thread_ts")])[0]
        assert opening["thread_ts"] == seed["ts"]
        slack.says(home, "and now from here", name="bob", thread_ts=seed["ts"])
        assert slack.answer_with(home, "from here")["thread_ts"] == seed["ts"]
        said = [one["content"] for one in model.requests[-1] if one["role"] == "user"]
        assert "of boats" in said[0] and "and now from here" in said[-1], "the conversation is the same one"
        assert len([m for m in slack.from_bot(home) if not m.get("thread_ts")]) == 1, "one thread"
        one.stop()
        slack.verdict()
    finally:
        model.stop()


def test_two_workspaces_are_answered_by_their_own_tokens(host, slack, isolation):
    one = started(host, slack, isolation, tokens="xoxb-hermes, xoxb-second")
    dm = slack.dm()
    slack.says(dm, "in the first")
    slack.answer_with(dm, "in the first")
    event = {"type": "message", "channel": dm, "user": slack.who(), "text": "in the second", "ts": "1700000009.000100"}
    slack.sim("event", event=event, team_id="T000000002")
    slack.answer_with(dm, "in the second")
    tokens = [(call["token"], call["call"]["text"]) for call in slack.calls("chat.postMessage")]
    assert [token for token, text in tokens if "second" in text] == ["xoxb-second"]
    assert [token for token, text in tokens if "first" in text] == ["xoxb-hermes"]
    one.stop()
    slack.verdict()


def test_signed_requests_are_answered_and_no_others(host, slack_host, isolation):
    port = free_port()
    slack = slack_host(f"http://127.0.0.1:{port}")
    transport = f'signing_secret = "sekret"\nlisten = "127.0.0.1:{port}"'
    one = started(host, slack, isolation, transport=transport, header=HEADER.replace("[agent]", "[agent]\ntest_words = true", 1))
    verified = slack.sim("raw", path="/slack/events", body=json.dumps({"type": "url_verification", "challenge": "3eZbrw1a"}))
    assert verified == {"status": 200, "text": "3eZbrw1a"}
    dm = slack.dm()
    event = {"type": "message", "channel": dm, "user": slack.who(), "text": "counterfeit 7", "ts": "1700000009.000100"}
    body = json.dumps({"type": "event_callback", "team_id": TEAM, "event": event})
    assert slack.sim("raw", path="/slack/events", body=body, secret="other")["status"] == 401
    assert slack.sim("raw", path="/slack/events", body=body, at=int(time.time()) - 301)["status"] == 401
    ts = slack.says(dm, "hello")
    assert slack.answer_with(dm, "hello")["thread_ts"] == ts
    same = {**event, "text": "once", "ts": "1700000010.000100"}
    for _ in range(2):
        assert slack.sim("event", event=same)["status"] == 200
    slack.answer_with(dm, "once")
    slack.says(dm, "/ask make coffee")
    asked = until("the question", lambda: [m for m in slack.from_bot(dm) if m.get("blocks")])[0]
    values = [button["value"] for block in asked["blocks"] for button in block.get("elements", [])]
    assert slack.sim("press", channel=dm, ts=asked["ts"], value=values[0], user=slack.who())["status"] == 200
    slack.answer_with(dm, "approved: once")
    slash = {"command": "/hermes", "text": "help", "user_id": slack.who(), "channel_id": dm, "team_id": TEAM, "trigger_id": "1.1"}
    assert slack.sim("slash", **slash)["status"] == 200
    slack.answer_with(dm, "stop")
    texts = [m["text"] for m in slack.from_bot(dm)]
    assert texts.count("once") == 1 and not any("counterfeit" in text for text in texts), texts
    one.stop()
    slack.verdict()


def test_no_secret_is_in_the_log_or_the_status(host, slack, isolation):
    one = started(host, slack, isolation)
    slack.says(slack.dm(), "hello")
    slack.answers(slack.dm(), 1)
    shown = one.cli("config", "show").stdout + one.cli("status").stdout + one.cli("status", "--json").stdout
    one.stop(signal.SIGTERM)
    for secret in SECRETS:
        assert secret not in shown + one.program.said()
