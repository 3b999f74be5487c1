"""The visible differences from the Python gateway and their reasons. `test_beside_python.py` checks both gateways
against this table, which is part of README.md.

    python3 tests/e2e/differences.py --write    updates README.md
"""

import dataclasses
import pathlib
import re
import sys

README = pathlib.Path(__file__).parent / "README.md"
BEGIN, END = "<!-- differences.py -->\n", "<!-- end -->\n"


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference: patterns that match a complete observation in certain steps, and a description in words."""
    steps: tuple
    look: str
    ours: str
    python: str
    here: str
    there: str
    why: str

    def fits(self, ours, python):
        return all(re.fullmatch(pattern, seen, re.S) for pattern, seen in ((self.ours, ours), (self.python, python)))


def says(steps, ours, python, here, there, why):
    return Difference((steps,) if isinstance(steps, str) else steps, "says", ours, python, here, there, why)


FROM_A1 = r"We began at a1\. Told of: nothing else\."
STOPS = r"to 7: ⚠️ Gateway shutting down — Your current task will be interrupted\.\n"
# The Python gateway resumes every recent conversation after a crash, with or without a running turn. If an edit took
# too long, the preview stays and the answer is sent again below it.
UNASKED = r"(\nin the group: We began at (n1|m1)\. Told of: nothing else\. <no\s+(word>|▉))*"
HALF = r"(to 7: " + FROM_A1 + r" ▉\n)?"


def resumed(word, second, before=""):
    """Returns the patterns of a turn that is resumed after a start. The gateway sends nothing before its first poll
    has ended, which takes ten seconds without messages; the answer is tried three times within six to eight
    seconds and then lost. The result depends on the start time and on the random waits. A message ends the poll,
    so the next answer arrives. On a busy machine the answer was also seen twice.
    """
    answered = "(to 7: " + FROM_A1 + f" <{word}>\n){{1,2}}"
    next_one = r"to 7, on the second question: " + FROM_A1 + f" <{second}>" + UNASKED
    lost = f"\nnothing within 60 s: <{word}> in 7"
    return f"{before}{HALF}({answered}{next_one}|{next_one}{lost})"


OR_LOST = ", or where the start is slow its answer is lost or comes twice"


DIFFERENCES = (
    Difference(("a first message", "an answer that grows"), "sound", "sounds", "silent",
               "an answer makes a sound", "an answer that is streamed makes none",
               "its previews are sent without a sound and become the answer by edits, so that nobody hears that it is there"),
    Difference(("a first message",), "menu", r".*\breturn\b.*", r".*\bmoa\b.*",
               "the menu has the commands of `host/COMMANDS.md` that the reader may run", "the menu has its own",
               "each lists what it has; both have new, stop, status, help and most others"),
    Difference(("an answer that grows",), "cursor", "is not seen", "is seen",
               "a growing answer has no cursor", "it ends in `▉`", "a crash would leave the cursor in the chat for ever; see there"),
    says("an answer in markdown", r".* 2 \* 3 \* 4\..*• one\n.*⟦pre:name \| value\n-----\+------\na    \| 1⟧.*",
         r".* 2 ⟦i: 3 ⟧ 4\..*- one\n.*⟦b:a⟧\n• value: 1\n.*",
         "a table is aligned in a block, lists have bullets, `2 * 3 * 4` stays", "a table becomes headings and lists, `2 * 3 * 4` becomes italic",
         "the text is parsed as CommonMark, and a table stays one"),
    says("an answer longer than a message", r"to 7, on the question: Paragraph 0\..* \(1/2\)\nto 7: Paragraph 16\..*<g1> \(2/2\)",
         r"to 7, on the question: Paragraph 0\..*on\.\nto 7, on the question: Paragraph 16\..*<g1>",
         "the parts are numbered, and the first quotes the question", "no part is, and every one quotes it",
         "`reply_mode = \"first\"` means the first; both split at the same place"),
    says("a picture from the agent", r"to 7, on the question: a photo: Here it is, as you wanted it: <g2>",
         r"to 7, on the question: Here it is, as you wanted it: <g2>\nto 7: a photo: ",
         "a picture carries its words", "words and picture are two messages", "one message where the words fit a caption"),
    says("help", r"to 7, on the question: • ⟦code:/start⟧.*", r"to 7, on the question: 📖 ⟦b:Hermes Commands⟧.*\nto 7: ⟦code:/\w+.*",
         "`/help` is one message", "it is two", "the list holds what the reader may run, without the aliases"),
    says("status", r"to 7, on the question: • Session: ⟦code:ID⟧\n• Title: hello there <a1>\n.*• Platforms: telegram online\n• Now: idle",
         r"to 7, on the question: 📊 ⟦b:Hermes Gateway Status⟧.*⟦b:Title:⟧ We began at a1\..*⟦b:Agent Running:⟧ No\n\n⟦b:Connected Platforms:⟧ telegram",
         "`/status` names the conversation by its first words", "by a title that a model made",
         "no model is asked for what the words of the person say; `/title` renames"),
    says("an unknown command", r"to 7, on the question: There is no command /nonsense\. ⟦code:/help⟧ lists what there is\.",
         r"to 7, on the question: Unknown command ⟦code:/nonsense⟧\. Type /commands .*", "other words", "other words", "the same is said"),
    says("stop when nothing runs", r"to 7, on the question: Nothing is running\.", r"to 7, on the question: No active task to stop\.",
         "other words", "other words", "the same is said"),
    says("stop while it thinks", r"to 7, on the command: Stopped\.\nto 7, on the second question: " + FROM_A1 + " <i2>",
         r"to 7, on the command: ⚡ Stopped\. You can continue this session\.\nto 7, on the second question: " + FROM_A1 + " <i2>",
         "other words", "other words", "the same is said"),
    says("status while it thinks", r"to 7, on the command: • Session:.*• Now: working\nto 7, on the question: " + FROM_A1 + " <j1>",
         r"to 7, on the command: 📊 .*⟦b:Agent Running:⟧ Yes ⚡.*\nto 7, on the question: " + FROM_A1 + " <j1>",
         "`Now: working`", "`Agent Running: Yes`", "the same is said"),
    says("a message while it thinks", r"to 7(, on the question)?: \(interrupted\)\nto 7, on the second question: " + FROM_A1 + " <k2>",
         r"to 7, on the second question: ⚡ Interrupting current task\..*First-time tip.*\nto 7, on the second question: " + FROM_A1 + " <k2>",
         "the turn that was given up ends in `(interrupted)`", "it is announced that it will be, with a tip the first time",
         "what happened is said where the answer would stand, once it has; the answer to the new message comes next either way"),
    says("a restart between two turns", r"to 7, on the question: " + FROM_A1 + " <q1>",
         STOPS + r"to 7, on the question: " + FROM_A1 + " <q1>",
         "a restart is not seen", "the home channel is told that its task will be interrupted", "nothing ran, and nothing is lost by a restart"),
    says("a message while the gateway is down", r"to 7, on the question: " + FROM_A1 + r" <r1>\nto 7, on the second question: " + FROM_A1 + " <r2>",
         STOPS + r"to 7, on the second question: " + FROM_A1 + " <r2>",
         "what is written while it is down is answered when it is back", "it is lost: what waits is dropped at every start",
         "nobody who writes can see that nothing listens"),
    says("a restart while it thinks", r"to 7, on the question: " + FROM_A1 + r" <s1>\nto 7, on the second question: " + FROM_A1 + " <s2>",
         resumed("s1", "s2", STOPS),
         "a stop waits for the answer, which quotes its question",
         "the turn is cut off and run again after the start" + OR_LOST + "; other chats, in which nothing ran, get a message that nobody asked for",
         "`drain_s`; a turn that was cut off is resumed in its own conversation only"),
    says("kill 9 while it thinks", r"to 7, on the question: " + FROM_A1 + r" <t1>\nto 7, on the second question: " + FROM_A1 + " <t2>",
         resumed("t1", "t2"),
         "the turn is run again and its answer quotes the question", "the turn is run again" + OR_LOST + "; other chats get a message that nobody asked for",
         "the event, not its conversation, is what is resumed"),
    says("kill 9 before the answer is sent",
         r"to 7, on the question: \(possibly repeated\) " + FROM_A1 + r" <w1>\nto 7, on the second question: " + FROM_A1 + " <w2>",
         resumed("w1", "w2"),
         "the answer is sent once more, marked; the model is not asked again",
         "the model is asked again and told that it was interrupted" + OR_LOST + "; other chats get a message that nobody asked for",
         "whether a call that was cut off arrived cannot be known"),
    says("kill 9 before it is known that the answer was sent",
         r"to 7, on the question: " + FROM_A1 + r" <u1>\nto 7, on the question: \(possibly repeated\) " + FROM_A1 + r" <u1>\nto 7, on the second question: "
         + FROM_A1 + " <u2>",
         resumed("u1", "u2", r"to 7, on the question: " + FROM_A1 + r" ▉\n"),
         "the whole answer stands there twice, the second marked", "a half answer with its cursor stays, the model is asked again" + OR_LOST,
         "at least once, and marked where it may be twice; a half text is never the last thing seen"),
    says("new", r"to 7, on the question: A new conversation begins\.\nto 7, on the second question: We began at v1\. Told of: nothing else\. <v1>",
         r"to 7: ✅ Approved once by User 7\nto 7: ✨ Session reset! Starting fresh\..*\nto 7, on the second question: We began at v1\. "
         r"Told of: nothing else\. <v1>" + UNASKED,
         "`/new` begins at once", "it asks first, by buttons", "the old conversation is kept and `/resume` has it; `confirm_new = true` asks"),
)


def table():
    rows = ["| step | here | Python 0.19.0 | why |", "|---|---|---|---|"]
    rows += [f"| {', '.join(one.steps)} | {one.here} | {one.there} | {one.why} |" for one in DIFFERENCES]
    return "\n".join(rows) + "\n"


def in_readme():
    return README.read_text().partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        README.write_text(README.read_text().replace(BEGIN + in_readme() + END, BEGIN + table() + END))
    else:
        print(table(), end="")
