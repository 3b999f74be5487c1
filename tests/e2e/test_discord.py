"""Discord with the built host and library, against an emulator that was checked with discord.py."""

import json
import signal
import subprocess
import sys

import pytest

from conftest import BIN, HEADER, HERE, WAIT_S, Program, free_port, request, until, until_it_answers
from files import FILES, is_read

TOKEN = "NDI.TESTTO.TESTTOKENTESTTOKENTESTTOKENTEST"
GENERAL, RANDOM, VOICE, NEWS, FORUM = "10", "11", "12", "13", "14"


class Discord:
    """The emulator, from the point of view of people who write to the bot."""

    def __init__(self, base):
        self.base = base

    def sim(self, what, **body):
        return request("POST", f"{self.base}/_sim/{what}", body)

    def get(self, what):
        return request("GET", f"{self.base}/_sim/{what}")

    def says(self, who, text, channel=None, **more):
        place = {} if channel is None else {"channel": channel}
        return self.sim("message", **{"from": who, "text": text, **place, **more})["message"]

    def shown(self, channel=None, dm=None):
        return self.get(f"dm/{dm}" if dm else f"channel/{channel}")

    def from_bot(self, channel=None, dm=None):
        return [m for m in self.shown(channel, dm) if m["author"]["id"] == "42"]

    def answers(self, count, channel=None, dm=None, timeout=WAIT_S):
        until(f"{count} messages of the bot in {channel or dm}", lambda: len(self.from_bot(channel, dm)) >= count, timeout)
        return [message["content"] for message in self.from_bot(channel, dm)]

    def fault(self, route, kind, **more):
        self.sim("fault", route=route, kind=kind, **more)

    def calls(self, route):
        return [call for call in self.get("journal") if call["route"].startswith(route)]

    def sessions(self):
        return [one["op"] for one in self.get("gateway") if one["op"] in ("identify", "resume")]

    def verdict(self):
        verdict = self.get("verdict")
        assert verdict["ok"], verdict["errors"]
        assert verdict["calls"] > 0


@pytest.fixture
def discord(tmp_path):
    port = free_port()
    program = Program([sys.executable, HERE / "discord_emulator.py", str(port)], tmp_path / "emulator.log")
    found = Discord(f"http://127.0.0.1:{port}")
    until_it_answers(program, lambda: found.get("verdict") is not None)
    yield found
    program.stop(signal.SIGKILL)


def section(discord, isolation, more="", access='access = { allowed_users = ["7", "8", "9"], operators = ["7"] }'):
    return f"""
[adapter.discord]
token     = "{TOKEN}"
base_url  = "{discord.base}/api/v10"
isolation = "{isolation}"
{access}
{more}
"""


def started(host, discord, isolation, more="", header=HEADER, **how):
    return host(header + section(discord, isolation, more, **how)).start(online=["discord"])


