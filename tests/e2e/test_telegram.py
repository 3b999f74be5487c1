"""Telegram with the built host and library, against the emulator with schema checks."""

import json
import signal
import urllib.error
import urllib.request

from conftest import HEADER, free_port, telegram_section, until


def started(host, telegram, isolation, more="", header=HEADER):
    return host(header + telegram_section(telegram, isolation, more)).start(online=["telegram"])


def test_a_message_is_answered_and_every_request_is_valid(host, telegram, isolation):
    one = started(host, telegram, isolation)
    assert one.adapter("telegram")["isolation"] == isolation
    telegram.says(7, "hello *world* <b>")
    assert "hello" in telegram.answers(7, 1)[0]
    assert one.stop() == 0
    telegram.verdict()


def test_answers_come_in_order_while_the_session_is_busy(host, telegram, isolation):
    one = started(host, telegram, isolation, more="session = { busy = \"queue\", merge_ms = 0 }")

    def answers():
        texts = [m.get("text") or "" for m in telegram.from_bot(7)]
        return [text for text in texts if not text.startswith("Queued (")]

    for n in range(8):
        telegram.says(7, f"message {n}")
    until("all are answered", lambda: len(answers()) == 8)
    assert [next(n for n in range(8) if f"message {n}" in answer) for answer in answers()] == list(range(8))
    one.stop()
    assert len(answers()) == 8
    telegram.verdict()


def test_a_stranger_is_offered_a_code_that_the_operator_approves(host, telegram, isolation):
    section = telegram_section(telegram, isolation).replace('access     = { allowed_users = ["7", "8", "9"], operators = ["7"] }\n', "")
    one = host(HEADER + section).start(online=["telegram"])
    telegram.says(555, "let me in")
    offer = telegram.answers(555, 1)[0]
    line = next(line for line in offer.splitlines() if "pairing approve" in line)
    words = line.strip("` ").split()
    at = words.index("pairing")
    one.cli(*words[at:at + 4])
    telegram.says(555, "hello again")
    until("the answer after approval", lambda: any("hello again" in (m.get("text") or "") for m in telegram.from_bot(555)))
    one.stop()
    telegram.verdict()


