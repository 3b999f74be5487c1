"""One conversation on Telegram, for any gateway, and its visible results.

`play` runs the script against a gateway and returns the observations for each step. Message ids, times and
identities are removed, so that two gateways can be compared.
"""

import base64
import html.parser
import json
import re
import time

from conftest import until

GROUP = -100
STRANGER = 555
QUIET_S = 1.2
# Time limit for expected events, in seconds. A missing event is recorded like one that arrives.
WAIT_S = 60
# Number of incomplete steps after which the script stops.
BROKEN_MAX = 2
# Number of log lines and calls that are reported for a step that differs.
LINES_TOLD, CALLS_TOLD = 25, 12
# Pause between the pieces of the model, in seconds. Long enough that both gateways have, or have not, shown a
# beginning.
PACE_S = 0.35

MARKDOWN = """# A heading

Some **bold**, *slanted*, ~~struck~~ and `code_with_underscores`, a [link](https://example.org/a_b), snake_case and 2 * 3 * 4.

- one
- two

1. first
2. second

> quoted

```rust
fn main() { println!("<&>"); }
```

| name | value |
|---|---|
| a | 1 |
"""
# One red pixel.
PICTURE = list(base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"))
LONG = "\n\n".join(f"Paragraph {n}. " + "It goes on and on. " * 12 for n in range(30))


# --- the model ------------------------------------------------------------------------------------

def words_of(content):
    """Returns the text of a message that may have parts."""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "<a picture>") for part in content)


def answer(messages, picture):
    """Returns the answer of the model, which depends only on its input. `picture` is the path of a picture that it
    sends."""
    said = words_of(messages[-1]["content"])
    asked = [word for message in messages if message["role"] == "user" for word in re.findall(r"<(\w\d)>", words_of(message["content"]))]
    end = f"<{asked[-1]}>" if re.search(r"<\w\d>", said) else "<no word>"
    if "show me markdown" in said:
        return in_two(f"{MARKDOWN}\n{end}")
    if "a long one" in said:
        text = f"{LONG}\n\n{end}"
        return [text[at:at + 120] for at in range(0, len(text), 120)]
    if "word by word" in said:
        return [f"word{n} and then " for n in range(16)] + [end]
    if "at once" in said:
        return f"Yes. {end}"
    if "say nothing" in said:
        return "[SILENT]"
    if "a picture for me" in said:
        return in_two(f"Here it is, as you wanted it: {end}\nMEDIA:{picture}")
    told = [word for word in ("apples", "pears", "a picture") if word in said]
    return in_two(f"We began at {asked[0] if asked else 'nothing'}. Told of: {', '.join(told) or 'nothing else'}. {end}")


def in_two(text):
    """Splits a text into two pieces, so that it does not depend on timing whether a beginning is shown before the
    end."""
    return [text[:-5], text[-5:]]


# --- what is seen ---------------------------------------------------------------------------------

HTML_NAMES = {"strong": "b", "em": "i", "ins": "u", "strike": "s", "del": "s"}
MARKS = {"*": "b", "_": "i", "__": "u", "~": "s", "||": "spoiler"}


