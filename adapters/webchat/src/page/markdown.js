// Markdown to DOM nodes. Text only ever becomes text nodes: nothing in a message can
// become markup, whatever it says. It reads the CommonMark that hermes-markup writes
// (paragraphs, headings, lists, tasks, quotes, fences, tables, rules and the usual
// spans), and what is cut off while it is still being streamed.
"use strict";

const Markdown = (() => {
  const DEPTH_MAX = 12;
  const SCHEMES = /^(https?|mailto|tel|xmpp|matrix):/i;
  const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "…", mdash: "—", ndash: "–", copy: "©" };

  const make = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    node.append(...children);
    return node;
  };

  /** Returns a fragment that shows `text`. */
  function render(text) {
    const fragment = document.createDocumentFragment();
    blocks(text.replace(/\r\n?/g, "\n").split("\n"), fragment, 0);
    return fragment;
  }

  const FENCE = /^( {0,3})(`{3,}|~{3,})([^\n]*)$/;
  const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+|$)(.*?)(?:[ \t]+#+)?[ \t]*$/;
  const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
  const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)(.*)$/;
  const DELIMITER = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

  function blocks(lines, parent, depth) {
    let at = 0;
    let paragraph = [];
    const flush = () => {
      if (paragraph.length) {
        const node = make("p");
        inline(paragraph.map((line) => line.replace(/^[ \t]+/, "")).join("\n"), node, depth);
        parent.append(node);
        paragraph = [];
      }
    };
    while (at < lines.length) {
      const line = lines[at];
      if (!line.trim()) { flush(); at += 1; continue; }
      if (depth >= DEPTH_MAX) { paragraph.push(line); at += 1; continue; }

      const fence = FENCE.exec(line);
      if (fence && !(fence[2][0] === "`" && fence[3].includes("`"))) {
        flush();
        const end = new RegExp(`^ {0,3}\\${fence[2][0]}{${fence[2].length},}[ \\t]*$`);
        const body = [];
        at += 1;
        while (at < lines.length && !end.test(lines[at])) {
          body.push(lines[at].replace(new RegExp(`^ {0,${fence[1].length}}`), ""));
          at += 1;
        }
        at += 1;
        parent.append(code(body.join("\n"), fence[3].trim().split(/\s+/)[0]));
        continue;
      }
      const heading = HEADING.exec(line);
      if (heading) {
        flush();
        const node = make(`h${Math.min(6, heading[1].length + 1)}`, "h" + heading[1].length);
        inline(heading[2], node, depth);
        parent.append(node);
        at += 1;
        continue;
      }
      if (RULE.test(line)) { flush(); parent.append(make("hr")); at += 1; continue; }
      if (/^ {0,3}>/.test(line)) {
        flush();
        const body = [];
        while (at < lines.length && (/^ {0,3}>/.test(lines[at]) || (lines[at].trim() && !starts(lines[at])))) {
          body.push(lines[at].replace(/^ {0,3}> ?/, ""));
          at += 1;
        }
        const node = make("blockquote");
        blocks(body, node, depth + 1);
        parent.append(node);
        continue;
      }
      const item = ITEM.exec(line);
      // A number other than 1 does not break into a paragraph.
      if (item && (item[4].trim() || !paragraph.length) && (!paragraph.length || !/^\d/.test(item[2]) || /^1[.)]$/.test(item[2]))) {
        flush();
        at = list(lines, at, parent, depth);
        continue;
      }
      if (line.includes("|") && at + 1 < lines.length && DELIMITER.test(lines[at + 1]) && lines[at + 1].includes("-")
        && cells(line).length === cells(lines[at + 1]).length) {
        flush();
        at = table(lines, at, parent, depth);
        continue;
      }
      paragraph.push(line);
      at += 1;
    }
    flush();
  }

  function starts(line) {
    return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || ITEM.test(line);
  }

  function list(lines, from, parent, depth) {
    const first = ITEM.exec(lines[from]);
    const kind = first[2].slice(-1);
    const ordered = /\d/.test(first[2]);
    const node = make(ordered ? "ol" : "ul");
    if (ordered) node.start = parseInt(first[2], 10);
    let at = from;
    let loose = false;
    const items = [];
    while (at < lines.length) {
      const item = ITEM.exec(lines[at]);
      if (!item || item[2].slice(-1) !== kind || RULE.test(lines[at])) break;
      const indent = item[1].length + item[2].length + (item[4].trim() ? Math.min(item[3].length, 4) : 1);
      const body = [item[4]];
      at += 1;
      let blank = false;
      while (at < lines.length) {
        const line = lines[at];
        if (!line.trim()) { blank = true; body.push(""); at += 1; continue; }
        const spaces = line.length - line.trimStart().length;
        if (spaces >= indent) {
          if (blank) loose = true;
          body.push(line.slice(indent));
        } else if (!blank && !starts(line) && !/^ {0,3}>/.test(line)) {
          body.push(line.trimStart());
        } else break;
        blank = false;
        at += 1;
      }
      while (body.length && !body[body.length - 1].trim()) body.pop();
      if (blank && at < lines.length && ITEM.test(lines[at])) loose = true;
      items.push(body);
    }
    for (const body of items) {
      const li = make("li");
      const task = /^\[([ xX])\] +(.*)$/.exec(body[0] || "");
      if (task) {
        const box = make("input");
        box.type = "checkbox";
        box.disabled = true;
        box.checked = task[1] !== " ";
        li.className = "task";
        li.append(box);
        body[0] = task[2];
      }
      blocks(body, li, depth + 1);
      if (!loose) {
        for (const p of [...li.children].filter((child) => child.tagName === "P")) p.replaceWith(...p.childNodes);
      }
      node.append(li);
    }
    parent.append(node);
    return at;
  }

  function cells(line) {
    const out = [];
    let cell = "";
    let text = line.trim();
    if (text.startsWith("|")) text = text.slice(1);
    for (let n = 0; n < text.length; n += 1) {
      if (text[n] === "\\" && text[n + 1] === "|") { cell += "|"; n += 1; }
      else if (text[n] === "\\" && n + 1 < text.length) { cell += text[n] + text[n + 1]; n += 1; }
      else if (text[n] === "|") { out.push(cell.trim()); cell = ""; }
      else cell += text[n];
    }
    if (cell.trim()) out.push(cell.trim());
    return out;
  }

  function table(lines, from, parent, depth) {
    const align = cells(lines[from + 1]).map((cell) => {
      if (/^:-+:$/.test(cell)) return "center";
      if (/^-+:$/.test(cell)) return "right";
      return "";
    });
    const row = (line, tag) => {
      const tr = make("tr");
      const found = cells(line);
      align.forEach((side, n) => {
        const cell = make(tag, side);
        inline(found[n] || "", cell, depth);
        tr.append(cell);
      });
      return tr;
    };
    const body = make("tbody");
    let at = from + 2;
    while (at < lines.length && lines[at].trim() && !starts(lines[at]) && lines[at].includes("|")) {
      body.append(row(lines[at], "td"));
      at += 1;
    }
    parent.append(make("div", "table", make("table", "", make("thead", "", row(lines[from], "th")), body)));
    return at;
  }

  function code(text, language) {
    const copy = make("button", "copy", "Copy");
    copy.type = "button";
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        copy.textContent = "Copied";
      } catch { copy.textContent = "Not copied"; }
      setTimeout(() => { copy.textContent = "Copy"; }, 1600);
    });
    const pre = make("pre", "", make("code", "", text));
    pre.tabIndex = 0;
    return make("div", "code", make("div", "code-head", make("span", "", language || "text"), copy), pre);
  }

  const WORD = /[\p{L}\p{N}]/u;
  const PUNCTUATION = /[\p{P}\p{S}]/u;

  /** Reads spans. Delimiters are kept on a stack and closed as CommonMark does. */
  function inline(text, parent, depth, inLink = false) {
    if (depth > DEPTH_MAX) { parent.append(text); return; }
    const out = [];
    let plain = "";
    const push = (node) => { if (plain) { out.push(plain); plain = ""; } out.push(node); };
    let at = 0;
    let brackets = 0;
    while (at < text.length) {
      const c = text[at];
      if (c === "\\") {
        if (text[at + 1] === "\n") { push(make("br")); at += 2; continue; }
        if (/[!-/:-@[-`{-~]/.test(text[at + 1] || "")) { plain += text[at + 1]; at += 2; continue; }
      } else if (c === "\n") {
        plain = plain.replace(/ +$/, "");
        push(make("br"));
        at += 1;
        continue;
      } else if (c === "`") {
        const ticks = /^`+/.exec(text.slice(at))[0];
        const end = closing(text, at + ticks.length, ticks.length);
        if (end >= 0) {
          let body = text.slice(at + ticks.length, end).replace(/\n/g, " ");
          if (/^ .*[^ ].* $/.test(body) || /^ [^ ] $/.test(body)) body = body.slice(1, -1);
          push(make("code", "", body));
          at = end + ticks.length;
        } else { plain += ticks; at += ticks.length; }
        continue;
      } else if (c === "[" || (c === "!" && text[at + 1] === "[")) {
        const link = brackets < 200 ? readLink(text, c === "!" ? at + 1 : at) : null;
        brackets += 1;
        if (link && !inLink) {
          push(anchor(link, depth));
          at = link.end;
          continue;
        }
      } else if (c === "<") {
        const tag = /^<(\/?)(u|ins|tg-spoiler|br)\s*\/?>/i.exec(text.slice(at, at + 20));
        if (tag) {
          const name = tag[2].toLowerCase();
          if (name === "br") push(make("br"));
          else push({ mark: name, open: !tag[1], close: !!tag[1], length: 1, html: tag[0] });
          at += tag[0].length;
          continue;
        }
        const auto = /^<((?:https?|mailto):[^\s<>]{1,2000})>/i.exec(text.slice(at, at + 2010));
        if (auto && !inLink) { push(anchor({ url: auto[1], label: null }, depth)); at += auto[0].length; continue; }
      } else if (c === "&") {
        const entity = /^&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/.exec(text.slice(at, at + 12));
        if (entity) {
          const code = entity[1] ? parseInt(entity[1], 10) : entity[2] ? parseInt(entity[2], 16) : -1;
          const found = code >= 0 ? (code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd") : ENTITIES[entity[3]];
          if (found) { plain += found; at += entity[0].length; continue; }
        }
      } else if (c === "*" || c === "_" || c === "~") {
        let length = 1;
        while (text[at + length] === c) length += 1;
        const before = at > 0 ? [...text.slice(Math.max(0, at - 2), at)].pop() : " ";
        const after = at + length < text.length ? String.fromCodePoint(text.codePointAt(at + length)) : " ";
        const left = !/\s/.test(after) && (!PUNCTUATION.test(after) || /\s/.test(before) || PUNCTUATION.test(before));
        const right = !/\s/.test(before) && (!PUNCTUATION.test(before) || /\s/.test(after) || PUNCTUATION.test(after));
        const open = left && (c !== "_" || !right || PUNCTUATION.test(before));
        const close = right && (c !== "_" || !left || PUNCTUATION.test(after));
        push({ mark: c, open, close, length });
        at += length;
        continue;
      } else if (c === "h" && !inLink && (at === 0 || !WORD.test(text[at - 1]))) {
        const bare = /^https?:\/\/[^\s<>*`|]+/.exec(text.slice(at, at + 2000));
        if (bare) {
          let url = bare[0].replace(/[.,;:!?'"]+$/, "");
          while (url.endsWith(")") && url.split(")").length > url.split("(").length) url = url.slice(0, -1);
          url = url.replace(/\\([!-/:-@[-`{-~])/g, "$1");
          push(anchor({ url, label: null }, depth));
          at += rawLength(text.slice(at, at + 2000), url);
          continue;
        }
      }
      plain += c;
      at += 1;
    }
    if (plain) out.push(plain);
    pair(out).forEach((node) => parent.append(node));
  }

  /** How many characters of `text` an address took, its escapes counted. */
  function rawLength(text, url) {
    let at = 0;
    for (const c of url) {
      if (text[at] === "\\" && text[at + 1] === c) at += 1;
      at += c.length;
    }
    return at;
  }

  function closing(text, from, length) {
    let at = from;
    while (at < text.length) {
      const next = text.indexOf("`", at);
      if (next < 0) return -1;
      let run = 1;
      while (text[next + run] === "`") run += 1;
      if (run === length) return next;
      at = next + run;
    }
    return -1;
  }

  function readLink(text, from) {
    let depth = 0;
    let at = from;
    const limit = Math.min(text.length, from + 4000);
    for (; at < limit; at += 1) {
      if (text[at] === "\\") at += 1;
      else if (text[at] === "[") depth += 1;
      else if (text[at] === "]" && (depth -= 1) === 0) break;
    }
    if (depth !== 0 || text[at] !== "]" || text[at + 1] !== "(") return null;
    const label = text.slice(from + 1, at);
    const target = /^\(\s*(?:<([^<>\n]*)>|((?:\\.|[^\s()\\]|\((?:\\.|[^\s()\\])*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(at + 1, at + 4000));
    if (!target) return null;
    const url = (target[1] !== undefined ? target[1] : target[2]).replace(/\\([!-/:-@[-`{-~])/g, "$1");
    return { label, url, end: at + 1 + target[0].length };
  }

  function anchor(link, depth) {
    const label = make("span");
    if (link.label === null) label.append(link.url.replace(/^mailto:/i, ""));
    else inline(link.label, label, depth + 1, true);
    if (!SCHEMES.test(link.url)) {
      label.append(link.url ? ` (${link.url})` : "");
      return label;
    }
    const a = make("a", "", ...label.childNodes);
    if (!a.textContent.trim()) a.textContent = link.url;
    a.href = link.url;
    a.target = "_blank";
    a.rel = "noopener noreferrer nofollow";
    return a;
  }

  const TAGS = { u: "u", ins: "u", "tg-spoiler": "spoiler" };

  /** Pairs delimiters and nests what stands between them. */
  function pair(items) {
    const openers = [];
    const out = [];
    const literal = (mark) => (mark.html ? mark.html : mark.mark.repeat(mark.length));
    const wrap = (at, tag) => {
      const children = out.splice(at).map((node) => (node.mark ? literal(node) : node)).filter((node) => node !== "");
      let node;
      if (tag === "spoiler") {
        node = make("span", "spoiler", ...children);
        node.tabIndex = 0;
        node.addEventListener("click", () => node.classList.add("shown"));
        node.addEventListener("keydown", (event) => { if (event.key === "Enter") node.classList.add("shown"); });
      } else node = make(tag, "", ...children);
      out.push(node);
    };
    for (const item of items) {
      if (!item.mark) { out.push(item); continue; }
      let rest = item.length;
      if (item.close) {
        let searched = 0;
        for (let n = openers.length - 1; n >= 0 && rest > 0 && searched < 100; searched += 1) {
          const opener = openers[n];
          if (opener.item.mark !== item.mark || (item.mark === "~" && opener.item.length !== rest)) { n -= 1; continue; }
          if (item.html) {
            out[opener.at] = "";
            openers.length = n;
            wrap(opener.at, TAGS[item.mark]);
            rest = 0;
            break;
          }
          const used = item.mark === "~" ? rest : Math.min(2, rest, opener.item.length);
          opener.item.length -= used;
          rest -= used;
          openers.length = n + 1;
          wrap(opener.at + 1, item.mark === "~" ? "del" : used === 2 ? "strong" : "em");
          if (opener.item.length === 0) { out[opener.at] = ""; openers.length = n; n -= 1; }
        }
      }
      if (rest > 0) {
        const kept = { ...item, length: rest };
        if (item.open) openers.push({ item: kept, at: out.length });
        out.push(kept);
      }
    }
    return out.map((node) => (node.mark ? literal(node) : node)).filter((node) => node !== "");
  }

  return { render };
})();