def test_with_a_list_a_stranger_gets_silence(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(555, "let me in")
    telegram.says(7, "me")
    telegram.answers(7, 1)
    assert telegram.from_bot(555) == []
    one.stop()


def test_a_group_counts_only_structured_mentions(host, telegram, isolation):
    one = started(host, telegram, isolation, more="require_mention = true")
    telegram.says(-100, "nothing for @hermes_bot_fan or me@hermes_bot", **{"from": 7})
    telegram.says(-100, "@hermes_bot first", entities=[{"type": "mention", "offset": 0, "length": 11}], **{"from": 7})
    answers = telegram.answers(-100, 1)
    assert "first" in answers[0] and "@hermes_bot" not in answers[0]
    mine = telegram.from_bot(-100)[0]["message_id"]
    telegram.says(-100, "second", reply_to=mine, **{"from": 7})
    answers = telegram.answers(-100, 2)
    assert "second" in answers[1] and len(answers) == 2
    one.stop()
    telegram.verdict()


def test_a_topic_is_a_conversation_and_its_answers_stay_in_it(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(-100, "in the topic", thread=17, **{"from": 7})
    telegram.says(-100, "outside", **{"from": 7})
    telegram.answers(-100, 2)
    threads = {("in the topic" in message["text"]): message.get("message_thread_id") for message in telegram.from_bot(-100)}
    assert threads == {True: 17, False: None}
    one.stop()
    telegram.verdict()


def test_a_topic_gets_another_name_in_a_forum_and_in_a_private_chat(host, telegram, isolation):
    one = started(host, telegram, isolation)
    for chat in (-100, 7):
        telegram.says(chat, "/topic Travel plans", thread=17, **{"from": 7})
        assert "Travel plans" in telegram.answers(chat, 1)[0]
        assert telegram.get(f"topics/{chat}") == {"17": "Travel plans"}
        assert telegram.from_bot(chat)[0].get("message_thread_id") == 17, "the answer stays in the topic"
    telegram.says(9, "/topic Travel plans")
    assert "not a topic" in telegram.answers(9, 1)[0]
    one.stop()
    telegram.verdict()


def test_a_conversation_moves_into_a_topic_of_its_own_in_a_forum_and_in_a_private_chat(host, telegram, isolation):
    # Only a conversation of the operator continues in another place, and 9 begins it; 7 sets the home channel.
    section = telegram_section(telegram, isolation, "session = { require_mention = false, merge_ms = 0 }")
    one = host(HEADER + section.replace('operators = ["7"]', 'operators = ["7", "9"]')).start(online=["telegram"])
    for home, others in ((-100, (7, 8)), (7, (7,))):
        before = len(telegram.from_bot(9))
        title = f"boats {home}"
        for n, text in enumerate(("of boats", f"/title {title}", "/new")):
            telegram.says(9, text)
            telegram.answers(9, before + n + 1)
        at_home = len(telegram.from_bot(home))
        telegram.says(home, "/sethome", **{"from": 7})
        telegram.answers(home, at_home + 1)
        moved = json.loads(one.cli("handoff", title, "telegram", "--json").stdout)
        assert moved["state"] == "completed", moved
        topics = {name: int(topic) for topic, name in telegram.get(f"topics/{home}").items()}
        topic = topics[title]
        opened = telegram.from_bot(home)[-1]
        assert (opened["message_thread_id"], title in opened["text"]) == (topic, True)
        for n, person in enumerate(others):
            telegram.says(home, f"from {person}", thread=topic, **{"from": person})
            assert f"from {person}" in telegram.answers(home, at_home + 3 + n)[-1]
            assert telegram.from_bot(home)[-1]["message_thread_id"] == topic
        said = json.loads(one.cli("session", "show", moved["session"], "--json").stdout)["messages"]
        assert len([m for m in said if m["role"] == "user"]) == 2 + len(others), "one conversation for all"
    one.stop()
    telegram.verdict()


def test_a_public_name_is_looked_up_and_an_unknown_one_is_an_error(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.sim("name", chat=-100500, name="hermes_news")
    one.cli("send", "telegram:@hermes_news", "to the channel")
    assert "to the channel" in telegram.answers(-100500, 1)[0]
    failed = one.cli("send", "telegram:@nobody_here", "x", check=False)
    assert failed.returncode != 0 and "nobody_here" in failed.stderr
    one.stop()
    telegram.verdict()


def test_a_text_longer_than_a_caption_is_a_message_before_its_file(host, telegram, isolation):
    one = started(host, telegram, isolation)
    (one.folder / "x.txt").write_text("what is in it")
    fits, longer = "f" * 1024, "l" * 1025
    one.cli("send", "telegram:7", fits, "--file", "x.txt")
    until("the document", lambda: telegram.from_bot(7))
    assert [message.get("caption") for message in telegram.from_bot(7)] == [fits]
    one.cli("send", "telegram:8", longer, "--file", "x.txt")
    until("text and document", lambda: len(telegram.from_bot(8)) == 2)
    text, document = telegram.from_bot(8)
    assert text["text"] == longer and "document" not in text
    assert document["document"]["file_name"] == "x.txt" and not document.get("caption")
    one.stop()
    telegram.verdict()


def test_a_recording_is_a_voice_message_where_it_is_opus(host, telegram, isolation):
    one = started(host, telegram, isolation)
    media = one.home / "media"
    media.mkdir(exist_ok=True)
    (media / "a.ogg").write_bytes(b"OggS" + bytes(24) + b"OpusHead" + bytes(20))
    (media / "b.mp3").write_bytes(b"ID3" + bytes(40))
    telegram.says(7, f"[[audio_as_voice]]\nMEDIA:{media}/a.ogg\nMEDIA:{media}/b.mp3")
    until("both", lambda: len(telegram.from_bot(7)) == 2)
    assert [sorted({"voice", "audio"} & set(message)) for message in telegram.from_bot(7)] == [["voice"], ["audio"]]
    one.stop()
    telegram.verdict()


def test_a_wrong_value_is_told_before_anything_runs(host, telegram, isolation):
    one = host(HEADER + telegram_section(telegram, isolation, 'reply_mode = "sometimes"'))
    checked = one.cli("config", "check", check=False)
    assert checked.returncode != 0 and "reply_mode" in checked.stderr
    one.config.write_text(one.config.read_text().replace(telegram.TOKEN, "no-token").replace('reply_mode = "sometimes"', ""))
    checked = one.cli("config", "check", check=False)
    assert checked.returncode != 0 and "BotFather" in checked.stderr and "no-token" not in checked.stderr


def test_a_deleted_topic_does_not_lose_the_answer(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.fault("sendMessage", "slow", delay_s=1)
    telegram.says(-100, "where now", thread=17, **{"from": 7})
    telegram.sim("topic", chat=-100, id=17, deleted=True)
    telegram.answers(-100, 1)
    assert "message_thread_id" not in telegram.from_bot(-100)[0]
    one.stop()
    telegram.verdict()


def test_a_migrated_group_goes_on_under_its_new_id(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(-5, "before", **{"from": 7})
    telegram.answers(-5, 1)
    telegram.fault("sendMessage", "slow", delay_s=1)
    telegram.says(-5, "while it moves", **{"from": 7})
    telegram.sim("migrate", chat=-5, to=-1005, silent=True)
    assert "while it moves" in telegram.answers(-1005, 1)[0]
    one.stop()
    telegram.verdict()


def test_a_flood_wait_is_obeyed_and_nothing_is_doubled(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.fault("sendMessage", "429", retry_after=2)
    telegram.says(7, "slowly")
    telegram.answers(7, 1)
    calls = [call for call in telegram.get("journal") if call["method"] == "sendMessage"]
    assert len(calls) == 2 and calls[1]["at"] - calls[0]["at"] >= 2.0
    one.stop()
    telegram.verdict()


def test_a_server_error_is_tried_again(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.fault("sendMessage", "5xx")
    telegram.says(7, "again")
    answers = telegram.answers(7, 1)
    one.stop()
    assert len(telegram.from_bot(7)) == 1 and "again" in answers[0]


def test_a_lost_answer_is_repeated_once_and_marked(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.fault("sendMessage", "cut_after")
    telegram.says(7, "did it arrive")
    answers = telegram.answers(7, 2)
    assert "did it arrive" in answers[0] and "did it arrive" in answers[1]
    assert len(answers[1]) > len(answers[0]), f"the repeat carries a mark: {answers}"
    one.stop()
    assert len(telegram.from_bot(7)) == 2


def test_markup_that_is_refused_goes_once_more_as_plain_text(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.fault("sendMessage", "bad_format")
    telegram.says(7, "some **bold** words")
    telegram.answers(7, 1)
    sent = [call["params"] for call in telegram.get("journal") if call["method"] == "sendMessage"]
    assert "parse_mode" in sent[0] and "parse_mode" not in sent[1]
    one.stop()
    assert len(telegram.from_bot(7)) == 1


def test_a_second_poller_is_named_and_waited_for(host, telegram, isolation):
    one = host(HEADER + telegram_section(telegram, isolation))
    telegram.fault("getUpdates", "409", times=2)
    one.start()
    state = one.wait_state("telegram", "reconnecting")
    assert "receives the messages of this bot" in state["reason"]
    # The waits grow: 10 s, then 20 s. The adapter is online for a moment before each refusal.
    telegram.says(7, "hello")
    telegram.answers(7, 1, timeout=60)
    one.wait_online("telegram")
    one.stop()


def test_a_refused_token_says_what_to_do(host, telegram, isolation):
    telegram.fault("getMe", "expired", times=100)
    one = host(HEADER + telegram_section(telegram, isolation)).start()
    state = one.wait_state("telegram", "failed")
    assert "BotFather" in state["reason"]
    assert telegram.TOKEN not in one.program.said()
    one.stop()


def test_cut_slow_and_malformed_polls_lose_nothing(host, telegram, isolation):
    one = started(host, telegram, isolation)
    for kind in ("cut", "malformed", "5xx"):
        telegram.fault("getUpdates", kind)
    telegram.says(7, "through all that")
    assert "through all that" in telegram.answers(7, 1, timeout=60)[0]
    one.wait_online("telegram")
    one.stop()
    assert len(telegram.from_bot(7)) == 1


def test_a_restart_answers_what_came_meanwhile_and_nothing_twice(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(7, "before")
    telegram.answers(7, 1)
    assert one.stop() == 0
    telegram.says(7, "meanwhile")
    one.start(online=["telegram"])
    answers = telegram.answers(7, 2)
    assert "meanwhile" in answers[1]
    one.stop()
    assert len(telegram.from_bot(7)) == 2
    telegram.verdict()


def test_kill_nine_in_the_middle_loses_nothing(host, telegram, isolation):
    one = started(host, telegram, isolation)
    for n in range(20):
        telegram.says([7, 8, 9][n % 3], f"message {n}")
        if n in (6, 13):
            one.kill()
            one.start()
    one.wait_online("telegram")

    def seen():
        texts = [message["text"] for chat in (7, 8, 9) for message in telegram.from_bot(chat)]
        return all(any(f"message {n}" == t.removeprefix("echo: ").split("\n")[-1].strip() or f"message {n}" in t for t in texts) for n in range(20)) and texts

    texts = until("all twenty are answered", seen, 60)
    doubled = len(texts) - 20
    assert doubled <= 2, f"only a send that was cut off may be repeated: {texts}"
    one.stop()


def test_a_long_answer_is_split_within_the_limit(host, telegram, isolation):
    one = started(host, telegram, isolation)
    code = "\n".join(f"    let value_{n} = {n}; // 🦀" for n in range(300))
    telegram.says(7, f"look\n\n```rust\n{code}\n```\n\nend of it")
    first = telegram.answers(7, 2)
    until("the end arrives", lambda: "end of it" in "".join(message["text"] for message in telegram.from_bot(7)))
    for message in telegram.from_bot(7):
        assert len(message["text"].encode("utf-16-le")) // 2 <= 4096
        assert message["raw"].count("<pre") == message["raw"].count("</pre>")
    assert first
    one.stop()
    telegram.verdict()


def test_an_album_is_one_event_and_a_file_reaches_the_agent(host, telegram, isolation):
    one = started(host, telegram, isolation)
    for n in range(3):
        telegram.sim("message", chat=7, photo=f"bytes {n}", media_group_id="G1", **({"caption": "look at these"} if n == 0 else {}))
    answers = telegram.answers(7, 1)
    assert "look at these" in answers[0]
    telegram.says(7, "next")
    answers = telegram.answers(7, 2)
    assert "next" in answers[1], f"the album is one event: {answers}"
    kept = [path for path in (one.home / "media").rglob("*") if path.is_file()]
    assert sorted(path.read_bytes() for path in kept) == [b"bytes 0", b"bytes 1", b"bytes 2"]
    one.stop()
    telegram.verdict()


def test_send_reaches_a_chat_and_an_unknown_target_is_an_error(host, telegram, isolation):
    one = started(host, telegram, isolation)
    one.cli("send", "telegram:7", "from the operator")
    assert "from the operator" in telegram.answers(7, 1)[0]
    failed = one.cli("send", "telegrm:7", "x", check=False)
    assert failed.returncode != 0 and "telegram" in failed.stderr
    one.stop()
    telegram.verdict()


def test_a_file_goes_with_a_text(host, telegram, isolation):
    one = started(host, telegram, isolation)
    (one.folder / "x.txt").write_text("what is in it")
    one.cli("send", "telegram:7", "look", "--file", "x.txt")
    until("the document", lambda: telegram.from_bot(7))
    [message] = telegram.from_bot(7)
    assert message["document"]["file_name"] == "x.txt" and message["document"]["file_size"] == len("what is in it")
    assert message["caption"] == "look"
    failed = one.cli("send", "telegram:7", "look", "--file", "missing.txt", check=False)
    assert failed.returncode != 0 and "missing.txt" in failed.stderr
    one.stop()
    telegram.verdict()


def test_commands_are_answered(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(7, "/help", entities=[{"type": "bot_command", "offset": 0, "length": 5}])
    assert "/stop" in telegram.answers(7, 1)[0]
    telegram.says(7, "/hepl", entities=[{"type": "bot_command", "offset": 0, "length": 5}])
    assert "help" in telegram.answers(7, 2)[1]
    one.stop()


def test_no_secret_is_in_the_log_or_the_status(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(7, "hello")
    telegram.answers(7, 1)
    shown = one.cli("config", "show").stdout + one.cli("status").stdout + one.cli("status", "--json").stdout
    one.stop(signal.SIGTERM)
    assert telegram.TOKEN not in shown + one.program.said()


def test_the_agents_question_has_buttons_and_loses_them_when_it_is_answered(host, telegram, isolation):
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    one = started(host, telegram, isolation, header=header)
    telegram.says(7, "/ask make coffee")
    asked = until("the question", lambda: [m for m in telegram.from_bot(7) if m.get("reply_markup")])[0]
    rows = asked["reply_markup"]["inline_keyboard"]
    data = [button["callback_data"] for row in rows for button in row]
    assert data and all(len(one_data.encode()) <= 64 for one_data in data)
    telegram.sim("press", chat=7, message_id=asked["message_id"], data=data[0])
    until("the answer", lambda: [m for m in telegram.from_bot(7) if m.get("text") == "approved: once"])
    said = until("no buttons", lambda: [m for m in telegram.from_bot(7) if "Approved once." in (m.get("text") or "")])[0]
    assert said["message_id"] == asked["message_id"] and not said.get("reply_markup")
    one.stop()
    telegram.verdict()


SECRET = "what-only_Telegram-knows"


def webhook_keys(port):
    return f'''webhook_url = "http://127.0.0.1:{port}/telegram"
webhook_secret = "{SECRET}"
listen = "127.0.0.1:{port}"
'''


def brought(port, update, secret=None):
    """Sends an update and returns the status of the response."""
    headers = {"content-type": "application/json", **({"X-Telegram-Bot-Api-Secret-Token": secret} if secret else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/telegram", json.dumps(update).encode(), headers)
    try:
        return urllib.request.urlopen(request, timeout=30).status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_webhook_brings_messages_presses_and_albums_and_nothing_is_polled(host, telegram, isolation):
    port = free_port()
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    one = started(host, telegram, isolation, more=webhook_keys(port), header=header)
    telegram.says(7, "hello")
    assert "hello" in telegram.answers(7, 1)[0]
    for n in range(3):
        telegram.sim("message", chat=8, photo=f"bytes {n}", media_group_id="G1", **({"caption": "look at these"} if n == 0 else {}))
    assert "look at these" in telegram.answers(8, 1)[0]
    telegram.says(8, "next")
    assert "next" in telegram.answers(8, 2)[1], "the album is one event"
    kept = [path for path in (one.home / "media").rglob("*") if path.is_file()]
    assert sorted(path.read_bytes() for path in kept) == [b"bytes 0", b"bytes 1", b"bytes 2"]
    telegram.says(7, "/ask make coffee")
    asked = until("the question", lambda: [m for m in telegram.from_bot(7) if m.get("reply_markup")])[0]
    telegram.sim("press", chat=7, message_id=asked["message_id"], data=asked["reply_markup"]["inline_keyboard"][0][0]["callback_data"])
    until("the answer", lambda: [m for m in telegram.from_bot(7) if m.get("text") == "approved: once"])
    assert "getUpdates" not in [call["method"] for call in telegram.get("journal")]
    one.stop()
    telegram.verdict()


def test_a_forged_update_is_refused_and_one_that_comes_twice_is_answered_once(host, telegram, isolation):
    port = free_port()
    one = started(host, telegram, isolation, more=webhook_keys(port))

    def update(number, text):
        person = {"id": 7, "is_bot": False, "first_name": "A"}
        return {"update_id": number, "message": {"message_id": 9000 + number, "date": 1, "text": text, "from": person,
                                                 "chat": {"id": 7, "type": "private", "first_name": "A"}}}

    for secret in (None, "another-one", SECRET[:-1], SECRET + "x"):
        assert brought(port, update(1, "forged"), secret) == 401
    assert brought(port, update(2, "true"), SECRET) == 200
    assert brought(port, update(2, "true"), SECRET) == 200
    assert brought(port, {"update_id": 3, "unheard_of": {}}, SECRET) == 200, "what is not understood does not come for ever"
    telegram.says(7, "last")
    until("the last is answered", lambda: any("last" in (m.get("text") or "") for m in telegram.from_bot(7)))
    said = [message.get("text") or "" for message in telegram.from_bot(7)]
    assert not any("forged" in text for text in said)
    assert len([text for text in said if "true" in text]) == 1, said
    shown = one.cli("config", "show").stdout + one.cli("status", "--json").stdout
    one.stop()
    assert SECRET not in shown + one.program.said()


def test_a_webhook_without_a_secret_does_not_start(host, telegram, isolation):
    keys = webhook_keys(free_port()).replace(f'webhook_secret = "{SECRET}"\n', "")
    one = host(HEADER + telegram_section(telegram, isolation, keys))
    checked = one.cli("config", "check", check=False)
    assert checked.returncode != 0 and "`webhook_secret` is missing" in checked.stderr
    assert "setWebhook" not in [call["method"] for call in telegram.get("journal")]


def test_what_came_while_the_host_was_away_is_brought_later_or_polled(host, telegram, isolation):
    port = free_port()
    one = started(host, telegram, isolation, more=webhook_keys(port))
    telegram.says(7, "before")
    telegram.answers(7, 1)
    one.stop()
    telegram.says(7, "meanwhile")
    one.start(online=["telegram"])
    assert "meanwhile" in telegram.answers(7, 2)[1]
    one.stop()
    telegram.says(7, "without a webhook")
    one.config.write_text(one.config.read_text().replace(webhook_keys(port), ""))
    one.start(online=["telegram"])
    assert "without a webhook" in telegram.answers(7, 3)[2]
    assert telegram.from_bot(7)[3:] == []
    one.stop()
    telegram.verdict()


def test_with_drafts_an_answer_grows_unsent_in_a_private_chat_and_by_edits_elsewhere(host, telegram, isolation):
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    one = started(host, telegram, isolation, more="drafts = true", header=header)

    def calls(method, chat):
        return [call["params"] for call in telegram.get("journal") if call["method"] == method and call["params"].get("chat_id") == chat]

    words = "/slow 150 " + " ".join(f"w{n}" for n in range(30)) + " <end>"
    telegram.says(7, words)
    until("it grows", lambda: len(calls("sendMessageDraft", 7)) >= 2)
    until("the answer", lambda: any("<end>" in (m.get("text") or "") for m in telegram.from_bot(7)))
    drafts = calls("sendMessageDraft", 7)
    assert len({draft["draft_id"] for draft in drafts}) == 1, "changes of one draft are animated"
    assert [draft["text"] for draft in drafts] == sorted((draft["text"] for draft in drafts), key=len)
    assert len(telegram.from_bot(7)) == 1 and calls("editMessageText", 7) == []
    telegram.says(7, words)
    until("another draft", lambda: len({draft["draft_id"] for draft in calls("sendMessageDraft", 7)}) == 2)
    telegram.says(-100, words, **{"from": 8})
    until("the answer in the group", lambda: any("<end>" in (m.get("text") or "") for m in telegram.from_bot(-100)))
    assert calls("sendMessageDraft", -100) == [] and calls("editMessageText", -100)
    one.stop()
    telegram.verdict()


def test_where_the_server_takes_no_draft_the_answer_grows_by_edits(host, telegram, isolation):
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    one = started(host, telegram, isolation, more="drafts = true", header=header)
    telegram.fault("sendMessageDraft", "5xx", times=100)
    telegram.says(7, "/slow 150 " + " ".join(f"w{n}" for n in range(30)) + " <end>")
    until("the answer", lambda: any("<end>" in (m.get("text") or "") for m in telegram.from_bot(7)))
    assert len(telegram.from_bot(7)) == 1 and telegram.from_bot(7)[0]["edits"]
    one.stop()
    telegram.verdict()


def test_in_the_general_topic_typing_is_seen_and_answers_arrive(host, telegram, isolation):
    header = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
    one = started(host, telegram, isolation, header=header)

    def answered(chat):
        return len([m for m in telegram.from_bot(chat) if "<end>" in (m.get("text") or "")])

    for n, more in enumerate(({}, {"thread": 1})):
        telegram.says(-100, "/slow 300 one two three <end>", **{"from": 7}, **more)
        until("the answer", lambda: answered(-100) == n + 1)
    telegram.says(7, "/slow 300 one two three <end>")
    until("the answer in private", lambda: answered(7) == 1)
    one.stop()
    assert {message.get("message_thread_id") for message in telegram.from_bot(-100)} == {None}
    typed = [call["params"] for call in telegram.get("journal") if call["method"] == "sendChatAction"]
    assert {(call["chat_id"], call.get("message_thread_id")) for call in typed} == {(-100, 1), (7, None)}
    telegram.verdict()


def test_what_is_quoted_and_where_somebody_is_reach_the_agent(host, telegram, isolation):
    one = started(host, telegram, isolation)
    asked = telegram.says(7, "apples and pears")["message_id"]
    telegram.answers(7, 1)
    telegram.says(7, "these?", reply_to=asked, quote="pears")
    answer = telegram.answers(7, 2)[1]
    assert "these?" in answer and "pears" in answer and "apples" not in answer, answer
    telegram.sim("message", chat=7, location={"latitude": 52.5, "longitude": 13.25})
    assert "[location 52.50000, 13.25000]" in telegram.answers(7, 3)[2]
    one.stop()
    telegram.verdict()


def test_the_first_part_of_an_answer_quotes_the_message_or_all_do_or_none(host, telegram, isolation):
    one = host(HEADER + telegram_section(telegram, isolation, 'reply_mode = "first"'))
    section = one.config.read_text()
    for chat, mode in ((7, "first"), (8, "all"), (9, "off")):
        one.config.write_text(section.replace('reply_mode = "first"', f'reply_mode = "{mode}"'))
        one.start(online=["telegram"])
        asked = telegram.says(chat, "x " * 2500 + "end of it")["message_id"]
        until("the end arrives", lambda: "end of it" in "".join(message["text"] for message in telegram.from_bot(chat)))
        one.stop()
        parts = [message.get("reply_to_message", {}).get("message_id") for message in telegram.from_bot(chat)]
        others = len(parts) - 1
        assert others > 0, parts
        assert parts == {"first": [asked] + [None] * others, "all": [asked] * (others + 1), "off": [None] * (others + 1)}[mode]
    telegram.verdict()
