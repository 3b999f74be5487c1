"""Black-box tests of the agent's tools: a call is executed, refused, or reported as impossible."""

import json
import urllib.error

import pytest

from conftest import free_port, request
from test_api_server import KEY, ask
from test_model import config, model, with_scripts  # noqa: F401 - a fixture


@pytest.fixture
def agent(host, model):  # noqa: F811 - the same
    base = f"http://127.0.0.1:{free_port()}"
    section = f"""
tools = ["terminal", "process"]

[adapter.api_server]
listen = "{base.removeprefix("http://")}"
key    = {{ env = "API_SERVER_KEY" }}
"""
    one = with_scripts(host(config(model) + section, {"OPENAI_API_KEY": "sk-test-hunter2", "API_SERVER_KEY": KEY})).start(online=["api_server"])
    yield one, base, model
    one.stop()


def results(model):  # noqa: F811 - an address here
    """Returns the results of the model's last calls."""
    journal = request("GET", f"{model}/__aimock/journal")
    last = (journal["entries"] if isinstance(journal, dict) else journal)[-1]
    return [message["content"] for message in last["body"]["messages"] if message["role"] == "tool"]


def test_a_command_runs_with_the_context_of_its_turn_and_without_secrets(agent):
    _, base, model = agent  # noqa: F811
    assert ask(base, "run it") == "It ran."
    assert json.loads(results(model)[0]) == {"exit_code": 0, "output": "api_server--end\n"}


def test_nothing_is_promised_for_later_over_a_request_that_ends_with_its_answer(agent):
    _, base, model = agent  # noqa: F811
    assert ask(base, "tell me later") == "It was started."
    told = json.loads(results(model)[0])
    assert told["notify_on_complete"] is False
    assert "poll" in told["notify_unsupported"]


def test_what_is_dangerous_is_not_done_where_nobody_can_be_asked(agent):
    one, base, model = agent  # noqa: F811
    precious = one.folder / "precious"
    precious.write_text("x")
    assert ask(base, "delete it") == "It was not deleted."
    assert "denied" in results(model)[0]
    assert precious.exists()


def test_a_model_that_calls_on_and_on_ends_with_one_honest_error(agent):
    _, base, model = agent  # noqa: F811
    with pytest.raises(urllib.error.HTTPError) as failed:
        ask(base, "weather")
    assert "the limit of tool calls" in failed.value.read().decode()
    assert all("unknown tool" in told for told in results(model))
    assert ask(base, "run it") == "It ran."
