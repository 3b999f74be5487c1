"""One story on three platforms: the conversation of two people with the agent, and its visible messages.

The test checks the platform's view: exact texts in order and place, none missing and none twice, every code block
closed in each part, and no part above the limit. It also checks the transcript, which must contain each text once.
"""

import json

import pytest

from conftest import telegram, until  # noqa: F401 - fixtures
from platforms import PLATFORMS, REPEATED, answered, without_fences
from test_discord import discord  # noqa: F401 - a fixture
from test_model import config
from test_slack import slack, slack_host  # noqa: F401 - fixtures
from test_terminal import terminal  # noqa: F401 - a fixture
from told_model import MOVED, ToldModel, long_answer

INTERRUPTED = "(interrupted"


@pytest.fixture(params=PLATFORMS)
def platform(request, isolation):
    return PLATFORMS[request.param](request.getfixturevalue(request.param), isolation)


@pytest.fixture
def model(platform):
    # Longer than one message of the platform, and at least six thousand characters.
    told = ToldModel(long_answer(max(6000, platform.limit + 1500)))
    yield told
    told.stop()


@pytest.fixture
def place(host, platform, model):
    """Returns a host with this platform."""

    def make(more="", flat=False, agent=""):
        text = config(model.base).replace('status = ""', 'status = ""\ndrain_s = 1')
        return host(text + agent + '\n[session]\nbusy = "queue"\n\n[delivery]\npreview_interval_ms = 300\n' + platform.section(more, flat), {"OPENAI_API_KEY": "sk-test"}).start(online=[platform.name])

    return make


def said(seen):
    return " ".join(seen.words)


def told_whole(platform, seen, long, repeats=0, copies=0):
    """Checks that these messages are the complete long answer. `repeats` of them are marked repeats on a platform
    without idempotency keys; `copies` of the repeated parts had arrived before, completely or in part."""
    parts = list(seen)
    repeated = [part for part in parts if part.repeated]
    assert len(repeated) == (0 if platform.idempotent else repeats), [part.text for part in repeated]
    for part in repeated:
        earlier = [one for one in parts if one is not part and not one.repeated and said(part).startswith(said(one))]
        assert len(earlier) == copies
        parts = [one for one in parts if one not in earlier]
    assert [part.number for part in parts] == [(n + 1, len(parts)) for n in range(len(parts))]
    words = [word for part in parts for word in part.words]
    assert words == without_fences(long).split(), "every word once, in its order"
    # A code block visibly begins on a new line.
    lines = [line for part in parts for line in part.text.replace(f"{REPEATED} ", "").split("\n")]
    for line in long.split("\n"):
        if line.startswith("    "):
            assert lines.count(line) == 1, f"{line!r} as it was written"
    for part in seen:
        assert all(platform.fits(raw) for raw in part.raw), part.raw
        assert INTERRUPTED not in part.text


def long_parts(platform, place):
    """Returns the messages of a place that belong to the long answer."""
    return [seen for seen in platform.shown(place) if "word0x0" in seen.text or "word" in seen.text or "value_" in seen.text]


def transcript(one, session=None):
    # Without a named place: the one that was used last.
    session = session or json.loads(one.cli("session", "list", "--json").stdout)[0]["id"]
    shown = json.loads(one.cli("session", "show", session, "--json").stdout)
    return [(message["role"], message["content"]) for message in shown["messages"]]


def test_two_people_talk_in_a_group_and_in_private(place, platform, model):
    one = place(flat=True)
    group, n = platform.group(), 0
    private = {who: platform.dm(who) for who in (platform.first, platform.second)}
    expected = {"group": [], platform.first: [], platform.second: []}
    for _ in range(2):
        for who in (platform.first, platform.second):
            for where, at in (("group", group), (who, private[who])):
                n += 1
                platform.says(at, who, f"this is number {n}", call=where == "group")
                answered(platform, at, f"Answer to number {n}.")
                expected[where].append(f"Answer to number {n}.")
    platform.says(group, platform.first, "nobody is called")
    platform.says(private[platform.first], platform.first, "this is number 99")
    answered(platform, private[platform.first], "number 99")
    expected[platform.first].append("Answer to number 99.")
    assert [seen.text for seen in platform.shown(group)] == expected["group"]
    for who, at in private.items():
        assert [seen.text for seen in platform.shown(at)] == expected[who]
    # Private messages stay private.
    alone = [message["content"] for message in model.asked("number 99")[-1] if message["role"] != "system"]
    assert alone == ["this is number 2", "Answer to number 2.", "this is number 6", "Answer to number 6.", "this is number 99"]
    assert one.stop() == 0
    platform.verdict()


