"""Reactions on the answered message, on platforms whose adapters support them."""

from conftest import HEADER, telegram_section, until
from test_discord import GENERAL, discord  # noqa: F401 - a fixture
from test_discord import section as discord_section
from test_slack import MENTION, slack, slack_host  # noqa: F401 - fixtures
from test_slack import section as slack_section

WORDS = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)
SLOW = "/slow 700 one two the-end"


def test_a_message_in_telegram_shows_that_it_is_worked_on_and_how_that_ended(host, telegram, isolation):
    one = host(WORDS + telegram_section(telegram, isolation)).start(online=["telegram"])

    def shown(chat, message):
        return next(m["reactions"] for m in telegram.chat(chat) if m["message_id"] == message)

    asked = telegram.says(7, SLOW)["message_id"]
    until("it is done", lambda: shown(7, asked) == ["👀", "👍"])
    assert "the-end" in telegram.answers(7, 1)[0]
    failed = telegram.says(-100, "/slow 400 one /fail", thread=17, **{"from": 7})["message_id"]
    stopped = telegram.says(8, "/hang on")["message_id"]
    until("it is seen", lambda: shown(8, stopped) == ["👀"])
    telegram.says(8, "/stop")
    until("it is taken back", lambda: shown(8, stopped) == ["👀", ""])
    until("the one in the topic is done", lambda: len(shown(-100, failed)) == 2)
    telegram.fault("setMessageReaction", "hold", times=100)
    telegram.says(9, SLOW)
    until("the answer", lambda: any("the-end" in (m.get("text") or "") for m in telegram.from_bot(9)))
    telegram.sim("release", method="setMessageReaction")
    one.stop()
    telegram.verdict()


def test_the_operator_switches_reactions_off(host, telegram, isolation):
    one = host(WORDS + telegram_section(telegram, isolation), env={"TELEGRAM_REACTIONS": "false"}).start(online=["telegram"])
    telegram.says(7, SLOW)
    until("the answer", lambda: any("the-end" in (m.get("text") or "") for m in telegram.from_bot(7)))
    one.stop()
    assert "setMessageReaction" not in [call["method"] for call in telegram.get("journal")]


def test_a_message_in_discord_shows_it_also_where_its_answer_goes_to_a_thread_of_its_own(host, discord, isolation):
    one = host(WORDS + discord_section(discord, isolation)).start(online=["discord"])

    def shown(channel=None, dm=None):
        return next(m.get("_reacted", []) for m in discord.shown(channel, dm) if m["author"]["id"] == "7")

    discord.says(7, SLOW)
    until("it is done", lambda: shown(dm=7) == ["+👀", "-👀", "+✅"])
    discord.says(7, f"<@42> {SLOW}", channel=GENERAL)
    until("it is done", lambda: shown(channel=GENERAL) == ["+👀", "-👀", "+✅"])
    one.stop()
    discord.verdict()


def test_a_message_in_slack_shows_it_by_the_names_of_slack(host, slack, isolation):
    one = host(WORDS + slack_section(slack, isolation)).start(online=["slack"])
    ops = slack.channel()
    asked = slack.says(ops, f"{MENTION} {SLOW}")
    until("it is done", lambda: len(slack.calls("reactions.add")) == 2)
    found = until("it is shown", lambda: slack.call("reactions.get", "xoxb-hermes", channel=ops, timestamp=asked)["message"].get("reactions"))
    assert [reaction["name"] for reaction in found] == ["white_check_mark"]
    assert [call["call"]["name"] for call in slack.calls("reactions.remove")] == ["eyes"]
    slack.fault("reactions.add", "missing_scope", times=100)
    slack.says(slack.dm(), SLOW)
    slack.answer_with(slack.dm(), "the-end")
    one.stop()
    slack.verdict()