class Marked(html.parser.HTMLParser):
    """A parser that converts Telegram HTML to text with uniform marks."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.text = []

    def handle_starttag(self, tag, attrs):
        more = "".join(f" {value}" for _, value in attrs if value)
        self.text.append(f"⟦{HTML_NAMES.get(tag, tag)}{more}:")

    def handle_endtag(self, tag):
        self.text.append("⟧")

    def handle_data(self, data):
        self.text.append(data)


def marked_html(raw):
    parser = Marked()
    parser.feed(raw)
    parser.close()
    # A block with a language is one mark.
    return re.sub(r"⟦pre:⟦code(?: language-(\w+))?:(.*?)⟧⟧", lambda m: f"⟦pre {m[1]}:{m[2]}⟧" if m[1] else f"⟦pre:{m[2]}⟧", "".join(parser.text), flags=re.S)


def marked_v2(raw):
    """Converts MarkdownV2 to text with the same marks."""
    out, at, opened, quote = [], 0, [], False
    while at < len(raw):
        if raw.startswith("```", at):
            end = raw.index("```", at + 3)
            language, _, code = raw[at + 3:end].partition("\n")
            out.append(f"⟦pre{' ' + language if language else ''}:{unescaped(code)}⟧")
            at = end + 3
            continue
        line_begins = at == 0 or raw[at - 1] == "\n"
        if line_begins and quote and raw[at] != ">":
            out[-1], quote = "⟧\n", False
        if line_begins and raw[at] == ">":
            out.append("" if quote else "⟦blockquote:")
            quote, at = True, at + 1
            continue
        link = re.compile(r"\[((?:\\.|[^\]\\])*)\]\(((?:\\.|[^)\\])*)\)").match(raw, at)
        if link:
            out.append(f"⟦a {unescaped(link[2])}:{marked_v2(link[1])}⟧")
            at = link.end()
            continue
        char = raw[at]
        if char == "\\":
            out.append(raw[at + 1])
            at += 2
        elif char == "`":
            end = re.compile(r"(?:\\.|[^`\\])*").match(raw, at + 1).end()
            out.append(f"⟦code:{unescaped(raw[at + 1:end])}⟧")
            at = end + 1
        elif char in "*_~|":
            mark = char * 2 if char in "_|" and raw.startswith(char * 2, at) else char
            if opened and opened[-1] == mark:
                opened.pop()
                out.append("⟧")
            else:
                opened.append(mark)
                out.append(f"⟦{MARKS[mark]}:")
            at += len(mark)
        else:
            out.append(char)
            at += 1
    return "".join(out) + ("⟧" if quote else "")


def unescaped(text):
    return re.sub(r"\\(.)", r"\1", text)


def shown_text(message):
    """Returns the text of a message with its marks, or its caption."""
    raw, mode = message.get("raw"), (message.get("mode") or "").lower()
    if raw is None:
        return message.get("caption", "")
    return {"html": marked_html, "markdownv2": marked_v2}.get(mode, str)(raw)


TAKEN_OUT = [
    (r"\d{8}_\d{6}_[0-9a-f]{6,8}|\b01[0-9A-HJKMNP-TV-Z]{24}\b", "ID"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?Z?( UTC)?", "TIME"),
    (r"http://127\.0\.0\.1:\d+", "http://ADDRESS"),
]


def without_chance(text):
    for pattern, name in TAKEN_OUT:
        text = re.sub(pattern, name, text)
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


class Watch:
    """A recorder of the visible messages of one gateway, step by step."""

    def __init__(self, telegram):
        self.telegram, self.seen, self.calls, self.labels = telegram, {}, 0, {}

    def label(self, message_id, name):
        self.labels[message_id] = name

    def sends(self):
        """Returns the sends to the main person of the script. Sends to other chats may belong to the previous step."""
        calls = self.telegram.get("journal")
        return len([call for call in calls if call["method"].lower() == "sendmessage" and str(call["params"].get("chat_id")) == "7"])

    def step(self, name, looks, chats):
        """Returns the new messages since the last step, and the observations named in `looks`."""
        lines, sounds, grows, counted = [], set(), False, 0
        for chat in chats:
            for message in self.telegram.from_bot(chat):
                text = without_chance(shown_text(message))
                if self.seen.get(message["message_id"]) == text:
                    continue
                self.seen[message["message_id"]] = text
                counted += 1
                sounds.add("silent" if message["silent"] else "sounds")
                grows = grows or len(message["edits"]) > 1
                lines.append(line(chat, message, text, self.labels))
                self.label(message["message_id"], f"answer {counted} of {name}")
        calls = self.telegram.get("journal")[self.calls:]
        self.calls += len(calls)
        texts = [str(call["params"].get("text", "")) for call in calls]
        methods = {call["method"].lower() for call in calls}
        seen = {True: "is seen", False: "is not seen"}
        view = {"sound": " and ".join(sorted(sounds)), "grows": "by edits" if grows else "is there at once",
                "cursor": seen[any("▉" in text for text in texts)], "typing": seen["sendchataction" in methods],
                "menu": " ".join(menu(calls))}
        return {"says": "\n".join(lines), **{what: view[what] for what in looks}}


def line(chat, message, text, labels):
    """Formats one message of the bot with its chat, quote and attachments."""
    kind = next((f"a {kind}: " for kind in ("photo", "document", "voice", "video") if kind in message), "")
    quoted = (message.get("reply_to_message") or {}).get("message_id")
    place = "in the group" if chat < 0 else f"to {chat}"
    about = f", on {labels.get(quoted, 'another message')}" if quoted else ""
    buttons = [button["text"] for row in (message.get("reply_markup") or {}).get("inline_keyboard", []) for button in row]
    return f"{place}{about}: {kind}{text}{' ' + str(buttons) if buttons else ''}"


def menu(calls):
    """Returns the names in the last menu."""
    found = [call["params"]["commands"] for call in calls if call["method"].lower() == "setmycommands"]
    commands = (json.loads(found[-1]) if isinstance(found[-1], str) else found[-1]) if found else []
    return sorted(command["command"] for command in commands)


class Stage:
    """The people of the script and their gateway."""

    def __init__(self, gateway, telegram, model):
        self.gateway, self.telegram, self.model = gateway, telegram, model
        self.watch, self.missed = Watch(telegram), []

    def says(self, text, chat=7, name="the question", **more):
        if chat < 0 and "@hermes_bot" in text:
            more["entities"] = [{"type": "mention", "offset": text.index("@hermes_bot"), "length": 11}]
        if text.startswith("/"):
            more["entities"] = [{"type": "bot_command", "offset": 0, "length": len(text.split()[0])}]
        said = self.telegram.says(chat, text, **more)
        self.watch.label(said["message_id"], name)
        return said["message_id"]

    def comes(self, what, check):
        """Waits for an event. Records its absence, and the script continues."""
        try:
            until(what, check, WAIT_S)
        except AssertionError:
            self.missed.append(f"nothing within {WAIT_S} s: {what}")

    def sees(self, words, chat=7):
        self.comes(f"{words} in {chat}", lambda: any(words in (m.get("text") or m.get("caption") or "") for m in self.telegram.from_bot(chat)))

    def next_answer(self, words=""):
        """Waits for a new message of the bot that contains these words."""
        def new():
            return [m for m in self.telegram.from_bot(7) if m["message_id"] not in self.watch.seen and words in (m.get("text") or "")]

        self.comes(f"another answer with {words!r} in 7", new)

    def logged(self):
        """Returns the length of the gateway's log."""
        return len(self.gateway.program.said())

    def trace(self, logged, called):
        """Returns the last log lines and the last calls of a step that began at these positions."""
        lines = self.gateway.program.said()[logged:].splitlines()[-LINES_TOLD:]
        calls = [call for call in self.telegram.get("journal")[called:] if call["method"].lower() != "getupdates"][-CALLS_TOLD:]
        told = [f"{call['method']} {json.dumps(call['params'])[:200]} {call.get('fault') or ''} {call.get('refused') or ''}" for call in calls]
        return "\n".join(["its log:", *lines, "its calls:", *told])

    def holds(self, word):
        """Makes the model hold back its answer to messages that end with this word."""
        self.model.hold(lambda messages: re.findall(r"<(\w\d)>", words_of(messages[-1]["content"]))[-1:] == [word])

    def agrees(self):
        """Presses the first button of the last answer, if it has buttons."""
        last = self.telegram.from_bot(7)[-1]
        for row in (last.get("reply_markup") or {}).get("inline_keyboard", [])[:1]:
            self.telegram.sim("press", chat=7, message_id=last["message_id"], data=row[0]["callback_data"])

    def asked(self, words):
        until(f"the model is asked of {words!r}", lambda: any(words in words_of(m[-1]["content"]) for m in list(self.model.requests)))

    def quiet(self, for_s=QUIET_S):
        """Waits until nothing was sent or edited for some time, so that all messages are visible."""
        last = [time.monotonic(), None]

        def still():
            now = [call for call in self.telegram.get("journal") if call["method"].lower() not in ("getupdates", "sendchataction")]
            if len(now) != last[1]:
                last[:] = time.monotonic(), len(now)
            return time.monotonic() - last[0] > for_s

        until("the chats are quiet", still)