def test_two_people_share_a_thread_and_its_channel_stays_apart(place, platform, model):
    one = place()
    thread, other = platform.thread(), platform.thread()
    platform.says(thread, platform.first, "this is number 1", call=True)
    answered(platform, thread, "Answer to number 1.")
    platform.says(other, platform.second, "this is number 2", call=True)
    answered(platform, other, "Answer to number 2.")
    platform.says(thread, platform.second, "this is number 3")
    answered(platform, thread, "Answer to number 3.")
    assert [seen.text for seen in platform.shown(thread)] == ["Answer to number 1.", "Answer to number 3."]
    assert [seen.text for seen in platform.shown(other)] == ["Answer to number 2."]
    asked = [message["content"] for message in model.asked("number 3")[0] if message["role"] == "user"]
    assert len(asked) == 2 and "number 1" in asked[0], "one conversation for both, and not the one beside it"
    assert one.stop() == 0
    platform.verdict()


@pytest.mark.parametrize("where", ["home channel", "direct messages"])
def test_a_conversation_of_the_terminal_goes_on_in_a_chat_with_the_next_real_message(place, platform, model, terminal, where):  # noqa: F811
    in_private = where == "direct messages"
    home = platform.private_home(platform.first) if in_private else platform.home
    one = place(f'home_channel = "{home}"')
    at = terminal(one).sees("/quit exits")
    for n in (1, 2):
        at.types(f"this is number {n}").sees(f"Answer to number {n}.")
    at.types(f"/handoff {platform.name}")
    assert at.ends() == 0
    session = at.session()
    until("it arrived", lambda: json.loads(one.cli("handoff", "show", session, "--json").stdout)["state"] == "completed")
    there = platform.arrived(f"It {MOVED}.")
    one.kill()
    one.start(online=[platform.name])
    platform.says(there, platform.first, "this is number 3")
    answered(platform, there, "Answer to number 3.")
    if not in_private:
        platform.says(there, platform.second, "this is number 4")
        answered(platform, there, "Answer to number 4.")
    last = 3 if in_private else 4
    seen = [seen.text for seen in platform.shown(there) if "number" in seen.text]
    assert seen == [f"Answer to number {n}." for n in range(3, last + 1)]
    found = transcript(one, session)
    assert [role for role, _ in found] == ["user", "assistant"] * (last + 1), "one conversation, its opening among it"
    answers = [content for role, content in found if role == "assistant"]
    assert answers == ["Answer to number 1.", "Answer to number 2.", f"It {MOVED}.", *(f"Answer to number {n}." for n in range(3, last + 1))]
    asked = [message for message in model.asked(f"number {last}")[-1] if message["role"] != "system"]
    assert [message["content"] for message in asked[:3]] == ["this is number 1", "Answer to number 1.", "this is number 2"]
    assert platform.arrived(f"It {MOVED}.") == there, "and it arrived once"
    assert one.stop() == 0
    platform.verdict()


def test_files_go_to_the_agent_and_come_back_as_they_were(place, platform, model):
    one = place(agent='tools = ["terminal"]\n')
    files = [("notes.txt", "what I noted"), ("more.txt", "and ß more\n" * 3)]
    for at, call in ((platform.dm(platform.first), False), (platform.thread(), True)):
        platform.says(at, platform.first, "send them back", call=call, files=files)
        back = until("both are back", lambda at=at: [file for seen in platform.shown(at) for file in seen.files][1:] and platform.shown(at))
        assert [content for seen in back for _, content in seen.files] == [content.encode() for _, content in files]
        assert [seen.text for seen in back if seen.text] == ["Here they are again."]
        assert all(content.strip() in model.requests[-1][-1]["content"] for _, content in files), "the agent reads what is in them"
    assert one.stop() == 0
    platform.verdict()


def grows(platform, at, model, edited=True):
    """Waits until the long answer is visible and then grows."""
    model.allow(2)
    until("it begins", lambda: long_parts(platform, at))
    if edited:
        model.allow(2)
        until("it grows", lambda: len(platform.calls("edit")) > 0 and len(long_parts(platform, at)[0].raw) > 1)


def asked_at_length(platform, at, model):
    """Lets the first person ask for the long answer; meanwhile the second one asks another question, which waits."""
    platform.says(at, platform.first, "this is number 0", call=True)
    answered(platform, at, "Answer to number 0.")
    model.hold()
    platform.says(at, platform.first, "tell me at length")
    until("the model is asked", lambda: model.asked("at length"))
    platform.says(at, platform.second, "this is number 1")
    answered(platform, at, "Queued (")


