"""The `openai` runtime, tested with an independent mock of that API."""

import os
import pathlib
import urllib.error

import pytest

from conftest import HERE, Program, free_port, request, telegram_section, until


@pytest.fixture
def model(tmp_path):
    port = free_port()
    command = ["node", pathlib.Path(os.environ["AIMOCK"]) / "node_modules/.bin/llmock", "-p", str(port), "-f", HERE / "model.json", "--latency", "5"]
    program = Program(command, tmp_path / "model.log")
    base = f"http://127.0.0.1:{port}"

    def answers():
        assert program.process.poll() is None, program.said()
        try:
            request("GET", f"{base}/__aimock/journal", timeout=2)
            return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False

    until("the model mock answers", answers)
    yield base
    program.stop()


def config(model):
    return f"""
[host]
status = ""

[agent]
runtime  = "openai"
base_url = "{model}/v1"
model    = "gpt-4o"
api_key  = {{ env = "OPENAI_API_KEY" }}
"""


# Command that `model.json` lets the agent run: a program of the working folder needs no approval.
SCRIPTS = {
    "context.sh": "echo $HERMES_SESSION_PLATFORM-$OPENAI_API_KEY-end\n",
    "gate.sh": 'until [ -e gate ]; do sleep 0.05; done; echo "$1"; exit "${2:-0}"\n',
    "where.sh": "echo $HERMES_SESSION_PLATFORM $HERMES_SESSION_KEY\n",
}


def with_scripts(one):
    for name, text in SCRIPTS.items():
        (one.folder / name).write_text(text)
    return one


def test_a_real_model_interface_answers_on_telegram(host, telegram, model, isolation):
    one = host(config(model) + telegram_section(telegram, isolation), {"OPENAI_API_KEY": "sk-test"}).start(online=["telegram"])
    telegram.says(7, "hello")
    assert telegram.answers(7, 1)[0] == "Hello from the model, with bold and code."
    telegram.says(7, "something else")
    telegram.answers(7, 2)
    requests = request("GET", f"{model}/__aimock/journal")
    last = (requests["entries"] if isinstance(requests, dict) else requests)[-1]
    roles = [message["role"] for message in last["body"]["messages"] if message["role"] != "system"]
    assert roles == ["user", "assistant", "user"], "the whole conversation is replayed"
    one.stop()
    telegram.verdict()


@pytest.mark.parametrize("word", ["limited", "broken", "refuse", "weather"])
def test_a_failing_model_gives_one_honest_sentence_and_the_session_goes_on(host, telegram, model, word):
    one = host(config(model) + telegram_section(telegram, "in-process"), {"OPENAI_API_KEY": "sk-test"}).start(online=["telegram"])
    telegram.says(7, word)
    failed = telegram.answers(7, 1, timeout=60)[0]
    assert failed and "sk-test" not in failed and "Traceback" not in failed
    telegram.says(7, "hello")
    answers = telegram.answers(7, 2)
    assert answers[1].startswith("Hello from the model")
    one.stop()
    assert len(telegram.from_bot(7)) == 2


def test_a_model_that_is_not_there_is_said_so(host, telegram):
    gone = f"http://127.0.0.1:{free_port()}"
    one = host(config(gone) + telegram_section(telegram, "in-process"), {"OPENAI_API_KEY": "sk-test"}).start(online=["telegram"])
    telegram.says(7, "hello")
    assert telegram.answers(7, 1, timeout=60)[0]
    one.stop()