def test_an_independent_client_library_finds_the_emulator_true(discord):
    done = subprocess.run([sys.executable, HERE / "check_discord_emulator.py", discord.base], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_direct_message_is_answered_and_every_request_is_valid(host, discord, isolation):
    one = started(host, discord, isolation)
    assert one.adapter("discord")["isolation"] == isolation
    discord.says(7, "hello *world* <b>")
    assert "hello" in discord.answers(1, dm=7)[0]
    [told] = [one for one in discord.get("gateway") if one["op"] == "identify"]
    assert told["intents"] == (1 << 0) | (1 << 9) | (1 << 12) | (1 << 15) and told["shard"] == [0, 1]
    assert one.stop() == 0
    discord.verdict()


def test_calling_the_bot_in_a_channel_opens_a_thread_in_which_nobody_has_to_call_it(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.says(7, "nothing for @hermes or `<@42>`", channel=GENERAL)
    asked = discord.says(7, "<@42> plan the trip", channel=GENERAL)
    assert "plan the trip" in discord.answers(1, channel=asked)[0], "the thread has the id of the message"
    thread = discord.get("channels")[asked]
    assert (thread["name"], thread["parent_id"], thread["thread_metadata"]["auto_archive_duration"]) == ("plan the trip", GENERAL, 1440)
    discord.says(7, "and then?", channel=asked)
    assert "and then?" in discord.answers(2, channel=asked)[1]
    assert discord.from_bot(GENERAL) == []
    one.stop()
    discord.verdict()


def test_a_stranger_in_a_channel_opens_no_thread(host, discord, isolation):
    one = started(host, discord, isolation)
    asked = discord.says(555, "<@42> let me in", channel=GENERAL)
    discord.says(7, "me")
    discord.answers(1, dm=7)
    assert asked not in discord.get("channels")
    one.stop()


def test_without_threads_of_its_own_an_answer_quotes_the_message_and_a_reply_to_it_counts(host, discord, isolation):
    one = started(host, discord, isolation, more="auto_thread = false")
    asked = discord.says(7, "<@42> first", channel=GENERAL)
    discord.answers(1, channel=GENERAL)
    mine = discord.from_bot(GENERAL)[0]
    assert mine["message_reference"]["message_id"] == asked
    discord.says(7, "second", channel=GENERAL, reply_to=mine["id"])
    assert "second" in discord.answers(2, channel=GENERAL)[1]
    # A reply pings its author: a bot that answers ours has not mentioned it.
    discord.says(66, "thank you", channel=GENERAL, reply_to=mine["id"], bot=True)
    discord.says(7, "<@8> what do you think", channel=GENERAL)
    discord.says(7, "third")
    discord.answers(1, dm=7)
    assert len(discord.from_bot(GENERAL)) == 2
    one.stop()
    discord.verdict()


def test_roles_grant_access_and_the_bots_own_role_calls_it(host, discord, isolation):
    one = started(host, discord, isolation, more="auto_thread = false", access='access = { allowed_roles = ["3"] }')
    discord.says(9, "<@&5> without the role", channel=GENERAL)
    discord.says(8, "<@&5> with the role", channel=GENERAL, roles=[3])
    answers = discord.answers(1, channel=GENERAL)
    assert "with the role" in answers[0] and len(answers) == 1
    one.stop()
    discord.verdict()


def test_only_channels_that_are_allowed_and_not_ignored_are_heard_and_free_ones_need_no_call(host, discord, isolation):
    more = f'auto_thread = false\nallowed_channels = ["9"]\nignored_channels = ["{RANDOM}"]\nsession = {{ free_chats = ["{GENERAL}"] }}'
    one = started(host, discord, isolation, more=more)
    discord.sim("channel", id="77", type=0, name="elsewhere", parent_id=None)
    discord.says(7, "<@42> ignored", channel=RANDOM)
    discord.says(7, "<@42> not allowed", channel="77")
    discord.says(7, "nobody called", channel=GENERAL)
    assert "nobody called" in discord.answers(1, channel=GENERAL)[0]
    assert discord.from_bot(RANDOM) == [] and discord.from_bot("77") == []
    one.stop()
    discord.verdict()


def test_a_post_of_a_forum_is_a_conversation(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.sim("channel", id="8800", type=11, name="How do I?", parent_id=FORUM)
    discord.says(7, "<@42> how?", channel="8800")
    assert "how?" in discord.answers(1, channel="8800")[0]
    one.stop()
    discord.verdict()


def test_where_no_thread_may_be_opened_the_answer_comes_in_the_channel(host, discord, isolation):
    discord.sim("set", threads=False)
    one = started(host, discord, isolation)
    discord.says(7, "<@42> here", channel=GENERAL)
    assert "here" in discord.answers(1, channel=GENERAL)[0]
    discord.says(7, "<@42> again", channel=GENERAL)
    assert "again" in discord.answers(2, channel=GENERAL)[1]
    assert len(discord.calls(f"POST channels/{GENERAL}/messages/")) == 1, "it is not tried again"
    one.stop()
    discord.verdict()


def test_a_cut_connection_is_resumed_and_what_was_missed_comes_once(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.says(7, "before")
    discord.answers(1, dm=7)
    discord.sim("gateway", do="cut")
    discord.says(7, "meanwhile")
    assert "meanwhile" in discord.answers(2, dm=7)[1]
    discord.says(7, "after")
    assert "after" in discord.answers(3, dm=7)[2]
    assert discord.sessions() == ["identify", "resume"]
    one.stop()
    assert len(discord.from_bot(dm=7)) == 3
    discord.verdict()


def test_a_server_that_asks_to_reconnect_gets_the_session_back(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.sim("gateway", do="reconnect")
    until("it resumed", lambda: discord.sessions() == ["identify", "resume"])
    closed = [entry["code"] for entry in discord.get("gateway") if entry["op"] == "closed"]
    assert closed == [4900], "not 1000 or 1001, which would end the session"
    one.wait_online("discord")
    discord.says(7, "hello")
    discord.answers(1, dm=7)
    one.stop()


def test_a_session_that_is_gone_is_begun_anew(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.sim("gateway", do="invalid")
    until("it identified again", lambda: discord.sessions().count("identify") == 2)
    one.wait_online("discord")
    discord.says(7, "hello")
    discord.answers(1, dm=7)
    discord.sim("gateway", do="forget")
    discord.sim("gateway", do="cut")
    # The resume is answered with an invalid session, and the same connection identifies itself.
    until("it resumed, then identified", lambda: discord.sessions()[-2:] == ["resume", "identify"])
    one.wait_online("discord")
    discord.says(7, "again")
    discord.answers(2, dm=7)
    one.stop()


@pytest.mark.parametrize("code,mend", [(4004, "Developer Portal"), (4013, "update the adapter"), (4014, "Message Content Intent")])
def test_a_close_code_that_needs_a_person_says_what_to_do(host, discord, code, mend):
    one = started(host, discord, "in-process")
    discord.sim("gateway", do="close", code=code)
    state = one.wait_state("discord", "failed")
    assert mend in state["reason"] and str(code) in state["reason"], state
    assert TOKEN not in one.program.said()
    one.stop()


@pytest.mark.parametrize("code,next_word", [(1001, "resume"), (4000, "resume"), (4008, "resume"), (4007, "identify"), (4009, "identify")])
def test_other_close_codes_lead_back_by_the_right_way(host, discord, code, next_word):
    one = started(host, discord, "in-process")
    discord.sim("gateway", do="close", code=code)
    until("it came back", lambda: len(discord.sessions()) == 2)
    one.wait_online("discord")
    discord.says(7, "hello")
    discord.answers(1, dm=7)
    assert discord.sessions() == ["identify", next_word]
    one.stop()


def test_a_missing_intent_is_told_before_anything_is_opened(host, discord, isolation):
    discord.sim("set", may_read=False)
    one = host(HEADER + section(discord, isolation)).start()
    state = one.wait_state("discord", "failed")
    assert "Message Content Intent" in state["reason"] and discord.sessions() == []
    one.stop()
    one.config.write_text(one.config.read_text().replace('token     =', 'message_content = false\ntoken     ='))
    one.start(online=["discord"])
    asked = discord.says(7, "<@42> you are called", channel=GENERAL)
    assert "you are called" in discord.answers(1, channel=asked)[0]
    one.stop()


def test_a_refused_token_says_what_to_do(host, discord, isolation):
    text = section(discord, isolation).replace(TOKEN, "NDI.WRONG.WRONGWRONGWRONGWRONGWRONG")
    one = host(HEADER + text).start()
    state = one.wait_state("discord", "failed")
    assert "Developer Portal" in state["reason"] and "WRONG" not in one.program.said()
    one.stop()


def test_a_link_that_answers_no_heartbeat_is_left_and_resumed(host, discord, isolation):
    discord.sim("set", heartbeat_ms=400)
    one = started(host, discord, isolation)
    discord.sim("set", silent=True)
    until("it resumed", lambda: "resume" in discord.sessions())
    discord.sim("set", silent=False)
    one.wait_online("discord")
    discord.says(7, "hello")
    discord.answers(1, dm=7)
    one.stop()


def test_every_shard_that_the_gateway_wants_is_opened(host, discord, isolation):
    discord.sim("set", shards=3)
    one = started(host, discord, isolation)
    shards = sorted(entry["shard"] for entry in discord.get("gateway") if entry["op"] == "identify")
    assert shards == [[0, 3], [1, 3], [2, 3]]
    discord.says(7, "hello")
    discord.answers(1, dm=7)
    one.stop()
    discord.verdict()


def test_a_limit_is_obeyed_and_nothing_is_doubled(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.fault("POST channels/.*/messages$", "429", retry_after=2.5)
    discord.says(7, "slowly")
    discord.answers(1, dm=7)
    calls = [call for call in discord.get("journal") if call["route"].endswith("/messages")]
    assert len(calls) == 2 and calls[1]["at"] - calls[0]["at"] >= 2.5
    one.stop()
    discord.verdict()


def test_buckets_are_not_overdrawn(host, discord, isolation):
    discord.sim("set", bucket_limit=2, bucket_window=1.0)
    one = started(host, discord, isolation, more='session = { busy = "queue", merge_ms = 0 }\nstream = "off"')
    for n in range(6):
        discord.says(7, f"message {n}")
    answers = until("all are answered", lambda: [m["content"] for m in discord.from_bot(dm=7) if "message" in m["content"]][5:])
    assert answers
    one.stop()
    limited = [call["route"] for call in discord.get("journal") if call.get("limited") and call["route"].startswith("POST")]
    assert limited == [], "the server's headers were read"


def test_what_arrived_though_its_answer_was_lost_is_known_by_its_key_and_nothing_is_doubled(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.fault("POST channels/.*/messages$", "cut_after")
    discord.says(7, "did it arrive")
    discord.answers(1, dm=7)
    discord.says(7, "next")
    answers = discord.answers(2, dm=7)
    one.stop()
    assert len(discord.from_bot(dm=7)) == 2 and "did it arrive" in answers[0] and "next" in answers[1], answers
    keys = [c["body"]["nonce"] for c in discord.get("journal") if c["route"].endswith("/messages")]
    # The gateway sends the message with its key; otherwise the host asks for the message again by the same key.
    assert keys[0] != keys[-1] and len(set(keys)) == 2, keys
    discord.verdict()


def test_a_server_error_is_tried_again(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.fault("POST channels/.*/messages$", "5xx")
    discord.says(7, "again")
    assert "again" in discord.answers(1, dm=7)[0]
    one.stop()
    assert len(discord.from_bot(dm=7)) == 1


def test_a_long_answer_with_code_is_split_within_the_limit_and_every_fence_is_closed(host, discord, isolation):
    one = started(host, discord, isolation)
    code = "\n".join(f"    let value_{n} = {n}; // 🦀" for n in range(150))
    files = [{"name": "n.txt", "body": "x"}]
    discord.says(7, f"look\n\n```rust\n{code}\n```\n\nend of it", files=files)
    until("the end arrives", lambda: "end of it" in "".join(m["content"] for m in discord.from_bot(dm=7)))
    messages = discord.from_bot(dm=7)
    assert len(messages) > 2
    for message in messages:
        assert len(message["content"].encode("utf-16-le")) // 2 <= 2000
        assert message["content"].count("```") % 2 == 0
    one.stop()
    discord.verdict()


def test_a_growing_answer_is_shown_by_edits_and_every_state_of_it_closes_its_code(host, discord, isolation):
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    one = started(host, discord, isolation, header=header)
    code = "\n".join(f"let value_{n} = {n};" for n in range(120))
    discord.says(7, f"<@42> /slow 15 look\n\n```rust\n{code}\n```\n\nend of it", channel=GENERAL)
    until("the end arrives", lambda: "end of it" in "".join(m["content"] for m in discord.from_bot(GENERAL)), 60)
    messages = discord.from_bot(GENERAL)
    states = [state for message in messages for state in [*message.get("history", []), message["content"]]]
    assert len(messages[0].get("history", [])) > 1 and len(messages) > 1
    assert all(len(state) <= 2000 and state.count("```") % 2 == 0 for state in states), states
    shown = "".join(message["content"] for message in messages)
    assert all(shown.count(f"let value_{n} = {n};") == 1 for n in range(120))
    assert discord.get("typing")
    one.stop()
    discord.verdict()


def test_slash_commands_are_registered_and_answered_only_to_who_used_them(host, discord, isolation):
    one = started(host, discord, isolation)
    until("the menu", lambda: discord.get("commands"))
    names = [command["name"] for command in discord.get("commands")]
    assert "help" in names and "new" in names and len(discord.calls("PUT applications/4200/commands")) == 1
    discord.sim("slash", **{"from": 7, "channel": GENERAL, "name": "help"})
    until("the answer", lambda: discord.from_bot(GENERAL))
    [interaction] = discord.get("interactions")
    assert interaction["acknowledged"] == 5 and interaction["ephemeral"]
    answers = discord.from_bot(GENERAL)
    assert "/stop" in "".join(m["content"] for m in answers) and all(m["ephemeral"] for m in answers)
    assert answers[0]["id"] == interaction["original"], "it takes the place of the sign that somebody thinks"
    discord.sim("slash", **{"from": 7, "name": "title", "input": "boats and sails"})
    until("the title", lambda: "boats and sails" in "".join(m["content"] for m in discord.from_bot(dm=7)))
    one.stop()
    discord.verdict()


def test_slash_commands_that_are_slow_to_be_registered_keep_nobody_waiting(host, discord):
    discord.fault("PUT applications/", "slow", delay_s=600)
    one = started(host, discord, "in-process")
    until("they are asked for", lambda: discord.calls("PUT applications/4200/commands"))
    discord.says(7, "hello")
    assert "hello" in discord.answers(1, dm=7)[0]
    assert not discord.get("commands"), "nobody has answered that yet"
    one.kill()


def test_an_answer_to_a_command_that_takes_none_any_more_goes_to_who_used_it_alone(host, discord, isolation):
    one = started(host, discord, isolation)
    until("the menu", lambda: discord.get("commands"))
    discord.fault("PATCH webhooks/", "refuse", status=404, code=10015)
    discord.sim("slash", **{"from": 7, "channel": GENERAL, "name": "help"})
    until("the answer", lambda: discord.from_bot(dm=7))
    assert not discord.from_bot(GENERAL), "nobody else sees it"
    one.stop()
    discord.verdict()


def test_a_message_that_waits_is_answered_as_it_was_edited_and_a_later_edit_changes_nothing(host, discord, isolation):
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    one = started(host, discord, isolation, more='session = { busy = "queue", receipts = false }', header=header)
    discord.says(7, "/hang on")
    waits = discord.says(7, "teh question")
    discord.sim("edit", message=waits, text="the question")
    discord.says(8, "what comes after the edit")
    assert "after the edit" in discord.answers(1, dm=8)[0]
    discord.says(7, "/stop")
    until("the answer", lambda: any("the question" in m["content"] for m in discord.from_bot(dm=7)))
    before = len(discord.from_bot(dm=7))
    discord.sim("edit", message=waits, text="something else")
    discord.says(7, "the end")
    until("the end", lambda: any("the end" in m["content"] for m in discord.from_bot(dm=7)))
    texts = [m["content"] for m in discord.from_bot(dm=7)]
    assert not any("teh question" in text or "something else" in text for text in texts), texts
    assert len(texts) == before + 1
    one.stop()
    discord.verdict()


def test_the_agents_question_has_buttons_and_loses_them_when_it_is_answered(host, discord, isolation):
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    one = started(host, discord, isolation, header=header)
    discord.says(7, "/ask make coffee")
    asked = until("the question", lambda: [m for m in discord.from_bot(dm=7) if m["components"]])[0]
    buttons = [button for row in asked["components"] for button in row["components"]]
    assert buttons and all(button["custom_id"].startswith("ask:") for button in buttons)
    discord.sim("press", **{"from": 7, "message": asked["id"], "custom_id": buttons[0]["custom_id"]})
    until("the answer", lambda: [m for m in discord.from_bot(dm=7) if m["content"] == "approved: once"])
    said = until("no buttons", lambda: [m for m in discord.from_bot(dm=7) if "Approved once." in m["content"]])[0]
    assert said["id"] == asked["id"] and not said["components"]
    [press] = discord.get("interactions")
    assert press["acknowledged"] == 6
    one.stop()
    discord.verdict()


def test_files_come_in_and_go_out(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.says(7, "look at these", files=[{"name": f"{n}.txt", "body": f"bytes {n}"} for n in range(3)])
    assert "look at these" in discord.answers(1, dm=7)[0]
    kept = [path for path in (one.home / "media").rglob("*") if path.is_file()]
    assert sorted(path.read_bytes() for path in kept) == [b"bytes 0", b"bytes 1", b"bytes 2"]
    (one.folder / "x.txt").write_text("what is in it")
    one.cli("send", f"discord:{GENERAL}", "look", "--file", "x.txt")
    until("the file", lambda: discord.from_bot(GENERAL))
    [message] = discord.from_bot(GENERAL)
    assert (message["content"], message["attachments"][0]["filename"], message["attachments"][0]["size"]) == ("look", "x.txt", 13)
    one.stop()
    discord.verdict()


def test_the_text_of_a_text_file_and_of_a_pdf_file_reaches_the_turn(host, discord, isolation):
    one = started(host, discord, isolation)
    for n, (name, content, text) in enumerate(FILES, 1):
        discord.says(7, "read it", files=[{"name": name, "body": content}])
        discord.answers(n, dm=7)
        until(f"the text of {name}", lambda: is_read(one, name, text))
    one.stop()
    discord.verdict()


def test_send_finds_channels_by_id_and_name_and_people_and_says_what_is_unknown(host, discord, isolation):
    one = started(host, discord, isolation)
    one.cli("send", f"discord:{RANDOM}", "to the channel")
    assert discord.answers(1, channel=RANDOM) == ["to the channel"]
    one.cli("send", "discord:user:8", "to a person")
    assert discord.answers(1, dm=8) == ["to a person"]
    failed = one.cli("send", "discord:999999", "x", check=False)
    assert failed.returncode != 0 and "999999" in failed.stderr
    one.stop()
    discord.verdict()


# Only a conversation of the operator continues in another place, and 9 begins it.
NINE_RUNS_IT = 'access = { allowed_users = ["7", "8", "9"], operators = ["9"] }'


@pytest.mark.parametrize("how", ["bare", "seeded", "news", "forum"])
def test_a_conversation_moves_into_a_thread_of_its_own_and_two_people_share_it(host, discord, isolation, how):
    home = {"news": NEWS, "forum": FORUM}.get(how, GENERAL)
    discord.sim("set", bare_threads=how != "seeded")
    one = started(host, discord, isolation, access=NINE_RUNS_IT, more=f'home_channel = "{home}"\nsession = {{ merge_ms = 0 }}')
    for n, text in enumerate(("of boats", "/title boats", "/new")):
        discord.says(9, text)
        discord.answers(n + 1, dm=9)
    moved = json.loads(one.cli("handoff", "boats", "discord", "--json").stdout)
    assert moved["state"] == "completed", moved
    [thread] = [c for c in discord.get("channels").values() if c["type"] in (10, 11)]
    assert (thread["name"], thread["parent_id"], thread["thread_metadata"]["auto_archive_duration"]) == ("boats", home, 1440)
    assert (thread["type"] == 10) == (how == "news")
    before = len(discord.from_bot(thread["id"]))
    for n, person in enumerate((7, 8)):
        discord.says(person, f"from {person}", channel=thread["id"])
        assert f"from {person}" in discord.answers(before + n + 1, channel=thread["id"])[-1]
    said = json.loads(one.cli("session", "show", moved["session"], "--json").stdout)["messages"]
    assert len([m for m in said if m["role"] == "user"]) == 4, "one conversation for both"
    one.stop()
    discord.verdict()


@pytest.mark.parametrize("home", [GENERAL, FORUM])
def test_a_thread_whose_opening_was_cut_off_is_found_again_and_no_second_one_is_opened(host, discord, isolation, home):
    one = started(host, discord, isolation, access=NINE_RUNS_IT, more=f'home_channel = "{home}"\nsession = {{ merge_ms = 0 }}')
    for n, text in enumerate(("of boats", "/title boats", "/new")):
        discord.says(9, text)
        discord.answers(n + 1, dm=9)
    discord.fault(f"POST channels/{home}/threads", "slow_after", delay_s=20)
    asked = subprocess.Popen([BIN / "hermes-host", "handoff", "boats", "discord", "--home", one.home, "--config", one.config],
                             env=one.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def threads():
        return [c for c in discord.get("channels").values() if c["type"] in (10, 11)]

    until("there is a thread", threads)
    one.kill()
    asked.wait(60)
    one.start(online=["discord"])
    [thread] = threads()
    until("it goes on in it", lambda: [m for m in discord.from_bot(thread["id"]) if "boats" in m["content"] and not m["content"].startswith("\U0001f9f5")])
    assert len(threads()) == 1
    one.stop()
    discord.verdict()


@pytest.mark.parametrize("home", [VOICE, "user:7"])
def test_where_there_are_no_threads_the_conversation_goes_on_in_the_home_chat(host, discord, home):
    one = started(host, discord, "in-process", access=NINE_RUNS_IT, more=f'home_channel = "{home}"\nsession = {{ merge_ms = 0 }}')
    for n, text in enumerate(("of boats", "/title boats", "/new")):
        discord.says(9, text)
        discord.answers(n + 1, dm=9)
    moved = json.loads(one.cli("handoff", "boats", "discord", "--json").stdout)
    assert moved["state"] == "completed", moved
    place = {"dm": 7} if home.startswith("user:") else {"channel": home}
    assert "boats" in discord.answers(1, **place)[0]
    assert not [c for c in discord.get("channels").values() if c["type"] in (10, 11)]
    one.stop()
    discord.verdict()


def test_a_thread_gets_another_name(host, discord, isolation):
    one = started(host, discord, isolation)
    asked = discord.says(7, "<@42> of boats", channel=GENERAL)
    discord.answers(1, channel=asked)
    discord.says(7, "/topic Sails", channel=asked)
    assert "Sails" in discord.answers(2, channel=asked)[1]
    assert discord.get("channels")[asked]["name"] == "Sails"
    one.stop()
    discord.verdict()


def test_a_deleted_thread_does_not_lose_the_answer(host, discord, isolation):
    one = started(host, discord, isolation)
    asked = discord.says(7, "<@42> of boats", channel=GENERAL)
    discord.answers(1, channel=asked)
    discord.fault(f"POST channels/{asked}/messages$", "refuse", status=404, code=10003)
    discord.says(7, "where now", channel=asked)
    assert "where now" in discord.answers(1, channel=GENERAL)[0]
    one.stop()
    discord.verdict()


def test_a_restart_answers_what_came_meanwhile_and_nothing_twice(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.says(7, "before")
    discord.answers(1, dm=7)
    assert one.stop() == 0
    discord.says(7, "meanwhile")
    one.start(online=["discord"])
    assert "meanwhile" in discord.answers(2, dm=7)[1]
    assert discord.sessions() == ["identify", "resume"]
    one.stop()
    assert len(discord.from_bot(dm=7)) == 2
    discord.verdict()


def test_after_a_restart_the_bots_role_the_threads_and_the_categories_are_known_again(host, discord, isolation):
    one = started(host, discord, isolation, more='allowed_channels = ["9"]')
    asked = discord.says(7, "<@42> of boats", channel=GENERAL)
    discord.answers(1, channel=asked)
    one.stop()
    one.start(online=["discord"])
    assert discord.sessions() == ["identify", "resume"], "a resumed session does not tell its guilds again"
    discord.says(7, "and sails", channel=asked)
    assert "and sails" in discord.answers(2, channel=asked)[1]
    other = discord.says(7, "<@&5> by its role", channel=RANDOM)
    assert "by its role" in discord.answers(1, channel=other)[0]
    one.stop()
    discord.verdict()


def test_kill_nine_in_the_middle_loses_nothing_and_doubles_nothing(host, discord, isolation):
    one = started(host, discord, isolation, more='session = { merge_ms = 0 }\nstream = "off"')
    for n in range(20):
        discord.says([7, 8, 9][n % 3], f"message {n}.")
        if n in (6, 13):
            one.kill()
            one.start()
    one.wait_online("discord")

    def seen():
        texts = [m["content"] for who in (7, 8, 9) for m in discord.from_bot(dm=who)]
        return all(any(f"message {n}." in text for text in texts) for n in range(20)) and texts

    texts = until("all twenty are answered", seen, 60)
    one.stop()
    keys = [c["body"]["nonce"] for c in discord.get("journal") if c["route"].endswith("/messages") and c["body"]]
    sent = [m["content"] for who in (7, 8, 9) for m in discord.from_bot(dm=who)]
    assert len(sent) == len(set(keys)), f"a key makes one message: {texts}"
    discord.verdict()


def test_a_thread_that_was_promised_is_opened_after_a_kill(host, discord, isolation):
    one = started(host, discord, isolation)
    discord.fault(f"POST channels/{GENERAL}/messages/.*/threads", "429", times=100, retry_after=3)
    asked = discord.says(7, "<@42> of boats", channel=GENERAL)
    until("it was asked for", lambda: discord.calls(f"POST channels/{GENERAL}/messages/{asked}/threads"))
    one.kill()
    discord.sim("fault_clear")
    one.start(online=["discord"])
    assert "of boats" in discord.answers(1, channel=asked, timeout=60)[0]
    one.stop()


def test_no_secret_is_in_the_log_or_the_status(host, discord, isolation):
    one = started(host, discord, isolation)
    until("the menu", lambda: discord.get("commands"))
    discord.sim("slash", **{"from": 7, "channel": GENERAL, "name": "help"})
    until("the answer", lambda: discord.from_bot(GENERAL))
    shown = one.cli("config", "show").stdout + one.cli("status").stdout + one.cli("status", "--json").stdout
    one.stop(signal.SIGTERM)
    [interaction] = discord.get("interactions")
    assert TOKEN not in shown + one.program.said() and interaction["token"] not in shown + one.program.said()


def test_a_wrong_value_is_told_before_anything_runs(host, discord, isolation):
    one = host(HEADER + section(discord, isolation, 'reply_mode = "sometimes"'))
    checked = one.cli("config", "check", check=False)
    assert checked.returncode != 0 and "reply_mode" in checked.stderr
    one.config.write_text(one.config.read_text().replace(TOKEN, "no-token").replace('reply_mode = "sometimes"', ""))
    checked = one.cli("config", "check", check=False)
    assert checked.returncode != 0 and "Developer Portal" in checked.stderr and "no-token" not in checked.stderr