# --- the script -----------------------------------------------------------------------------------

STEPS = {}


def step(*looks):
    """Decorates a step of the script, named after its function. `looks` are compared in addition to the messages."""
    def keep(function):
        STEPS[function.__name__.replace("_", " ")] = (function, looks)
        return function

    return keep


@step("sound", "menu")
def a_first_message(stage):
    stage.says("hello there <a1>")
    stage.sees("<a1>")


@step()
def an_answer_in_markdown(stage):
    stage.says("show me markdown <b1>")
    stage.sees("<b1>")


@step()
def a_third_turn_that_knows_of_the_others(stage):
    stage.says("and now? <c1>")
    stage.sees("<c1>")


@step()
def a_reply_to_something_said_before(stage):
    apples = stage.says("keep in mind: apples and pears <d1>")
    stage.sees("<d1>")
    stage.quiet()
    stage.says("what of these? <d2>", name="the second question", reply_to=apples, quote="pears")
    stage.sees("<d2>")


@step()
def a_picture_with_words(stage):
    stage.watch.label(stage.telegram.sim("message", chat=7, photo=PICTURE, file_name="boat.png", caption="what is on it? <e1>")["message_id"], "the question")
    stage.sees("<e1>")


@step("sound", "grows", "cursor")
def an_answer_that_grows(stage):
    stage.says("word by word <f1>")
    stage.sees("<f1>")


