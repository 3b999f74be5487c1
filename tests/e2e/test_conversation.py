"""The rules of a conversation on Telegram, from the point of view of people: built host, built library, checked
emulator."""

import json
import re

import pytest

from conftest import telegram_section, until

TEST_WORDS = """
[host]
status = ""

[agent]
runtime    = "echo"
test_words = true

[session]
busy = "queue"
"""


def started(host, telegram, isolation, more="", header=TEST_WORDS):
    return host(header + telegram_section(telegram, isolation, more)).start(online=["telegram"])


def texts(telegram, chat):
    return [message.get("text") or "" for message in telegram.from_bot(chat)]


def wait_text(telegram, chat, what, timeout=30):
    return until(f"{what!r} in {chat}", lambda: [text for text in texts(telegram, chat) if what in text], timeout)


def test_a_paired_stranger_talks_and_a_revoked_one_does_not(host, telegram, isolation):
    section = telegram_section(telegram, isolation).replace('access     = { allowed_users = ["7", "8", "9"], operators = ["7"] }\n', "")
    one = host(TEST_WORDS + section).start(online=["telegram"])
    telegram.says(555, "let me in")
    offer = telegram.answers(555, 1)[0]
    words = re.search(r"pairing approve \S+ [A-Z0-9-]+", offer).group().split()
    one.cli(*words)
    telegram.says(555, "I am in <1>")
    wait_text(telegram, 555, "I am in <1>")
    assert "555" in one.cli("pairing", "list").stdout
    one.cli("pairing", "revoke", "telegram", "555")
    before = len(telegram.from_bot(555))
    telegram.says(555, "still there? <2>")
    one.cli("pairing", "clear")
    until("the event of a stranger is dropped", lambda: one.status()["queues"]["inbox"] == 0)
    assert not [text for text in texts(telegram, 555)[before:] if "<2>" in text], "nobody answers a stranger"
    one.stop()
    telegram.verdict()


def test_a_burst_while_busy_is_processed_once_each_in_order(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(7, "/slow 300 one two three <0>")
    until("the turn runs", lambda: one.status()["queues"]["turns"] == 1)
    for n in range(1, 9):
        telegram.says(7, f"message <{n}>")
    wait_text(telegram, 7, "<8>", 60)
    until("nothing waits", lambda: one.status()["queues"]["turns"] == 0 and one.status()["queues"]["inbox"] == 0)
    joined = "\n".join(texts(telegram, 7))
    found = [int(n) for n in re.findall(r"<(\d)>", joined)]
    assert found == list(range(9)), joined
    one.stop()
    telegram.verdict()


def test_stop_frees_a_conversation_whose_model_hangs(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(7, "/hang what is said before")
    until("the turn runs", lambda: one.status()["queues"]["turns"] == 1)
    telegram.says(7, "/stop")
    until("the turn is over", lambda: one.status()["queues"]["turns"] == 0, 10)
    telegram.says(7, "next <1>")
    wait_text(telegram, 7, "next <1>")
    one.stop()
    telegram.verdict()


def test_a_flood_wait_while_an_answer_grows_costs_no_piece_of_it(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.fault("editMessageText", "429", retry_after=2, times=2)
    words = " ".join(f"word{n}" for n in range(30))
    telegram.says(7, f"/slow 150 {words} <end>")
    wait_text(telegram, 7, "<end>", 60)
    whole = [text for text in texts(telegram, 7) if "<end>" in text]
    assert len(whole) == 1 and all(f"word{n}" in whole[0] for n in range(30)), whole
    one.stop()
    assert len(telegram.from_bot(7)) == 1, "one message from preview to final"
    telegram.verdict()


def test_nine_thousand_characters_with_code_and_a_table_arrive_whole(host, telegram, isolation):
    one = started(host, telegram, isolation)
    code = "\n".join(f"    let value_{n} = {n}; // {'x' * 20}" for n in range(100))
    table = "| name | value |\n|---|---|\n" + "\n".join(f"| row {n} | {n * n} |" for n in range(40))
    prose = "\n\n".join(f"Paragraph {n}. " + "It goes on and on. " * 10 for n in range(15))
    text = f"{prose}\n\n```rust\n{code}\n```\n\n{table}\n\nthe end of it"
    assert len(text) > 8_000
    # A person's client splits a long text into several messages; the file of one test word does not.
    pieces = [text[at:at + 4000] for at in range(0, len(text), 4000)]
    for piece in pieces:
        telegram.says(7, piece)
    wait_text(telegram, 7, "the end of it", 60)
    until("nothing waits", lambda: one.status()["queues"]["turns"] == 0)
    shown = "\n".join(texts(telegram, 7))
    for n in (0, 50, 99):
        assert f"value_{n} = {n};" in shown
    for n in (0, 14):
        assert f"Paragraph {n}." in shown
    assert "row 39" in shown
    for message in telegram.from_bot(7):
        assert len((message.get("text") or "").encode("utf-16-le")) // 2 <= 4096
        assert message["raw"].count("<pre") == message["raw"].count("</pre>")
    one.stop()
    telegram.verdict()


def test_an_album_with_a_caption_is_one_question(host, telegram, isolation):
    one = started(host, telegram, isolation)
    for n in range(3):
        caption = {"caption": "what is on these? <1>"} if n == 0 else {}
        telegram.sim("message", chat=7, photo=f"bytes {n}", media_group_id="G7", **caption)
    wait_text(telegram, 7, "<1>")
    telegram.says(7, "and now <2>")
    wait_text(telegram, 7, "<2>")
    assert len(texts(telegram, 7)) == 2, texts(telegram, 7)
    one.stop()
    telegram.verdict()


def test_in_a_group_only_real_mentions_count(host, telegram, isolation):
    one = started(host, telegram, isolation, more="require_mention = true")
    for text in ["hermes_bot <1>", "mail me@hermes_bot.com <2>", "@hermes_bots <3>", "`@hermes_bot` <4>"]:
        telegram.says(-100, text, **{"from": 7})
    telegram.says(-100, "@hermes_bot hello <5>", entities=[{"type": "mention", "offset": 0, "length": 11}], **{"from": 7})
    wait_text(telegram, -100, "<5>")
    shown = "\n".join(texts(telegram, -100))
    assert not [n for n in (1, 2, 3, 4) if f"<{n}>" in shown], shown
    one.stop()
    telegram.verdict()


def test_two_people_in_one_thread_share_its_conversation(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(-100, "first <1>", thread=17, **{"from": 7})
    wait_text(telegram, -100, "<1>")
    telegram.says(-100, "second <2>", thread=17, **{"from": 8})
    wait_text(telegram, -100, "<2>")
    assert {message.get("message_thread_id") for message in telegram.from_bot(-100)} == {17}
    sessions = json.loads(one.cli("session", "list", "--json").stdout)
    assert len(sessions) == 1, sessions
    one.stop()
    telegram.verdict()


@pytest.mark.parametrize("kind", ["5xx", "cut_after"])
def test_a_fault_at_the_last_edit_leaves_no_half_answer(host, telegram, isolation, kind):
    one = started(host, telegram, isolation)
    telegram.says(7, "/slow 120 " + " ".join(f"w{n}" for n in range(20)) + " <end>")
    until("the answer grows", lambda: telegram.from_bot(7))
    telegram.fault("editMessageText", kind, times=1)
    wait_text(telegram, 7, "<end>", 60)
    one.stop()
    last = texts(telegram, 7)[-1]
    assert "<end>" in last, texts(telegram, 7)
    telegram.verdict()
