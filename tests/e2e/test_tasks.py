"""Black-box tests of tasks: created in a thread, ended in another place, reported once where they were created, also
across a crash of the host."""

import json
import pathlib
import signal

import pytest

from chat_server import Chat, ChatServer
from conftest import telegram_section, until

DO = "do "
GROUP, THREAD = -100, 17


class Worker(ChatServer):
    """A model that calls `task`, or another named tool, with the text after `do`, and otherwise repeats its input."""

    def __init__(self):
        self.requests = []
        outer = self

        class Handler(Chat):
            def do_POST(self):
                outer.requests.append(self.asked()["messages"])
                last = outer.requests[-1][-1]
                said = last["content"] if isinstance(last["content"], str) else json.dumps(last["content"])
                if last["role"] == "tool":
                    self.stream([{"content": f"done {said}"}])
                elif DO in said and "[System: " not in said:
                    arguments = json.loads(said.split(DO, 1)[1])
                    call = {"name": arguments.pop("tool", "task"), "arguments": json.dumps(arguments)}
                    call = {"index": 0, "id": f"call_{len(outer.requests)}", "type": "function", "function": call}
                    self.stream([{"content": None, "tool_calls": [call]}], "tool_calls")
                else:
                    self.stream([{"content": f"heard <{said.splitlines()[-1]}>"}])

        self.serve(Handler)

    def woken(self):
        """Returns the messages of the host itself, one per wake of a conversation."""
        last = [messages[-1]["content"] for messages in self.requests if messages[-1]["role"] == "user"]
        return [said for said in last if "[System: " in said]


@pytest.fixture
def worker():
    model = Worker()
    yield model
    model.stop()


@pytest.fixture
def place(host, telegram, worker, isolation):
    section = telegram_section(telegram, isolation, "session = { merge_ms = 0, require_mention = false, stream = \"off\" }")
    agent = f"""
[host]
status = ""

[agent]
runtime  = "openai"
base_url = "{worker.base}/v1"
model    = "m"
api_key  = {{ env = "OPENAI_API_KEY" }}
tools    = ["task", "terminal", "delegate_task"]
"""
    return host(agent + section, {"OPENAI_API_KEY": "sk-test"}).start(online=["telegram"])


def told(telegram, chat):
    return [(message.get("message_thread_id"), message["text"]) for message in telegram.from_bot(chat)]


def acts(telegram, chat, count, **wish):
    """Lets the agent of a chat act on a task and waits until the chat has `count` messages."""
    thread = {"thread": THREAD} if chat == GROUP else {}
    telegram.says(chat, DO + json.dumps(wish), **thread, **{"from": 7})
    telegram.answers(chat, count)


def task_of(place, *arguments):
    return json.loads(place.cli("task", "list", "--all", "--json", *arguments).stdout)


def test_what_is_made_in_a_thread_and_ended_in_another_chat_is_told_once_where_it_was_made(place, telegram, worker):
    acts(telegram, GROUP, 1, action="create", title="Mend the roof", text="before it rains")
    (task,) = task_of(place)
    assert (task["title"], task["state"], task["owner"]) == ("Mend the roof", "ready", "operator")
    place.kill()
    place.start(online=["telegram"])
    acts(telegram, 7, 1, action="complete", task=task["id"], text="tight again")
    until("the thread is told and the agent woken there", lambda: len(told(telegram, GROUP)) == 3)
    place.kill()
    place.start(online=["telegram"])
    acts(telegram, 7, 2, action="list")
    there = told(telegram, GROUP)
    assert {thread for thread, _ in there} == {THREAD} and len(there) == 3, there
    news = [text for _, text in there if "is completed" in text]
    assert len(news) == 1 and task["id"] in news[0] and "tight again" in news[0], there
    assert sum("heard <tight again>" in text for _, text in there) == 1, there
    assert len(worker.woken()) == 1 and task["id"] in worker.woken()[0]
    shown = json.loads(place.cli("task", "show", task["id"][:4], "--json").stdout)
    assert (shown["task"]["state"], shown["task"]["said"]) == ("completed", "tight again")
    assert [event["event"] for event in shown["events"]] == ["created", "completed"]
    assert len(told(telegram, 7)) == 2, "whoever ended it is not told"
    telegram.verdict()