@step("grows")
def an_answer_longer_than_a_message(stage):
    stage.says("a long one <g1>")
    stage.sees("<g1>")


@step()
def a_picture_from_the_agent(stage):
    stage.says("a picture for me <g2>")
    stage.sees("<g2>")


@step()
def an_answer_of_silence(stage):
    stage.says("say nothing")
    stage.asked("say nothing")
    stage.quiet()
    stage.says("now say something <h1>", name="the second question")
    stage.sees("<h1>")


@step()
def help(stage):
    stage.says("/help")
    stage.next_answer()


@step()
def status(stage):
    stage.says("/status")
    stage.next_answer()


@step()
def an_unknown_command(stage):
    stage.says("/nonsense")
    stage.next_answer()


@step()
def stop_when_nothing_runs(stage):
    stage.says("/stop")
    stage.next_answer()


@step("typing")
def stop_while_it_thinks(stage):
    stage.holds("i1")
    stage.says("think about it <i1>")
    stage.asked("<i1>")
    stage.says("/stop", name="the command")
    stage.next_answer("top")
    stage.model.leave()
    stage.quiet()
    stage.says("go on <i2>", name="the second question")
    stage.sees("<i2>")


@step()
def status_while_it_thinks(stage):
    stage.holds("j1")
    stage.says("think again <j1>")
    stage.asked("<j1>")
    stage.says("/status", name="the command")
    stage.next_answer()
    stage.model.release()
    stage.sees("<j1>")


@step("typing")
def a_message_while_it_thinks(stage):
    stage.holds("k1")
    stage.says("a slow one <k1>")
    stage.asked("<k1>")
    stage.says("no, rather this <k2>", name="the second question")
    stage.next_answer()
    stage.sees("<k2>")
    stage.model.leave()


@step()
def a_stranger(stage):
    stage.says("let me in", chat=STRANGER)
    stage.says("and me? <l1>", name="the second question")
    stage.sees("<l1>")


@step()
def a_group_in_which_nobody_is_meant(stage):
    stage.says("just among us", chat=GROUP, **{"from": 7})
    stage.says("@hermes_bot do you hear me? <m1>", chat=GROUP, name="the mention", **{"from": 7})
    stage.sees("<m1>", GROUP)


@step()
def somebody_else_in_the_group(stage):
    stage.says("@hermes_bot and me? <n1>", chat=GROUP, name="the mention", **{"from": 8})
    stage.sees("<n1>", GROUP)


