"""Incoming and outgoing files in Telegram, through the built host."""

import json
import os

import pytest

from conftest import HEADER, telegram_section, until
from files import FILES, is_read

MB = 1 << 20
WORDS = HEADER.replace("[agent]", "[agent]\ntest_words = true", 1)


def started(host, telegram, isolation, more="", header=HEADER):
    return host(header + telegram_section(telegram, isolation, more)).start(online=["telegram"])


def kept(one):
    """Returns the received files that the host keeps."""
    folder = one.home / "media" / "telegram" / "in"
    return sorted(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def calls(telegram, method):
    return [call["params"] for call in telegram.get("journal") if call["method"] == method]


def said(one, who="user"):
    """Returns the messages in the transcript of the only conversation."""
    [session] = json.loads(one.cli("session", "list", "--json").stdout)
    messages = json.loads(one.cli("session", "show", session["id"], "--json").stdout)["messages"]
    return [message["content"] for message in messages if message["role"] == who]


def lies(one, name, content=b"x"):
    """Creates a file in a folder from which files may be sent."""
    folder = one.home / "media"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    return f"MEDIA:{folder}/{name}"


def test_every_kind_of_file_reaches_the_agent_and_is_named(host, telegram, isolation):
    one = started(host, telegram, isolation)
    kinds = ("photo", "video", "document", "voice", "audio", "animation", "sticker", "video_note")
    for n, kind in enumerate(kinds):
        words = {} if kind in ("sticker", "video_note") else {"caption": f"see {kind}"}
        telegram.sim("message", chat=7, **{kind: f"the {kind}"}, **words)
        telegram.answers(7, n + 1)
        assert f"the {kind}".encode() in kept(one), kind
    assert len(kept(one)) == len(kinds), "an animation comes with a document that is the same file"
    heard = said(one)
    for kind, words in zip(kinds, ("image", "video", "file", "voice", "audio", "video", "sticker", "video")):
        assert any(f"[attached {words}" in text and (kind in ("sticker", "video_note") or f"see {kind}" in text) for text in heard), (kind, heard)
    one.stop()
    telegram.verdict()


def test_the_text_of_a_text_file_and_of_a_pdf_file_reaches_the_turn(host, telegram, isolation):
    one = started(host, telegram, isolation)
    for n, (name, content, text) in enumerate(FILES, 1):
        telegram.sim("message", chat=7, document=content, file_name=name, caption="read it")
        telegram.answers(7, n)
        until(f"the text of {name}", lambda: is_read(one, name, text))
    one.stop()
    telegram.verdict()


def test_an_album_that_comes_in_two_polls_is_one_message_with_all_its_captions(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.fault("getUpdates", "hold_after")
    telegram.says(8, "before it")
    until("a poll is held", lambda: any(call.get("fault") == "hold_after" for call in telegram.get("journal")))
    for n in range(2):
        telegram.sim("message", chat=7, photo=f"bytes {n}", media_group_id="G1", caption=f"caption {n}")
    telegram.sim("release", method="getUpdates")
    polls = len(calls(telegram, "getUpdates"))
    until("they were brought", lambda: len(calls(telegram, "getUpdates")) > polls)
    telegram.sim("message", chat=7, photo="bytes 2", media_group_id="G1")
    answer = telegram.answers(7, 1)[0]
    assert "caption 0" in answer and "caption 1" in answer
    telegram.says(7, "and this is next")
    assert "and this is next" in telegram.answers(7, 2)[1], "it is one message to the agent"
    assert kept(one) == [b"bytes 0", b"bytes 1", b"bytes 2"]
    one.stop()
    telegram.verdict()


def test_files_go_out_as_what_they_are_and_albums_in_one_call(host, telegram, isolation):
    one = started(host, telegram, isolation)
    named = [("a.png", "sendPhoto"), ("b.mp4", "sendVideo"), ("c.mp3", "sendAudio"), ("d.pdf", "sendDocument")]
    for n, (name, method) in enumerate(named):
        telegram.says(7, f"look at **it** & so on\n{lies(one, name)}")
        until(name, lambda: len(telegram.from_bot(7)) == n + 1)
        [call] = calls(telegram, method)
        assert "it" in call["caption"] and call["parse_mode"] == "HTML"
        assert "look at it & so on" in telegram.from_bot(7)[n]["caption"]
    albums = ((("a.png", "b.mp4"), ["photo", "video"]), (("c.mp3", "e.mp3"), ["audio"] * 2), (("a.png", "d.pdf"), ["document"] * 2))
    for n, (names, kinds) in enumerate(albums):
        telegram.says(8, "\n".join(["all **of** these"] + [lies(one, name) for name in names]))
        until("the album", lambda: len(calls(telegram, "sendMediaGroup")) == n + 1)
        call = calls(telegram, "sendMediaGroup")[n]
        media = json.loads(call["media"])
        assert [item["type"] for item in media] == kinds and "of" in media[0]["caption"] and "caption" not in media[1]
    until("they are shown", lambda: len(telegram.from_bot(8)) == 6)
    assert [m.get("caption") for m in telegram.from_bot(8)][::2] == ["echo: all of these"] * 3 or all(
        "all of these" in m["caption"] for m in telegram.from_bot(8)[::2])
    one.stop()
    telegram.verdict()


def test_an_album_with_more_words_than_a_caption_holds_goes_behind_them(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(7, "\n".join(["word " * 300 + "end", lies(one, "a.png"), lies(one, "b.png")]))
    until("words and album", lambda: len(telegram.from_bot(7)) == 3)
    words, *album = telegram.from_bot(7)
    assert words["text"].endswith("end") and all("photo" in message and not message.get("caption") for message in album)
    assert len(calls(telegram, "sendMediaGroup")) == 1
    one.stop()
    telegram.verdict()


def test_a_file_over_the_servers_limit_is_told_in_a_sentence_both_ways(host, telegram, isolation, tmp_path):
    one = started(host, telegram, isolation, more="out_bytes_max = 1048576")
    telegram.says(7, f"here\n{lies(one, 'report.pdf', bytes(3 * MB))}")
    answer = telegram.answers(7, 1)[0]
    assert "report.pdf (3 MB) is larger than Telegram accepts (1 MB), so it is not attached." in answer
    sparse(tmp_path / "film.mp4", 73 * MB)
    telegram.sim("message", chat=8, video={"path": str(tmp_path / "film.mp4")}, caption="see this")
    telegram.answers(8, 1)
    [told] = [text for text in transcripts(one) if "see this" in text]
    assert "not available: the file has 73 MB; the limit is 20 MB" in told
    assert calls(telegram, "getFile") == [], "its size was known before"
    one.stop()
    telegram.verdict()


def test_what_the_server_refuses_goes_in_a_plainer_form_and_at_last_as_words(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(7, f"a tall picture\n{lies(one, 'odd.png')}")
    until("the document", lambda: telegram.from_bot(7))
    assert "document" in telegram.from_bot(7)[0] and "a tall picture" in telegram.from_bot(7)[0]["caption"]
    telegram.sim("bounds", **{"in": 10})
    telegram.says(8, f"too <much>\n{lies(one, 'b.pdf', bytes(20))}")
    answer = telegram.answers(8, 1)[0]
    assert "too <much>" in answer and "b.pdf" in answer and "Entity Too Large" in answer
    telegram.says(9, "others are not held up")
    assert "others are not held up" in telegram.answers(9, 1)[0]
    one.stop()
    telegram.verdict()


def test_a_file_is_asked_for_once_its_sender_is_let_in_and_holds_up_only_what_they_say_next(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.sim("message", chat=99, photo="of a stranger", caption="let me in")
    telegram.fault("getFile", "hold")
    telegram.sim("message", chat=7, photo="slow", caption="see this")
    until("the file is asked for", lambda: calls(telegram, "getFile"))
    telegram.says(7, "behind it")
    telegram.says(8, "elsewhere")
    assert "elsewhere" in telegram.answers(8, 1)[0]
    assert telegram.from_bot(7) == []
    telegram.says(7, "/stop")
    stopped, behind = telegram.answers(7, 2)
    assert stopped.startswith("Stopped.") and "behind it" in behind
    telegram.sim("release", method="getFile")
    telegram.sim("message", chat=7, photo="next", caption="and this")
    assert "and this" in telegram.answers(7, 3)[2]
    assert len(calls(telegram, "getFile")) == 2 and kept(one) == [b"next"], "the stranger's was asked for by nobody"
    one.stop()
    telegram.verdict()


def test_a_file_that_was_on_its_way_when_the_host_was_killed_is_fetched_by_the_next_one(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.fault("getFile", "hold")
    telegram.sim("message", chat=7, photo="once", caption="see this")
    until("the file is asked for", lambda: calls(telegram, "getFile"))
    one.kill()
    telegram.sim("release", method="getFile")
    one.start(online=["telegram"])
    assert "see this" in telegram.answers(7, 1)[0]
    telegram.says(7, "what now")
    assert "what now" in telegram.answers(7, 2)[1], "it was answered once"
    assert kept(one) == [b"once"]
    one.stop()
    telegram.verdict()


def test_a_file_of_an_odd_type_holds_no_other_chat_up(host, telegram, isolation):
    one = started(host, telegram, isolation)
    telegram.says(7, "odd\nMEDIA:data:image/p ng;base64,QQ==")
    telegram.says(8, "others")
    assert "others" in telegram.answers(8, 1)[0]
    until("it is there in some form", lambda: telegram.from_bot(7))
    one.stop()
    telegram.verdict()


# --- a server of one's own ---------------------------------------------------------------------------


def sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)


def transcripts(one):
    found = []
    for session in json.loads(one.cli("session", "list", "--json").stdout):
        shown = json.loads(one.cli("session", "show", session["id"], "--json").stdout)
        found += [message["content"] for message in shown["messages"] if message["role"] == "user"]
    return found


def peak_kib(pid):
    """Returns the highest memory use of a process and its children, in KiB."""
    own = children = 0
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmHWM:"):
            own = int(line.split()[1])
    for other in os.listdir("/proc"):
        if other.isdigit():
            try:
                fields = dict(line.split(":", 1) for line in open(f"/proc/{other}/status") if ":" in line)
            except OSError:
                continue
            if fields["PPid"].strip() == str(pid) and "VmHWM" in fields:
                children += int(fields["VmHWM"].split()[0])
    return own + children


LARGE = 300 * MB
OWN = HEADER + f"\n[limits]\nfile_bytes_max = {2000 * MB}\n"


@pytest.mark.parametrize("local", [False, True], ids=["handed-out", "on-its-disk"])
def test_a_server_of_ones_own_gives_and_takes_files_larger_than_the_memory_for_them(host, telegram, isolation, tmp_path, local):
    files = tmp_path / "server"
    files.mkdir()
    telegram.sim("bounds", **{"in": 2000 * MB, "out": 2000 * MB, "local": local})
    more = f"media_bytes_max = {2000 * MB}\nout_bytes_max = {2000 * MB}\n" + (f'local_files = "{files}"' if local else "")
    one = started(host, telegram, isolation, more, header=OWN)
    telegram.says(7, "hello")
    telegram.answers(7, 1)
    before = peak_kib(one.program.process.pid)
    sparse(files / "film.bin", LARGE)
    telegram.sim("message", chat=7, document={"path": str(files / "film.bin")}, caption="a large one")
    telegram.answers(7, 2, timeout=120)
    [path] = [path for path in (one.home / "media" / "telegram" / "in").rglob("*") if path.is_file()]
    assert path.stat().st_size == LARGE
    sparse(one.folder / "out.bin", LARGE)
    one.cli("send", "telegram:7", "as large", "--file", "out.bin")
    until("it is there", lambda: len(telegram.from_bot(7)) == 3, 180)
    assert telegram.from_bot(7)[2]["document"]["file_size"] == LARGE
    grown = peak_kib(one.program.process.pid) - before
    assert grown < LARGE // 1024 // 3, f"{grown} KiB for {LARGE // 1024}"
    one.stop()
    telegram.verdict()


def test_nothing_outside_the_servers_folder_is_read(host, telegram, isolation, tmp_path):
    files = tmp_path / "server"
    files.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (files / "link").symlink_to(tmp_path / "secret")
    (files / "up").symlink_to(tmp_path)
    (files / "good").write_bytes(b"good")
    telegram.sim("bounds", local=True)
    one = started(host, telegram, isolation, f'local_files = "{files}"')
    for n, path in enumerate((tmp_path / "secret", files / "link", files / "up" / "secret", files / ".." / "secret", files / "good")):
        telegram.sim("message", chat=7, document={"path": str(path)}, caption=f"number {n}")
        until("its answer", lambda: any(f"number {n}" in message.get("text", "") for message in telegram.from_bot(7)))
    assert kept(one) == [b"good"]
    notices = [text for text in telegram.answers(7, 4 + 5) if text.startswith("I could not receive")]
    assert len(notices) == 4 and all("local_files" in text for text in notices)
    assert len([text for text in said(one) if "`local_files`" in text and "not available" in text]) == 4
    one.stop()
    one = host(HEADER + telegram_section(telegram, isolation), name="unnamed").start(online=["telegram"])
    telegram.sim("message", chat=8, document={"path": str(files / "good")}, caption="not named")
    telegram.answers(8, 2)
    assert any("set `local_files` to their folder" in text for text in transcripts(one))
    one.stop()
    telegram.verdict()