def all_is_told(one, platform, at, model, repeats=0, copies=0, last_was_said=False):
    """Checks that all questions have their answers, once and in order, in the chat and in the transcript, and the
    last one too."""
    answered(platform, at, "Answer to number 1.")
    if not last_was_said:
        platform.says(at, platform.first, "this is number 2")
    answered(platform, at, "Answer to number 2.")
    until("nothing is owed", lambda: one.status()["queues"]["outbox"] == 0)
    told_whole(platform, long_parts(platform, at), model.long, repeats, copies)
    texts = [seen.text for seen in platform.shown(at)]
    assert [text for text in texts if "number" in text] == [f"Answer to number {n}." for n in range(3)]
    last_part = max(n for n, text in enumerate(texts) if "that is the end of it" in " ".join(text.split()))
    assert last_part < texts.index("Answer to number 1."), "in the order in which they were asked"
    found = transcript(one)
    assert [role for role, _ in found] == ["user", "assistant"] * 4
    first, *rest = [f"Answer to number {n}." for n in range(3)]
    assert [content for role, content in found if role == "assistant"] == [first, model.long, *rest]
    assert one.stop() == 0
    platform.verdict()


@pytest.mark.parametrize("limited", ["edit", "send"])
def test_a_long_answer_with_code_arrives_whole_though_the_platform_asks_to_wait(place, platform, model, limited):
    one, at = place(), platform.thread()
    asked_at_length(platform, at, model)
    if limited == "edit":
        grows(platform, at, model, edited=False)
        platform.limit_once("edit")
        model.allow(2)
    else:
        platform.limit_once("send")
        model.allow(2)
    until("it is asked to wait", lambda: [call for call in platform.calls(limited) if call[1]])
    model.release()
    all_is_told(one, platform, at, model)
    calls = platform.calls(limited)
    limited_at = next(at for at, too_much in calls if too_much)
    assert len([call for call in calls if call[1]]) == 1
    after = [at - limited_at for at, _ in calls if at > limited_at]
    assert after and min(after) >= 1.0, "nothing is tried before the time that was asked for"


def test_a_line_that_breaks_while_an_answer_grows_loses_and_doubles_nothing(place, platform, model):
    one, at = place(), platform.thread()
    asked_at_length(platform, at, model)
    grows(platform, at, model)
    platform.cut()
    private = platform.dm(platform.second)
    platform.says(private, platform.second, "this is number 3")
    model.allow(2)
    answered(platform, private, "Answer to number 3.")
    model.release()
    one.wait_online(platform.name)
    assert [seen.text for seen in platform.shown(private)] == ["Answer to number 3."]
    all_is_told(one, platform, at, model)


def test_a_restart_while_an_answer_grows_goes_on_in_the_same_message(place, platform, model):
    one, at = place(), platform.thread()
    asked_at_length(platform, at, model)
    grows(platform, at, model)
    assert one.stop() == 0
    [half] = long_parts(platform, at)
    assert half.text.rstrip().endswith(f"{INTERRUPTED}, continues after the restart)"), "nobody takes the half for the whole"
    assert all(platform.fits(raw) for raw in half.raw)
    platform.says(at, platform.first, "this is number 2")
    model.release()
    one.start(online=[platform.name])
    all_is_told(one, platform, at, model, last_was_said=True)
    assert any(INTERRUPTED in raw for raw in long_parts(platform, at)[0].raw), "it goes on in the message that says so"


# Time of the kill: the call that is held, and whether the platform has executed it.
MOMENTS = {
    "before a word is said": (None, False),
    "the first words are on their way": ("send", False),
    "the first words arrived and the host does not know": ("send", True),
    "it grows": (None, False),
    "a change is on its way": ("edit", False),
    "a later part is on its way": ("send", False),
    "a later part arrived and the host does not know": ("send", True),
}


# State that ends with the host is the same in both isolations; cases with remaining children are tested in both.
DEATHS = [(moment, "in-process") for moment in MOMENTS] + [
    ("it grows", "process"), ("a later part arrived and the host does not know", "process")]


@pytest.mark.parametrize("moment,isolation", DEATHS)
def test_kill_nine_at_any_moment_of_a_long_answer_loses_nothing_and_doubles_nothing_unmarked(place, platform, model, moment):
    held, done = MOMENTS[moment]
    one, at = place(), platform.thread()
    asked_at_length(platform, at, model)
    if moment in ("it grows", "a change is on its way") or "later" in moment:
        grows(platform, at, model, edited=moment == "it grows")
    if held:
        platform.hold(held, done)
        model.release() if "later" in moment else model.allow(2)
        until(f"{moment}", platform.held)
    if done:
        until("it is there", lambda: len(long_parts(platform, at)) == (2 if "later" in moment else 1))
    one.kill()
    model.release()
    one.start(online=[platform.name])
    all_is_told(one, platform, at, model, int(held == "send"), int(done))