@step()
def a_reply_to_the_bot_in_the_group(stage):
    mine = stage.telegram.from_bot(GROUP)[-1]["message_id"]
    stage.says("how so? <o1>", chat=GROUP, name="the reply", reply_to=mine, **{"from": 7})
    stage.sees("<o1>", GROUP)


@step()
def a_command_for_another_bot(stage):
    stage.says("/status@another_bot", chat=GROUP, **{"from": 7})
    stage.says("@hermes_bot still there? <p1>", chat=GROUP, name="the mention", **{"from": 7})
    stage.sees("<p1>", GROUP)


@step()
def a_restart_between_two_turns(stage):
    stage.gateway.stop()
    stage.gateway.start()
    stage.says("what did I say? <q1>")
    stage.sees("<q1>")


@step()
def a_message_while_the_gateway_is_down(stage):
    stage.gateway.stop()
    stage.says("is anybody there? <r1>")
    stage.gateway.start()
    stage.quiet()
    stage.says("and now? <r2>", name="the second question")
    stage.sees("<r2>")


@step()
def a_restart_while_it_thinks(stage):
    stage.holds("s1")
    stage.says("a slow one <s1>")
    stage.asked("<s1>")
    stage.gateway.ask_to_stop()
    until("it waits or has ended", lambda: stage.gateway.program.process.poll() is not None or stage.gateway.drains())
    stage.model.release()
    stage.gateway.stop()
    stage.gateway.start()
    stage.sees("<s1>")
    stage.quiet()
    stage.says("and then? <s2>", name="the second question")
    stage.sees("<s2>")


@step()
def kill_9_while_it_thinks(stage):
    stage.holds("t1")
    stage.says("a slow one <t1>")
    stage.asked("<t1>")
    stage.gateway.kill()
    stage.model.leave()
    stage.gateway.start()
    stage.sees("<t1>")
    stage.quiet()
    stage.says("and then? <t2>", name="the second question")
    stage.sees("<t2>")


@step()
def kill_9_before_the_answer_is_sent(stage):
    before = stage.watch.sends()
    stage.telegram.fault("sendMessage", "hold")
    stage.says("a quick one <w1>")
    until("the answer is about to be sent", lambda: stage.watch.sends() > before)
    stage.gateway.kill()
    stage.telegram.sim("release", method="sendMessage", dropped=True)
    stage.gateway.start()
    stage.sees("<w1>")
    stage.quiet()
    stage.says("and then? <w2>", name="the second question")
    stage.sees("<w2>")


@step()
def kill_9_before_it_is_known_that_the_answer_was_sent(stage):
    before = stage.watch.sends()
    stage.telegram.fault("sendMessage", "hold_after")
    stage.says("a quick one <u1>")
    until("the answer has been sent", lambda: stage.watch.sends() > before)
    stage.gateway.kill()
    stage.telegram.sim("release", method="sendMessage")
    stage.gateway.start()
    stage.sees("<u1>")
    stage.quiet()
    stage.says("and then? <u2>", name="the second question")
    stage.sees("<u2>")


@step()
def new(stage):
    stage.says("/new")
    stage.next_answer()
    stage.agrees()
    stage.quiet()
    stage.says("who am I? <v1>", name="the second question")
    stage.sees("<v1>")


def play(stage):
    """Returns the observations of each step, and details that help to explain them."""
    views, traces, broken = {}, {}, []
    for name, (function, looks) in STEPS.items():
        logged, called = stage.logged(), stage.watch.calls
        if len(broken) == BROKEN_MAX or stage.gateway.program.process.poll() is not None:
            views[name] = dict.fromkeys(("says", *looks), f"not played: the gateway has ended or these steps did not: {broken}")
            traces[name] = stage.trace(0, 0)
            continue
        stage.missed = []
        try:
            function(stage)
            stage.quiet()
        except (AssertionError, OSError, LookupError) as error:
            broken.append(name)
            stage.missed.append(f"the step did not end: {error}")
            stage.model.leave()
        views[name] = stage.watch.step(name, looks, (7, GROUP, STRANGER))
        views[name]["says"] = "\n".join([views[name]["says"], *stage.missed])
        traces[name] = stage.trace(logged, called)
    return views, traces
