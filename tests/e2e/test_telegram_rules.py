"""Addressing rules in Telegram, destinations of answers, and slow chats that must not block the bot."""

import json

from conftest import HEADER, telegram_section, until

CALLS = "hey hermes"


def started(host, telegram, isolation, more="", header=HEADER):
    return host(header + telegram_section(telegram, isolation, more)).start(online=["telegram"])


def mention(text):
    return {"text": text, "entities": [{"type": "mention", "offset": 0, "length": len("@hermes_bot")}]}


def test_a_group_hears_who_calls_it_and_a_free_one_everybody_but_bots(host, telegram, isolation):
    more = f'session = {{ require_mention = true, free_chats = ["-200"], mention_patterns = ["{CALLS}"], merge_ms = 0 }}'
    one = started(host, telegram, isolation, more)
    bot = {"id": 8, "is_bot": True, "first_name": "Other"}
    telegram.says(-100, "to nobody", **{"from": 7})
    telegram.says(-100, "by its name, without an entity: @hermes_bot", **{"from": 7})
    telegram.says(-100, f"{CALLS}, by a pattern", **{"from": 7})
    assert "by a pattern" in telegram.answers(-100, 1)[0]
    telegram.sim("message", chat=-100, photo="x", caption="@hermes_bot in a caption", **{"from": 7},
                 caption_entities=[{"type": "mention", "offset": 0, "length": 11}])
    assert "in a caption" in telegram.answers(-100, 2)[1]
    telegram.says(-100, f"{CALLS}, I am a bot", **{"from": bot})
    telegram.says(-200, "I am a bot too", **{"from": bot})
    telegram.says(-200, "to nobody in a free chat", **{"from": 7})
    assert "to nobody in a free chat" in telegram.answers(-200, 1)[0]
    telegram.sim("message", chat=-100, **mention("@hermes_bot a bot calls"), **{"from": bot})
    assert "a bot calls" in telegram.answers(-100, 3)[2]
    one.stop()
    assert (len(telegram.from_bot(-100)), len(telegram.from_bot(-200))) == (3, 1)
    telegram.verdict()


def test_in_a_topic_of_a_private_chat_the_answer_stays_there_and_names_its_question(host, telegram, isolation):
    one = started(host, telegram, isolation)
    asked = {topic: telegram.says(7, f"in topic {topic}", thread=topic)["message_id"] for topic in (17, 18)}
    plain = telegram.says(7, "in none")["message_id"]
    telegram.answers(7, 3)
    where = {m["reply_to_message"]["message_id"]: m.get("message_thread_id") for m in telegram.from_bot(7)}
    assert where == {asked[17]: 17, asked[18]: 18, plain: None}
    assert len(json.loads(one.cli("session", "list", "--json").stdout)) == 3, "each is a conversation"
    one.stop()
    telegram.verdict()


def test_a_menu_that_the_server_never_answers_keeps_nothing_from_anybody(host, telegram, isolation):
    telegram.fault("setMyCommands", "hold", times=100)
    one = started(host, telegram, isolation)
    until("the menu was offered", lambda: [c for c in telegram.get("journal") if c["method"] == "setMyCommands"])
    telegram.says(7, "while it hangs")
    assert "while it hangs" in telegram.answers(7, 1)[0]
    assert one.adapter("telegram")["state"] == "online"
    telegram.sim("release", method="setMyCommands")
    assert one.stop() == 0
    menu = next(c for c in telegram.get("journal") if c["method"] == "setMyCommands")["params"]["commands"]
    assert {"new", "stop", "status"} <= {entry["command"] for entry in menu}
    telegram.verdict()


def test_a_group_that_becomes_a_supergroup_goes_on_as_the_same_conversation(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(-5, "before", **{"from": 7})
    telegram.answers(-5, 1)
    [before] = json.loads(one.cli("session", "list", "--json").stdout)
    telegram.sim("migrate", chat=-5, to=-1005, **{"from": 7})
    telegram.says(-1005, "after", **{"from": 7})
    assert "after" in telegram.answers(-1005, 1)[0]
    assert [session["id"] for session in json.loads(one.cli("session", "list", "--json").stdout)] == [before["id"]]
    one.cli("send", "telegram:-5", "to where it was")
    assert "to where it was" in telegram.answers(-1005, 2)[1]
    one.stop()
    telegram.verdict()


def test_a_message_that_waits_is_answered_as_it_was_edited_and_a_later_edit_changes_nothing(host, telegram, isolation):
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    one = started(host, telegram, isolation, 'session = { busy = "queue", receipts = false }', header=header)
    telegram.says(7, "/hang on")
    waits = telegram.says(7, "teh question")["message_id"]
    telegram.sim("edit", chat=7, message_id=waits, text="the question")
    telegram.says(8, "what comes after the edit")
    assert "after the edit" in telegram.answers(8, 1)[0]
    telegram.says(7, "/stop")
    until("the answer", lambda: any("the question" in (m.get("text") or "") for m in telegram.from_bot(7)))
    before = len(telegram.from_bot(7))
    telegram.sim("edit", chat=7, message_id=waits, text="something else")
    telegram.says(7, "the end")
    until("the end", lambda: any("the end" in (m.get("text") or "") for m in telegram.from_bot(7)))
    texts = [m.get("text") or "" for m in telegram.from_bot(7)]
    assert not any("teh question" in text or "something else" in text for text in texts), texts
    assert len(texts) == before + 1
    one.stop()
    telegram.verdict()
