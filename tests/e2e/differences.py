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


OR_LOST = "; after a slow start its answer is lost or arrives twice"


DIFFERENCES = (
    Difference(("a first message", "an answer that grows"), "sound", "sounds", "silent",
               "an answer makes a sound", "an answer that is streamed makes none",
               "its previews are sent without a sound and become the answer by edits, so no user hears that it arrived"),
    Difference(("a first message",), "menu", r".*\breturn\b.*", r".*\bmoa\b.*",
               "the menu has the commands of `host/COMMANDS.md` that the reader may run", "the menu has its own",
               "each menu lists the commands of its gateway; both have new, stop, status, help and most others"),
    Difference(("an answer that grows",), "cursor", "is not seen", "is seen",
               "a growing answer has no cursor", "it ends in `▉`", "a crash would leave the cursor in the chat permanently; see the rows of kill 9"),
    says("an answer in markdown", r".* 2 \* 3 \* 4\..*• one\n.*⟦pre:name \| value\n-----\+------\na    \| 1⟧.*",
         r".* 2 ⟦i: 3 ⟧ 4\..*- one\n.*⟦b:a⟧\n• value: 1\n.*",
         "a table is aligned in a block, lists have bullets, `2 * 3 * 4` stays", "a table becomes headings and lists, `2 * 3 * 4` becomes italic",
         "the text is parsed as CommonMark, and a table stays one"),
    says("an answer longer than a message", r"to 7, on the question: Paragraph 0\..* \(1/2\)\nto 7: Paragraph 16\..*<g1> \(2/2\)",
         r"to 7, on the question: Paragraph 0\..*on\.\nto 7, on the question: Paragraph 16\..*<g1>",
         "the parts are numbered, and the first quotes the question", "no part is numbered, and each quotes the question",
         "`reply_mode = \"first\"` means the first; both split at the same place"),
    says("a picture from the agent", r"to 7, on the question: a photo: Here it is, as you wanted it: <g2>",
         r"to 7, on the question: Here it is, as you wanted it: <g2>\nto 7: a photo: ",
         "a picture has its text as a caption", "text and picture are two messages", "one message if the text fits a caption"),
    says("help", r"to 7, on the question: • ⟦code:/start⟧.*", r"to 7, on the question: 📖 ⟦b:Hermes Commands⟧.*\nto 7: ⟦code:/\w+.*",
         "`/help` is one message", "it is two", "the list contains the commands that the reader may run, without the aliases"),
    says("status", r"to 7, on the question: • Session: ⟦code:ID⟧\n• Title: hello there <a1>\n.*• Platforms: telegram online\n• Now: idle",
         r"to 7, on the question: 📊 ⟦b:Hermes Gateway Status⟧.*⟦b:Title:⟧ We began at a1\..*⟦b:Agent Running:⟧ No\n\n⟦b:Connected Platforms:⟧ telegram",
         "`/status` names the conversation by its first words",
         "`/status` names it by a title that a model made",
         "the first words of the user are a sufficient title, so no model makes one; `/title` renames"),
    says("an unknown command", r"to 7, on the question: There is no command /nonsense\. ⟦code:/help⟧ lists the commands\.",
         r"to 7, on the question: Unknown command ⟦code:/nonsense⟧\. Type /commands .*", "other wording", "other wording", "the messages have the same meaning"),
    says("stop when nothing runs", r"to 7, on the question: Nothing is running\.", r"to 7, on the question: No active task to stop\.",
         "other wording", "other wording", "the messages have the same meaning"),
    says("stop while it thinks", r"to 7, on the command: Stopped\.\nto 7, on the second question: " + FROM_A1 + " <i2>",
         r"to 7, on the command: ⚡ Stopped\. You can continue this session\.\nto 7, on the second question: " + FROM_A1 + " <i2>",
         "other wording", "other wording", "the messages have the same meaning"),
    says("status while it thinks", r"to 7, on the command: • Session:.*• Now: working\nto 7, on the question: " + FROM_A1 + " <j1>",
         r"to 7, on the command: 📊 .*⟦b:Agent Running:⟧ Yes ⚡.*\nto 7, on the question: " + FROM_A1 + " <j1>",
         "`Now: working`", "`Agent Running: Yes`", "the messages have the same meaning"),
    says("a message while it thinks", r"to 7(, on the question)?: \(interrupted\)\nto 7, on the second question: " + FROM_A1 + " <k2>",
         r"to 7, on the second question: ⚡ Interrupting current task\..*First-time tip.*\nto 7, on the second question: " + FROM_A1 + " <k2>",
         "the interrupted turn ends in `(interrupted)`", "a message announces the interruption, with a tip the first time",
         "the interruption is shown in the place of the answer, after it happened; the answer to the new message comes next in both"),
    says("a restart between two turns", r"to 7, on the question: " + FROM_A1 + " <q1>",
         STOPS + r"to 7, on the question: " + FROM_A1 + " <q1>",
         "a restart is not visible", "the home channel gets a notice that its task will be interrupted", "no turn was running, and a restart loses nothing"),
    says("a message while the gateway is down", r"to 7, on the question: " + FROM_A1 + r" <r1>\nto 7, on the second question: " + FROM_A1 + " <r2>",
         STOPS + r"to 7, on the second question: " + FROM_A1 + " <r2>",
         "a message that is sent during the downtime is answered after the start", "the message is lost: every start drops the waiting messages",
         "a user cannot see that the gateway is down"),
    says("a restart while it thinks", r"to 7, on the question: " + FROM_A1 + r" <s1>\nto 7, on the second question: " + FROM_A1 + " <s2>",
         resumed("s1", "s2", STOPS),
         "a stop waits for the answer, which quotes its question",
         "the turn is interrupted and run again after the start" + OR_LOST + "; other chats without a running turn get an unrequested message",
         "`drain_s`; an interrupted turn is resumed in its own conversation only"),
    says("kill 9 while it thinks", r"to 7, on the question: " + FROM_A1 + r" <t1>\nto 7, on the second question: " + FROM_A1 + " <t2>",
         resumed("t1", "t2"),
         "the turn is run again and its answer quotes the question", "the turn is run again" + OR_LOST + "; other chats get an unrequested message",
         "the host resumes the event, not its conversation"),
    says("kill 9 before the answer is sent",
         r"to 7, on the question: \(possibly repeated\) " + FROM_A1 + r" <w1>\nto 7, on the second question: " + FROM_A1 + " <w2>",
         resumed("w1", "w2"),
         "the answer is sent once more, marked; the model gets no second request",
         "the model gets a second request with a note about the interruption" + OR_LOST + "; other chats get an unrequested message",
         "the host cannot know the outcome of an interrupted call"),
    says("kill 9 before it is known that the answer was sent",
         r"to 7, on the question: " + FROM_A1 + r" <u1>\nto 7, on the question: \(possibly repeated\) " + FROM_A1 + r" <u1>\nto 7, on the second question: "
         + FROM_A1 + " <u2>",
         resumed("u1", "u2", r"to 7, on the question: " + FROM_A1 + r" ▉\n"),
         "the whole answer arrives twice, the second marked",
         "a partial answer with its cursor stays, and the model gets a second request" + OR_LOST,
         "at least once, and marked if it may be a duplicate; a partial text is never the last visible message"),
    says("new", r"to 7, on the question: Started a new conversation\.\nto 7, on the second question: We began at v1\. Told of: nothing else\. <v1>",
         r"to 7: ✅ Approved once by User 7\nto 7: ✨ Session reset! Starting fresh\..*\nto 7, on the second question: We began at v1\. "
         r"Told of: nothing else\. <v1>" + UNASKED,
         "`/new` starts at once", "`/new` asks for a confirmation, with buttons",
         "the old conversation is kept, and `/resume` returns to it; `confirm_new = true` asks for a confirmation"),
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
