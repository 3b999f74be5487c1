"""Black-box tests of background commands and helpers that outlive a turn and wake it, across a crash of the host."""

import os

import pytest

from conftest import free_port, request, telegram_section, until
from test_api_server import KEY, ask
from test_model import config, model, with_scripts  # noqa: F401 - a fixture

FROM_THE_HOST = "[System: a background job you started"


def settings(model):  # noqa: F811 - an address here
    return config(model) + 'tools = ["terminal", "process", "delegate_task"]\n'


@pytest.fixture
def agent(host, telegram, model, tmp_path):  # noqa: F811 - the same
    """Returns a host on Telegram with separate credential locks."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    env = {"OPENAI_API_KEY": "sk-test-hunter2", "XDG_RUNTIME_DIR": str(runtime)}
    yield with_scripts(host(settings(model) + telegram_section(telegram, "process"), env)).start(online=["telegram"])


def wakes(model):  # noqa: F811 - an address here
    """Returns the messages of the host to the model, each once, regardless of repetitions."""
    journal = request("GET", f"{model}/__aimock/journal")
    entries = journal["entries"] if isinstance(journal, dict) else journal
    lasts = [[message for message in entry["body"]["messages"] if message["role"] == "user"][-1]["content"] for entry in entries]
    return [last for last in lasts if last.startswith(FROM_THE_HOST)]


def opens(one):
    (one.folder / "gate").touch()


def is_over(one):
    until("it has ended", lambda: list((one.home / "processes").glob("*.exit")))


def is_told_once(one, telegram, model, answers):  # noqa: F811 - an address here
    """Checks that the chat has these answers, and no more after another run of the host and another turn."""
    assert telegram.answers(7, len(answers)) == answers
    one.kill()
    one.start(online=["telegram"])
    telegram.says(7, "hello")
    assert telegram.answers(7, len(answers) + 1)[:-1] == answers
    assert len(wakes(model)) == 1
    one.stop()
    telegram.verdict()


@pytest.mark.parametrize("when", ["in between", "afterwards"])
def test_a_command_outlives_a_killed_host_and_wakes_its_chat_once(agent, telegram, model, when):  # noqa: F811
    telegram.says(7, "wait for the gate")
    assert telegram.answers(7, 1) == ["It waits."]
    agent.kill()
    if when == "in between":
        opens(agent)
        is_over(agent)
    agent.start(online=["telegram"])
    if when == "afterwards":
        opens(agent)
    telegram.answers(7, 2)
    told = wakes(model)[0]
    assert "exit code 3" in told and "\nthe gate is open" in told
    is_told_once(agent, telegram, model, ["It waits.", "I was told."])


def test_several_that_end_at_once_are_told_in_one_turn(agent, telegram, model):  # noqa: F811
    telegram.says(7, "wait in threes")
    assert telegram.answers(7, 1) == ["Three wait."]
    opens(agent)
    telegram.answers(7, 2)
    assert all(f"{word} in" in wakes(model)[0] for word in ("first", "second", "third"))
    is_told_once(agent, telegram, model, ["Three wait.", "I was told."])


def test_a_helper_beside_the_turn_wakes_its_chat_with_its_answer(agent, telegram, model):  # noqa: F811
    telegram.says(7, "hand it on")
    assert telegram.answers(7, 1) == ["It is handed on."]
    opens(agent)
    telegram.answers(7, 2)
    assert "The helper saw it open." in wakes(model)[0]
    is_told_once(agent, telegram, model, ["It is handed on.", "I was told."])


def test_a_helper_that_a_killed_host_took_along_is_told_as_unknown_and_not_run_again(agent, telegram, model):  # noqa: F811
    telegram.says(7, "hand it on")
    assert telegram.answers(7, 1) == ["It is handed on."]
    until("it works", (agent.folder / "sits").exists)
    (agent.folder / "sits").unlink()
    agent.kill()
    agent.start(online=["telegram"])
    telegram.answers(7, 2)
    assert "interrupted, outcome unknown" in wakes(model)[0]
    is_told_once(agent, telegram, model, ["It is handed on.", "I was told."])
    assert not (agent.folder / "sits").exists()


def test_a_command_that_is_waited_for_dies_with_its_host(agent, telegram):
    telegram.says(7, "work in front")
    until("it runs", (agent.folder / "sits").exists)
    agent.kill()

    def runs():
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    arguments = line.read()
                if b"sleep\x00987" in arguments and os.readlink(f"/proc/{pid}/cwd") == str(agent.folder):
                    found.append(pid)
            except OSError:
                pass
        return found

    until("nothing of it is left", lambda: not runs())
    agent.start(online=["telegram"])
    assert telegram.answers(7, 1) == ["It was cut off."]
    agent.stop()


def test_over_a_request_nothing_is_promised_and_nothing_arrives(host, model):  # noqa: F811
    base = f"http://127.0.0.1:{free_port()}"
    section = f"""
[adapter.api_server]
listen = "{base.removeprefix("http://")}"
key    = {{ env = "API_SERVER_KEY" }}
"""
    one = with_scripts(host(settings(model) + section, {"OPENAI_API_KEY": "sk-test", "API_SERVER_KEY": KEY})).start(online=["api_server"])
    assert ask(base, "wait for the gate") == "It waits."
    journal = request("GET", f"{model}/__aimock/journal")
    last = (journal["entries"] if isinstance(journal, dict) else journal)[-1]["body"]["messages"][-1]
    assert last["role"] == "tool" and "notify_unsupported" in last["content"]
    opens(one)
    is_over(one)
    one.kill()
    one.start(online=["api_server"])
    assert ask(base, "hello").startswith("Hello")
    assert wakes(model) == []
    one.stop()
