"""A text file and a PDF file, and the message that the agent reads about them."""

import json
import re

CSV = "name;value\nalpha;1\n"
REPORT = "Quarterly report, page one"


def pdf(line):
    """Returns the text of a PDF file with one page and one line of ASCII."""
    content = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    )
    text, places = "%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(text))
        text += f"{number} 0 obj\n{one}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    return f"{text}xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(text)}\n%%EOF\n"


# Name, content and text of each file.
FILES = (("table.csv", CSV, CSV), ("report.pdf", pdf(REPORT), REPORT))


def heard(one):
    """Returns the user messages of all sessions."""
    messages = []
    for session in json.loads(one.cli("session", "list", "--all", "--json").stdout):
        shown = json.loads(one.cli("session", "show", session["id"], "--json").stdout)["messages"]
        messages += [message["content"] for message in shown if message["role"] == "user"]
    return messages


def is_read(one, name, text):
    """Returns true if a transcript holds the whole text of the file between the two lines named in its message."""
    said = rf'\[attached file "{re.escape(name)}"[^\]]*The two lines "(\w+)" enclose [^\]]*\]\n\1\n{re.escape(text)}\n\1'
    return any(re.search(said, message) for message in heard(one))