def test_a_claim_that_the_host_took_with_it_has_crashed_and_is_given_up_by_the_operator(place, telegram, worker):
    acts(telegram, 7, 1, action="create", title="Count the stars")
    (task,) = task_of(place)
    acts(telegram, 7, 2, action="claim", task=task["id"])
    place.kill()
    listed = place.cli("task", "list").stdout
    assert task["id"] in listed and "Count the stars" in listed, "without a host it is read all the same"
    place.start(online=["telegram"])
    until("the crash is told and the agent woken", lambda: len(told(telegram, 7)) == 4)
    assert sum("crashed: the host ended while it ran" in text and "Task" in text for _, text in told(telegram, 7)) == 1
    assert place.cli("task", "show", task["id"]).stdout.startswith(f"{task['id']}  Count the stars\ntask, crashed, tried 1 time\n")
    telegram.says(7, "/agents", **{"from": 7})
    assert f"{task['id']} Count the stars" in telegram.answers(7, 5)[4]
    assert "Cancelled task" in place.cli("task", "cancel", task["id"], "--why", "cloudy").stdout
    until("that is told", lambda: any("was given up" in text and "cloudy" in text for _, text in told(telegram, 7)))
    missing = place.cli("task", "cancel", "tnone", check=False)
    assert missing.returncode == 1 and "there is no task" in missing.stderr
    again = place.cli("task", "cancel", task["id"], check=False)
    assert again.returncode == 1 and "stays given up" in again.stderr


def test_the_host_does_a_task_by_itself_and_tells_its_result(place, telegram, worker):
    acts(telegram, GROUP, 1, action="create", title="Look", text="what the weather is", run=True)
    until("its result is told and the agent woken", lambda: len(told(telegram, GROUP)) == 3)
    (task,) = task_of(place)
    assert (task["kind"], task["state"], task["said"]) == ("run", "completed", "heard <what the weather is>")
    there = told(telegram, GROUP)
    assert sum("is completed" in text and "heard <what the weather is>" in text for _, text in there) == 1, there
    assert place.stop(signal.SIGTERM) == 0
    telegram.verdict()


@pytest.mark.parametrize("road", ["task cancel", "/agents stop"])
def test_a_helper_that_is_stopped_ends_with_what_it_runs_and_is_not_said_to_be_done(place, telegram, worker, road):
    (place.folder / "wait.sh").write_text("echo $$ >pid; while [ ! -e gate ]; do sleep 0.1; done; touch made\n")
    goal = DO + json.dumps({"tool": "terminal", "command": "sh wait.sh"})
    acts(telegram, 7, 1, tool="delegate_task", goal=goal, background=True)
    until("its command runs", lambda: (place.folder / "pid").exists() and (place.folder / "pid").read_text().strip())
    pid = (place.folder / "pid").read_text().strip()
    (task,) = task_of(place)
    assert (task["kind"], task["state"]) == ("delegate", "running")
    answer = telegram.answers(7, 1)[0]
    assert task["id"] in answer, "the agent knows it by the same name"
    if road == "task cancel":
        assert "Cancelled task" in place.cli("task", "cancel", task["id"], "--why", "too loud").stdout
    else:
        telegram.says(7, f"/agents stop {task['id'][:4]}", **{"from": 7})
    until("its command has ended", lambda: not pathlib.Path(f"/proc/{pid}").exists())
    (place.folder / "gate").touch()
    (task,) = task_of(place)
    assert task["state"] == "gave_up"
    if road == "task cancel":
        until("the agent is woken with that", lambda: len(told(telegram, 7)) == 2)
        (woken,) = worker.woken()
        assert "was not completed: too loud" in woken and "is done" not in woken
    else:
        assert telegram.answers(7, 2)[1].startswith(f"Given up: {task['id']}")
    place.kill()
    place.start(online=["telegram"])
    acts(telegram, 7, 3, action="list")
    assert not (place.folder / "made").exists()
    assert len(worker.woken()) == (1 if road == "task cancel" else 0), "and never again"


def test_the_operator_sees_a_command_in_the_background_and_ends_it(place, telegram, worker):
    (place.folder / "wait.sh").write_text("echo $$ >pid; while [ ! -e gate ]; do sleep 0.1; done\n")
    acts(telegram, 7, 1, tool="terminal", command="sh wait.sh", background=True)
    until("it runs", lambda: (place.folder / "pid").exists() and (place.folder / "pid").read_text().strip())
    pid = (place.folder / "pid").read_text().strip()
    (command,) = task_of(place)
    assert (command["kind"], command["state"], command["chat"]) == ("command", "running", "agent:main:telegram:dm:7")
    assert command["title"] == "sh wait.sh"
    assert command["id"] in place.cli("task", "list").stdout
    telegram.says(7, "/stop", **{"from": 7})
    assert "In the background: 1 command." in telegram.answers(7, 2)[1]
    assert "Stopped command" in place.cli("task", "cancel", command["id"]).stdout
    until("it has ended", lambda: not pathlib.Path(f"/proc/{pid}").exists())
    until("nobody lists it", lambda: task_of(place) == [])
