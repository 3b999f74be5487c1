"""The same conversation on Telegram with this host and with the Python gateway: same emulator, same model, same
people."""

import concurrent.futures
import os
import signal
import statistics
import time

import pytest

import beside
import differences
from beside import STEPS, Stage
from conftest import Host, emulator, telegram_section, until
from held_model import HeldModel
from python_gateway import PythonGateway

MESSAGES = 20
# Time until either gateway has completed a turn, in seconds.
BETWEEN_S = 0.4
CONFIG = """
[host]
status = ""

[agent]
runtime  = "openai"
base_url = "{model}/v1"
model    = "gpt-4o"
api_key  = {{ env = "OPENAI_API_KEY" }}
"""


class Ours(Host):
    """The host with the configuration of the script."""

    def start(self):
        return super().start(online=["telegram"])

    def ask_to_stop(self):
        self.stops = self.program.said().count("draining seconds=")
        self.program.process.send_signal(signal.SIGTERM)

    def drains(self):
        return self.program.said().count("draining seconds=") > self.stops


def ours(folder, telegram, model):
    section = telegram_section(telegram, "in-process", 'home_channel = "7"\nsession = { require_mention = true }')
    return Ours(folder, CONFIG.format(model=model) + section, {"OPENAI_API_KEY": "mock"})


def python(folder, telegram, model):
    # The Python gateway streams only if configured; this host streams by default.
    return PythonGateway(folder, telegram, model, "streaming: {enabled: true, transport: edit}\n")


def played(folder, make):
    """Returns the observations and the cost of one gateway."""
    folder.mkdir()
    picture = folder / "home/media/x.png"
    model = HeldModel(script=lambda messages: beside.answer(messages, picture), pace_s=beside.PACE_S)
    with emulator(folder) as telegram:
        telegram.sim("plain", chat=beside.GROUP)
        gateway = make(folder, telegram, model.base)
        picture.parent.mkdir(exist_ok=True)
        picture.write_bytes(bytes(beside.PICTURE))
        try:
            gateway.start()
            stage = Stage(gateway, telegram, model)
            seen, traces = beside.play(stage)
            return {"seen": seen, "traces": traces, "cost": cost(stage)}
        finally:
            model.stop()
            if gateway.program and gateway.program.process.poll() is None:
                gateway.stop()


# --- what it costs --------------------------------------------------------------------------------

def tree(pid):
    """Returns a process and all its descendants."""
    found = [pid]
    for task in os.listdir(f"/proc/{pid}/task"):
        for child in open(f"/proc/{pid}/task/{task}/children").read().split():
            found += tree(int(child))
    return found


def cpu_s(pid):
    """Returns the processor time of a process and its children, including ended ones, in seconds."""
    fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
    ended = sum(int(field) for field in fields[13:15])
    living = sum(int(field) for one in tree(pid) for field in open(f"/proc/{one}/stat").read().rpartition(")")[2].split()[11:13])
    return (ended + living) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid):
    lines = [line for one in tree(pid) for line in open(f"/proc/{one}/status") if line.startswith("VmRSS")]
    return sum(int(line.split()[1]) for line in lines) / 1024


def cost(stage):
    """Returns the cost of messages in a separate conversation, each answered before the next one, with a model that
    answers at once. Returns nothing if the gateway has ended."""
    if stage.gateway.program.process.poll() is not None:
        return {}
    pid, asked, took = stage.gateway.program.process.pid, len(stage.model.requests), []
    before = cpu_s(pid)
    for n in range(MESSAGES):
        began = time.monotonic()
        stage.says(f"at once <y{n % 10}>", chat=9)
        until("its answer", lambda: len(stage.telegram.from_bot(9)) > n)
        took.append(time.monotonic() - began)
        stage.quiet(BETWEEN_S)
    used = cpu_s(pid) - before
    calls = [call["method"].lower() for call in stage.telegram.get("journal")[stage.watch.calls:]]
    return {"CPU ms per message": 1000 * used / MESSAGES, "answer ms, median": 1000 * statistics.median(took), "memory MiB": memory_mib(pid),
            "requests to the model per message": (len(stage.model.requests) - asked) / MESSAGES,
            "calls of the Bot API per message": len([call for call in calls if call != "getupdates"]) / MESSAGES}


# --- the comparison -------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Runs both gateways at the same time, because both are idle most of the time."""
    folder = tmp_path_factory.mktemp("beside")
    with concurrent.futures.ThreadPoolExecutor() as at_once:
        running = {make.__name__: at_once.submit(played, folder / make.__name__, make) for make in (ours, python)}
    return {name: done.result() for name, done in running.items()}


@pytest.mark.parametrize("step", STEPS)
def test_what_people_see_is_the_same_or_a_difference_with_a_reason(both, step):
    here, there = both["ours"]["seen"][step], both["python"]["seen"][step]
    for look in here:
        why = "".join(f"\n=== {name}, in this step\n{side['traces'][step]}\n" for name, side in both.items())
        listed = [one for one in differences.DIFFERENCES if step in one.steps and one.look == look]
        told = f"{step}, {look}:\n--- here\n{here[look]}\n--- Python\n{there[look]}\n---\n{why}"
        if here[look] == there[look]:
            assert not listed, f"a listed difference has vanished: {told}"
        else:
            assert listed, f"a difference that differences.py does not list: {told}"
            assert listed[0].fits(here[look], there[look]), f"other than differences.py says: {told}"


def test_an_answer_that_is_lost_is_pythons_and_never_ours():
    lost = f"nothing within {beside.WAIT_S} s: <w1> in 7"
    answered, second = "We began at a1. Told of: nothing else. <w1>", "We began at a1. Told of: nothing else. <w2>"
    listed = next(one for one in differences.DIFFERENCES if one.steps == ("kill 9 before the answer is sent",))
    ours = f"to 7, on the question: (possibly repeated) {answered}\nto 7, on the second question: {second}"
    assert listed.fits(ours, f"to 7: {answered}\nto 7, on the second question: {second}")
    assert listed.fits(ours, f"to 7: {answered}\nto 7: {answered}\nto 7, on the second question: {second}")
    assert listed.fits(ours, f"to 7, on the second question: {second}\n{lost}")
    assert not listed.fits(ours, f"to 7, on the second question: {second}"), "that it was waited for is seen"
    assert not listed.fits(f"to 7, on the second question: {second}\n{lost}", f"to 7, on the second question: {second}\n{lost}")


def test_every_listed_difference_is_of_a_step_and_listed_once():
    listed = [(step, one.look) for one in differences.DIFFERENCES for step in one.steps]
    assert len(set(listed)) == len(listed)
    assert all(look in ("says", *STEPS[step][1]) for step, look in listed)


def test_the_readme_has_the_table_of_differences():
    assert differences.in_readme() == differences.table(), "run `python3 tests/e2e/differences.py --write`"


def test_what_a_message_costs_is_printed(both, capsys):
    with capsys.disabled():
        print(f"\n{'':40}{'here':>10}{'Python':>10}")
        for name, here in both["ours"]["cost"].items():
            print(f"{name:40}{here:10.1f}{both['python']['cost'][name]:10.1f}")
    assert both["ours"]["cost"].keys() == both["python"]["cost"].keys()
