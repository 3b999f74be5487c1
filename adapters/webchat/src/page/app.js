// The page: conversations, the stream of events, the message field.
// Everything that comes from outside is put into text nodes, except the HTML of messages, which the adapter escapes.
"use strict";

const $ = (id) => document.getElementById(id);

const state = {
  cursor: "",
  conversations: new Map(),
  /** The person's sessions that go on in no conversation of this page, by id. */
  sessions: new Map(),
  commands: [],
  uploadMax: 0,
  /** The open conversation; null while it has no first message. */
  current: null,
  /** The session that is read; it gets a conversation here with the next message. */
  past: null,
  entries: [],
  before: null,
  turns: new Map(),
  uploads: [],
  opening: 0,
  /** Events that came while the open conversation was being read; null when none is. */
  held: null,
  /** Up to which event the read conversation already tells everything. */
  known: { incarnation: "", seq: 0 },
};

// ---------------------------------------------------------------- small helpers

function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

function icon(path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return "w" + [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function api(method, path, body) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Error("the host cannot be reached");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `the host answered ${response.status}`);
  return answer;
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const fullTime = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "short" });
const dayName = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });

function day(ms) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (ms >= midnight) return "Today";
  if (ms >= midnight - 86_400_000) return "Yesterday";
  return dayName.format(ms);
}

const title = (conversation) => conversation?.title || "New conversation";
const newest = (a, b) => b.updated_ms - a.updated_ms;

/** The address of a session that has no conversation here. */
const PAST = "s.";
const pastIn = (hash) => (hash.startsWith(PAST) ? decodeURIComponent(hash.slice(PAST.length)) : null);

// ---------------------------------------------------------------- banner

let bannerTimer = 0;

/** Shows a line above the messages; a passing one goes after a while. */
function banner(text, kind = "", passing = false) {
  clearTimeout(bannerTimer);
  const node = $("banner");
  node.textContent = text;
  node.className = `banner ${kind}`;
  node.hidden = !text;
  if (passing) bannerTimer = setTimeout(() => { node.hidden = true; }, 6000);
}

// ---------------------------------------------------------------- the list of conversations

function drawList() {
  const list = $("conversations");
  const sorted = [...state.conversations.values()].sort(newest);
  const nodes = [];
  let group = "";
  const head = (name) => {
    const heading = make("li", "group", name);
    heading.setAttribute("role", "presentation");
    nodes.push(heading);
  };
  for (const conversation of sorted) {
    const age = day(conversation.updated_ms);
    const name = age === "Today" || age === "Yesterday" ? age : "Earlier";
    if (name !== group) {
      group = name;
      head(name);
    }
    const link = make("a", "", make("span", "name", title(conversation)));
    link.href = `#${conversation.id}`;
    if (conversation.id === state.current) link.setAttribute("aria-current", "page");
    if (conversation.unread && conversation.id !== state.current) {
      const dot = make("span", "dot");
      dot.title = "New messages";
      dot.setAttribute("aria-label", "something new");
      dot.setAttribute("role", "img");
      link.append(dot);
    }
    nodes.push(make("li", "", link));
  }
  const others = [...state.sessions.values()].sort(newest);
  if (others.length) head("From other chats");
  for (const session of others) {
    const link = make("a", "", make("span", "name", session.title || "Untitled"));
    link.href = `#${PAST}${encodeURIComponent(session.id)}`;
    link.title = `${session.messages} messages, begun in ${session.source}`;
    if (session.source !== state.instance) link.append(make("small", "", session.source));
    if (session.id === state.past) link.setAttribute("aria-current", "page");
    nodes.push(make("li", "", link));
  }
  if (!nodes.length) nodes.push(make("li", "empty", "Your conversations will appear here."));
  list.replaceChildren(...nodes);
  drawTitle();
}

/** What is open: a conversation, a session that is read, or nothing yet. */
function shownNow() {
  if (state.past) return state.sessions.get(state.past) ?? { id: state.past, title: "Untitled" };
  return state.conversations.get(state.current);
}

function drawTitle() {
  const shown = shownNow();
  $("title").textContent = title(shown);
  document.title = shown?.title ? `${shown.title} – hermes-host` : "hermes-host";
  $("rename").hidden = $("delete").hidden = !shown;
  $("past").hidden = !state.past;
  $("input").placeholder = state.past ? "Write a message to continue here" : "Write a message";
}

// ---------------------------------------------------------------- messages

const scroll = $("scroll");
const atEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 90;

function toEnd() {
  scroll.scrollTop = scroll.scrollHeight;
}

/** Runs `change`; who read the end still reads the end. */
function keepingEnd(change) {
  const stay = atEnd();
  change();
  if (stay) toEnd();
  $("to-end").hidden = atEnd();
}

function drawLog() {
  const nodes = [];
  let last = "";
  for (const entry of state.entries) {
    const now = day(entry.at_ms);
    if (now !== last) nodes.push(make("p", "day", now));
    last = now;
    nodes.push(entryNode(entry));
  }
  for (const turn of turnsShown()) nodes.push(turnNode(turn));
  $("log").replaceChildren(...nodes);
  $("older").hidden = state.before === null;
  drawWelcome();
  drawStop();
}

function drawWelcome() {
  $("welcome").hidden = state.entries.length > 0 || state.turns.size > 0;
}

/** Returns the body of a message. `html` comes from the adapter, which escapes all text in it. */
function bodyNode(html) {
  const body = make("div", "body");
  body.innerHTML = html;
  for (const head of body.querySelectorAll("figcaption")) {
    const copy = make("button", "copy", "Copy");
    copy.type = "button";
    head.append(copy);
  }
  return body;
}

$("log").addEventListener("click", ({ target }) => {
  target.closest(".spoiler")?.classList.add("shown");
  const copy = target.closest(".copy");
  if (copy) copyText(copy, copy.closest("figure").querySelector("code").textContent);
});
$("log").addEventListener("keydown", ({ key, target }) => { if (key === "Enter") target.closest(".spoiler")?.classList.add("shown"); });

function entryNode(entry) {
  const body = typeof entry.html === "string" ? bodyNode(entry.html) : make("div", "body", make("p", "as-is", entry.text));
  if (entry.interrupted) body.append(make("p", "interrupted", "interrupted"));
  const node = make("article", `msg ${entry.from}`);
  node.dataset.id = entry.id;
  node.setAttribute("aria-label", entry.from === "me" ? "You" : entry.from === "notice" ? "Notice" : "Answer");
  if (entry.text) node.append(body);
  if (entry.files?.length) node.append(filesNode(entry.files));
  if (entry.choices) node.append(choicesNode(entry));
  const foot = make("footer");
  const time = make("time", "", clock.format(entry.at_ms));
  time.dateTime = new Date(entry.at_ms).toISOString();
  time.title = fullTime.format(entry.at_ms);
  foot.append(time);
  if (entry.from === "me" && !entry.id.startsWith("h-")) foot.append(statusNode(entry));
  if (entry.from === "agent" && entry.text) foot.append(copyButton(entry.text));
  node.append(foot);
  return node;
}

function statusNode(entry) {
  if (entry.failed) {
    const again = make("button", "again", "Try again");
    again.type = "button";
    again.addEventListener("click", () => post(entry));
    const why = make("span", "failed", `not sent: ${entry.failed}`);
    return make("span", "status", why, again);
  }
  const status = make("span", "status", statusOf(entry));
  if (entry.inbox_id) status.dataset.inbox = entry.inbox_id;
  return status;
}

/** How far a message came. It waits when its turn is not the next thing to happen. */
function statusOf(entry) {
  if (entry.sending) return "sending…";
  const turn = state.turns.get(entry.inbox_id);
  if (turn?.state === "stopped") return "stopped";
  if (turn?.state === "waiting" && !turnsShown().includes(turn)) return "waiting";
  return "sent";
}

function drawStatuses() {
  for (const node of $("log").querySelectorAll(".status[data-inbox]")) {
    const text = statusOf({ inbox_id: Number(node.dataset.inbox) });
    if (node.textContent !== text) node.textContent = text;
    node.classList.toggle("waiting", text === "waiting");
  }
}

/** The turns that have a place of their own: those that began, and the next one when none runs. */
function turnsShown() {
  const turns = [...state.turns.values()].filter((turn) => turn.state !== "stopped").sort((a, b) => a.inbox_id - b.inbox_id);
  const begun = turns.filter((turn) => turn.state !== "waiting");
  const next = begun.some((turn) => turn.state === "running") ? [] : turns.filter((turn) => turn.state === "waiting").slice(0, 1);
  return [...begun, ...next];
}

function copyButton(text) {
  const button = make("button", "copy-message", "Copy");
  button.type = "button";
  button.addEventListener("click", () => copyText(button, text));
  return button;
}

async function copyText(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch { button.textContent = "Not copied"; }
  setTimeout(() => { button.textContent = "Copy"; }, 1600);
}

function filesNode(files) {
  const list = make("ul", "files");
  for (const file of files) {
    const link = make("a");
    link.href = file.url;
    link.target = "_blank";
    link.rel = "noopener";
    if (/^image\/(png|jpeg|gif|webp)$/.test(file.mime)) {
      const image = make("img");
      image.src = file.url;
      image.alt = file.name;
      image.loading = "lazy";
      image.addEventListener("error", () => image.replaceWith(`${file.name} is not kept any more`));
      link.append(image);
    } else {
      link.className = "file";
      link.download = file.name;
      link.append(icon("M7 3h7l5 5v13H7ZM14 3v5h5"), make("span", "", file.name), make("small", "", size(file.size)));
    }
    list.append(make("li", "", link));
  }
  return list;
}

function choicesNode(entry) {
  const node = make("div", "choices");
  node.setAttribute("role", "group");
  node.setAttribute("aria-label", "Choose");
  const over = entry.choices.expires_at_ms && entry.choices.expires_at_ms < Date.now();
  for (const option of entry.choices.options) {
    const button = make("button", option.style || "", option.label);
    button.type = "button";
    button.disabled = Boolean(entry.chosen) || over;
    if (entry.chosen === option.id) button.classList.add("chosen");
    button.addEventListener("click", async () => {
      for (const other of node.children) other.disabled = true;
      try {
        await api("POST", `/api/conversations/${state.current}/choices`, { entry: entry.id, ask: entry.choices.ask, option: option.id });
        button.classList.add("chosen");
      } catch (error) {
        banner(`The answer was not accepted: ${error.message}`, "bad", true);
        for (const other of node.children) other.disabled = false;
      }
    });
    node.append(button);
  }
  if (over && !entry.chosen) node.append(make("small", "", "This question is closed."));
  return node;
}

function turnNode(turn) {
  const node = make("article", "msg agent live");
  node.dataset.turn = turn.inbox_id;
  node.setAttribute("aria-label", "The agent is answering");
  // The finished answer is read out, not each piece of it.
  node.setAttribute("aria-live", "off");
  fillTurn(node, turn);
  return node;
}

function fillTurn(node, turn) {
  const children = [];
  if (turn.html) children.push(bodyNode(turn.html));
  if (turn.state === "failed") {
    children.push(make("p", "failure", turn.reason || "the turn failed"));
  } else if (turn.state === "done" && turn.reason === "stopped") {
    children.push(make("p", "interrupted", "interrupted"));
  } else if (turn.state !== "done") {
    const dots = make("span", "dots", make("i"), make("i"), make("i"));
    children.push(make("p", "progress", dots, turn.progress || (turn.state === "waiting" ? "waiting" : turn.html ? "writing" : "thinking")));
  }
  node.replaceChildren(...children);
}

const stale = new Set();
let drawing = 0;

/** Draws a running turn soon: pieces that come close together are drawn at once. */
function drawTurn(id) {
  stale.add(id);
  if (!drawing) drawing = setTimeout(drawStale, 60);
}

function drawStale() {
  drawing = 0;
  keepingEnd(() => {
    const shown = turnsShown();
    for (const node of $("log").querySelectorAll("[data-turn]")) {
      if (!shown.some((turn) => turn.inbox_id === Number(node.dataset.turn))) node.remove();
    }
    for (const turn of shown) {
      const node = $("log").querySelector(`[data-turn="${turn.inbox_id}"]`);
      if (!node) $("log").append(turnNode(turn));
      else if (stale.has(turn.inbox_id)) fillTurn(node, turn);
    }
    stale.clear();
    drawStatuses();
    drawWelcome();
  });
  drawStop();
}

function runs() {
  return [...state.turns.values()].some((turn) => turn.state === "running" || turn.state === "waiting");
}

function drawStop() {
  $("stop").hidden = !runs();
}

/** The place of a new entry among the entries. An answer stands below its own question: before the first later message
    that has no answer yet. The adapter's log keeps the same order. */
function placeOf(entry) {
  const end = state.entries.length;
  if (entry.from !== "agent" || !entry.in_reply_to || entry.choices) return end;
  const isLater = (other) => other.from === "me" && (other.inbox_id ? other.inbox_id > entry.in_reply_to : other.sending);
  const at = state.entries.findIndex(isLater);
  return at < 0 || state.entries.slice(at).some((other) => other.from === "agent") ? end : at;
}

/** The node before which the node of a new entry belongs; null: at the end. */
function nodeBehind(entry, at) {
  if (at < state.entries.length) return $("log").querySelector(`[data-id="${CSS.escape(state.entries[at].id)}"]`);
  const live = [...$("log").querySelectorAll(".live")];
  // A message stands above its own answer, also when that began first.
  if (entry.from === "me") return live.find((node) => entry.inbox_id && Number(node.dataset.turn) >= entry.inbox_id) || null;
  const last = live[live.length - 1];
  return entry.from === "notice" && last && last === $("log").lastElementChild ? last : null;
}

/** Puts an entry in, or in the place of the one with its id. */
function putEntry(entry) {
  const at = state.entries.findIndex((known) => known.id === entry.id);
  keepingEnd(() => {
    const node = entryNode(entry);
    if (at >= 0) {
      const wasLast = state.entries[at].sending || state.entries[at].failed;
      state.entries[at] = entry;
      const old = $("log").querySelector(`[data-id="${CSS.escape(entry.id)}"]`);
      if (old) old.replaceWith(node); else $("log").append(node);
      if (wasLast) drawWelcome();
    } else {
      const place = placeOf(entry);
      const behind = nodeBehind(entry, place);
      const last = state.entries[place - 1];
      state.entries.splice(place, 0, entry);
      if (!last || day(last.at_ms) !== day(entry.at_ms)) $("log").insertBefore(make("p", "day", day(entry.at_ms)), behind);
      $("log").insertBefore(node, behind);
    }
    if (entry.in_reply_to !== null && entry.in_reply_to !== undefined) answered(entry.in_reply_to, entry.from === "agent");
    drawWelcome();
  });
}

/** The answer is there: what was streamed goes, and nothing before it waits any more.
    A word of the host ends only the wait. */
function answered(inboxId, isAnswer) {
  for (const [id, turn] of state.turns) {
    const over = isAnswer ? id === inboxId || (id < inboxId && turn.state === "waiting") : id === inboxId && turn.state !== "running";
    if (over) {
      state.turns.delete(id);
      $("log").querySelector(`[data-turn="${id}"]`)?.remove();
    }
  }
  // Another one may be the next now.
  drawTurn(inboxId);
  drawStop();
}

// ---------------------------------------------------------------- opening

async function open(id) {
  const token = (state.opening += 1);
  saveDraft();
  // What could not be sent yet stays when the same conversation is read anew.
  const again = id === state.current;
  state.entries = again ? state.entries.filter((entry) => entry.sending || entry.failed) : [];
  state.uploads = again ? state.uploads : [];
  state.current = id;
  state.past = null;
  state.turns = new Map();
  state.before = null;
  drawUploads();
  showSidebar(false);
  drawList();
  drawLog();
  loadDraft();
  state.held = null;
  if (!id) { focusInput(); return; }
  $("welcome").hidden = true;
  state.held = [];
  try {
    const answer = await api("GET", `/api/conversations/${id}`);
    if (token !== state.opening) return;
    const sending = state.entries;
    state.entries = answer.entries;
    state.before = answer.before;
    state.known = cursorOf(answer.cursor);
    for (const turn of answer.turns) state.turns.set(turn.inbox_id, turn);
    for (const entry of sending) if (!state.entries.some((known) => known.id === entry.id)) state.entries.push(entry);
    drawLog();
    const held = state.held;
    state.held = null;
    for (const [event, cursor] of held) take(event, cursor);
    toEnd();
    $("to-end").hidden = true;
    seen();
  } catch (error) {
    if (token === state.opening) {
      state.held = null;
      banner(`The conversation cannot be loaded: ${error.message}`, "bad");
    }
  }
  focusInput();
}

/** Reads a session that has no conversation here. */
async function openPast(id) {
  if (id === state.past) return;
  await open(null);
  const token = state.opening;
  state.past = id;
  $("welcome").hidden = true;
  drawList();
  try {
    const answer = await api("GET", `/api/sessions/${encodeURIComponent(id)}`);
    if (token !== state.opening) return;
    state.sessions.set(id, answer.session);
    state.entries = answer.entries;
    drawList();
    drawLog();
    toEnd();
  } catch (error) {
    if (token === state.opening) banner(`The conversation cannot be loaded: ${error.message}`, "bad", true);
  }
}

async function openOlder() {
  const id = state.current;
  const answer = await api("GET", `/api/conversations/${id}?before=${state.before}`);
  if (id !== state.current) return;
  const height = scroll.scrollHeight;
  state.entries = [...answer.entries, ...state.entries];
  state.before = answer.before;
  drawLog();
  scroll.scrollTop += scroll.scrollHeight - height;
}

function seen() {
  const conversation = state.conversations.get(state.current);
  if (conversation?.unread && document.visibilityState === "visible") {
    conversation.unread = false;
    api("POST", `/api/conversations/${conversation.id}/seen`).catch(() => { /* The dot stays until the next look. */ });
  }
}

function focusInput() {
  if (matchMedia("(pointer: fine)").matches) $("input").focus();
}

function route() {
  const id = location.hash.slice(1);
  const past = pastIn(id);
  if (past) { openPast(past); return; }
  const known = state.conversations.has(id) ? id : null;
  if (known !== state.current || !known) open(known);
}

// ---------------------------------------------------------------- the stream

let source = null;
let reconnect = 0;

function listen() {
  clearTimeout(reconnect);
  source?.close();
  source = new EventSource(`/api/stream?after=${encodeURIComponent(state.cursor)}`);
  source.onopen = () => { if ($("banner").classList.contains("lost")) banner(""); };
  source.onmessage = (message) => {
    state.cursor = message.lastEventId || state.cursor;
    take(JSON.parse(message.data), cursorOf(message.lastEventId));
  };
  source.onerror = () => {
    banner("The host cannot be reached. Trying again…", "lost");
    // A browser that gave up is started again here, from the last event it had.
    if (source.readyState === EventSource.CLOSED) reconnect = setTimeout(check, 2000);
  };
}

async function check() {
  try {
    const response = await fetch("/api/state");
    if (response.status === 401) {
      banner("The link of this page is no longer valid. Open the link that hermes-host webchat link prints.", "bad");
      return;
    }
    if (response.ok) { listen(); return; }
  } catch { /* Not there yet. */ }
  reconnect = setTimeout(check, 2000);
}

function cursorOf(text) {
  const [incarnation, seq] = text.split(".");
  return { incarnation, seq: Number(seq) };
}

function take(event, cursor) {
  const here = (event.turn?.conversation ?? event.conversation) === state.current;
  if (here && ["entry", "turn", "progress", "chunk", "turn_end"].includes(event.type)) {
    if (state.held) { state.held.push([event, cursor]); return; }
    if (cursor.incarnation === state.known.incarnation && cursor.seq <= state.known.seq) return;
  }
  switch (event.type) {
    case "reset":
      start();
      break;
    case "conversation":
      state.conversations.set(event.conversation.id, event.conversation);
      if (event.conversation.id === state.current) seen();
      drawList();
      break;
    case "deleted":
      state.conversations.delete(event.conversation);
      if (here) { location.hash = ""; open(null); } else drawList();
      break;
    case "sessions":
      state.sessions = new Map(event.sessions.map((session) => [session.id, session]));
      drawList();
      break;
    case "entry":
      if (here) putEntry(event.entry);
      break;
    case "turn":
      if (here) {
        state.turns.set(event.turn.inbox_id, event.turn);
        drawTurn(event.turn.inbox_id);
      }
      break;
    case "progress":
      withTurn(event, (turn) => { turn.progress = event.text; turn.state = "running"; });
      break;
    case "chunk":
      withTurn(event, (turn) => {
        if (event.html !== undefined) turn.html = turn.html.slice(0, event.html_at) + event.html;
        turn.progress = "";
        turn.state = "running";
      });
      break;
    case "turn_end":
      withTurn(event, (turn) => {
        turn.state = event.state;
        turn.reason = event.reason;
        if (event.reason === "stopped" && !turn.html) turn.state = "stopped";
        else if (event.reason === "silent" || (event.state === "done" && !turn.html)) state.turns.delete(event.inbox_id);
      });
      break;
    case "commands":
      state.commands = event.commands;
      break;
    default:
      break;
  }
}

function withTurn(event, change) {
  const turn = event.conversation === state.current && state.turns.get(event.inbox_id);
  if (!turn) return;
  change(turn);
  drawTurn(event.inbox_id);
}

// ---------------------------------------------------------------- sending

async function conversation() {
  if (state.current) return state.current;
  const past = state.past;
  const made = await api("POST", past ? `/api/sessions/${encodeURIComponent(past)}/conversation` : "/api/conversations");
  state.conversations.set(made.id, made);
  if (past) state.sessions.delete(past);
  if (state.past !== past || state.current) return made.id;
  history.replaceState(null, "", `#${made.id}`);
  if (past) {
    await open(made.id);
  } else {
    state.current = made.id;
    drawList();
  }
  return made.id;
}

async function send() {
  const input = $("input");
  const text = input.value.trim();
  if (!text && !state.uploads.length) return;
  if (state.uploads.some((upload) => !upload.id && !upload.failed)) {
    banner("A file is still on its way.", "", true);
    return;
  }
  const files = state.uploads.filter((upload) => upload.id);
  const entry = {
    id: randomId(),
    from: "me",
    text,
    at_ms: Date.now(),
    markdown: false,
    files: files.map((upload) => ({ url: upload.preview, name: upload.name, mime: upload.mime, size: upload.size })),
    upload_ids: files.map((upload) => upload.id),
    sending: true,
  };
  input.value = "";
  state.uploads = [];
  drawUploads();
  grow();
  hideCommands();
  await post(entry);
}

/** Sends an entry, or sends it again: its id makes the two one. */
async function post(entry) {
  entry.sending = true;
  entry.failed = "";
  putEntry(entry);
  toEnd();
  let id = null;
  try {
    id = await conversation();
    clearDraft(id);
    const kept = await api("POST", `/api/conversations/${id}/messages`, { id: entry.id, text: entry.text, files: entry.upload_ids || [] });
    if (id === state.current) putEntry(kept);
  } catch (error) {
    entry.sending = false;
    entry.failed = error.message;
    // The stream may have brought it although the answer was lost.
    const known = state.entries.find((other) => other.id === entry.id);
    if (known && !known.sending && known !== entry) return;
    if (id === null || id === state.current) putEntry(entry);
  }
}

async function stop() {
  if (!runs()) return;
  try {
    const { stopped } = await api("POST", `/api/conversations/${state.current}/stop`);
    if (!stopped) banner("Nothing was running any more.", "", true);
  } catch (error) {
    banner(`Stopping failed: ${error.message}`, "bad", true);
  }
}

// ---------------------------------------------------------------- files

async function addFiles(files) {
  for (const file of [...files].slice(0, 10 - state.uploads.length)) {
    const upload = { name: file.name || "picture.png", mime: file.type || "application/octet-stream", size: file.size, progress: 0, id: null, failed: "" };
    upload.preview = URL.createObjectURL(file);
    state.uploads.push(upload);
    drawUploads();
    if (file.size > state.uploadMax) {
      upload.failed = `larger than ${size(state.uploadMax)}`;
      drawUploads();
      continue;
    }
    try {
      const id = await conversation();
      upload.id = (await put(`/api/conversations/${id}/files?name=${encodeURIComponent(upload.name)}`, file, upload)).id;
    } catch (error) {
      upload.failed = error.message;
    }
    drawUploads();
  }
}

/** Uploads with a bar, which `fetch` cannot show. */
function put(path, file, upload) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.setRequestHeader("content-type", upload.mime);
    request.upload.onprogress = (event) => {
      upload.progress = event.lengthComputable ? event.loaded / event.total : 0;
      upload.bar?.style.setProperty("width", `${Math.round(upload.progress * 100)}%`);
    };
    request.onerror = () => reject(new Error("the host cannot be reached"));
    request.onload = () => {
      let answer = {};
      try { answer = JSON.parse(request.responseText); } catch { /* The status says enough. */ }
      if (request.status === 200) resolve(answer);
      else reject(new Error(answer.error || `the host answered ${request.status}`));
    };
    request.send(file);
  });
}

function drawUploads() {
  const list = $("uploads");
  list.hidden = !state.uploads.length;
  list.replaceChildren(...state.uploads.map((upload) => {
    upload.bar = make("span", "bar-fill");
    const remove = make("button", "remove", "×");
    remove.type = "button";
    remove.setAttribute("aria-label", `Remove ${upload.name}`);
    remove.addEventListener("click", () => {
      state.uploads = state.uploads.filter((other) => other !== upload);
      drawUploads();
    });
    const note = upload.failed || (upload.id ? size(upload.size) : "adding…");
    const node = make("li", upload.failed ? "bad" : "", make("span", "name", upload.name), make("small", "", note), remove);
    if (!upload.id && !upload.failed) node.append(upload.bar);
    return node;
  }));
}

// ---------------------------------------------------------------- the message field

function grow() {
  const input = $("input");
  input.style.height = "auto";
  input.style.height = `${Math.min(input.scrollHeight, innerHeight * 0.4)}px`;
  $("send").disabled = !input.value.trim() && !state.uploads.length;
}

const draftKey = (id) => `draft:${id || "new"}`;

function saveDraft() {
  try {
    const text = $("input").value;
    if (text) sessionStorage.setItem(draftKey(state.current), text.slice(0, 20_000));
    else sessionStorage.removeItem(draftKey(state.current));
  } catch { /* Without storage a draft is lost on leaving. */ }
}

function loadDraft() {
  let text = "";
  try { text = sessionStorage.getItem(draftKey(state.current)) || ""; } catch { /* As above. */ }
  $("input").value = text;
  grow();
}

function clearDraft(id) {
  try { sessionStorage.removeItem(draftKey(id)); sessionStorage.removeItem(draftKey(null)); } catch { /* As above. */ }
}

let commandAt = 0;
/** Whether the menu was walked through with the arrows. */
let walked = false;

/** What may be meant: commands, or the words that may follow one. */
function completions() {
  const [, name, gap, word] = /^\/([^\s/]*)(\s+(\S*))?$/.exec($("input").value) ?? [];
  if (name === undefined) return [];
  if (gap === undefined) {
    const found = state.commands.filter((command) => command.name.startsWith(name.toLowerCase()));
    return found.map((command) => ({ text: `/${command.name}`, args: command.args, help: command.help }));
  }
  const command = state.commands.find((known) => known.name === name.toLowerCase());
  const values = (command?.values ?? []).filter((value) => value.startsWith(word.toLowerCase()) && value !== word);
  return values.map((value) => ({ text: `/${command.name} ${value}`, args: "", help: "" }));
}

function drawCommands() {
  const found = completions();
  commandAt = Math.min(commandAt, Math.max(0, found.length - 1));
  const menu = $("commands");
  menu.hidden = !found.length;
  $("input").setAttribute("aria-expanded", String(found.length > 0));
  menu.replaceChildren(...found.map((command, n) => {
    const item = make("li", "", make("strong", "", command.text), command.args ? make("em", "", command.args) : "", make("span", "", command.help));
    item.id = `command-${n}`;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", String(n === commandAt));
    item.addEventListener("mousedown", (event) => { event.preventDefault(); takeCommand(command); });
    return item;
  }));
  if (found.length) $("input").setAttribute("aria-activedescendant", `command-${commandAt}`);
  else $("input").removeAttribute("aria-activedescendant");
  $(`command-${commandAt}`)?.scrollIntoView({ block: "nearest" });
  return found;
}

function hideCommands() {
  $("commands").hidden = true;
  $("input").setAttribute("aria-expanded", "false");
}

function takeCommand(command) {
  $("input").value = `${command.text} `;
  [commandAt, walked] = [0, false];
  grow();
  $("input").focus();
  drawCommands();
}

$("input").addEventListener("input", () => { [commandAt, walked] = [0, false]; grow(); drawCommands(); });

$("input").addEventListener("keydown", (event) => {
  const found = $("commands").hidden ? [] : completions();
  if (found.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault();
    commandAt = (commandAt + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length;
    walked = true;
    drawCommands();
    return;
  }
  if (found.length && event.key === "Tab") { event.preventDefault(); takeCommand(found[commandAt]); return; }
  if (found.length && event.key === "Escape") { event.stopPropagation(); hideCommands(); return; }
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    // A command without more words is whole; only what was begun, or chosen, is completed.
    const written = $("input").value;
    const whole = found.some((command) => command.text === written.trim()) || /\s$/.test(written);
    if (found.length && (walked || !whole)) takeCommand(found[commandAt]);
    else send();
  }
});

$("input").addEventListener("blur", hideCommands);

$("input").addEventListener("paste", (event) => {
  const files = [...event.clipboardData.files];
  if (files.length) { event.preventDefault(); addFiles(files).then(grow); }
});

$("composer").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("stop").addEventListener("click", stop);
$("slash").addEventListener("click", () => {
  if (!$("input").value) $("input").value = "/";
  $("input").focus();
  grow();
  drawCommands();
});
$("attach").addEventListener("click", () => $("files").click());
$("files").addEventListener("change", () => { addFiles($("files").files).then(grow); $("files").value = ""; });

let dragged = 0;
addEventListener("dragenter", (event) => { if (event.dataTransfer?.types.includes("Files")) { dragged += 1; $("drop").hidden = false; } });
addEventListener("dragleave", () => { dragged = Math.max(0, dragged - 1); if (!dragged) $("drop").hidden = true; });
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  dragged = 0;
  $("drop").hidden = true;
  if (event.dataTransfer?.files.length) addFiles(event.dataTransfer.files).then(grow);
});

// ---------------------------------------------------------------- dialogs

/** Asks; resolves to the text, to true, or to null. */
function ask({ title: heading, text = "", value = null, yes, danger = false }) {
  return new Promise((resolve) => {
    const dialog = $("ask");
    $("ask-title").textContent = heading;
    $("ask-text").textContent = text;
    $("ask-text").hidden = !text;
    $("ask-input").hidden = value === null;
    $("ask-input").value = value ?? "";
    $("ask-yes").textContent = yes;
    $("ask-yes").className = danger ? "danger" : "primary";
    let answer = null;
    $("ask-form").onsubmit = () => { answer = value === null ? true : $("ask-input").value.trim(); };
    $("ask-no").onclick = () => dialog.close();
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
    if (value !== null) $("ask-input").select();
  });
}

/** The address of what is open, for changing it. */
const addressOf = (shown) => (state.past ? `/api/sessions/${encodeURIComponent(shown.id)}` : `/api/conversations/${shown.id}`);

$("rename").addEventListener("click", async () => {
  const now = shownNow();
  const address = now && addressOf(now);
  const name = now && await ask({ title: "Rename this conversation", value: now.title ?? "", yes: "Rename" });
  if (!name) return;
  try {
    const kept = await api("PATCH", address, { title: name });
    if (kept.title && kept.title !== name) banner(`“${name}” is taken; it is called “${kept.title}”.`, "", true);
  } catch (error) { banner(`Renaming failed: ${error.message}`, "bad", true); }
});

$("delete").addEventListener("click", async () => {
  const now = shownNow();
  const address = now && addressOf(now);
  const past = state.past;
  const sure = now && await ask({ title: "Delete this conversation?", text: `“${title(now)}” and its messages will be deleted.`, yes: "Delete", danger: true });
  if (!sure) return;
  try {
    await api("DELETE", address);
    if (past && past === state.past) go("");
  } catch (error) { banner(`Deleting failed: ${error.message}`, "bad", true); }
});

let paletteAt = 0;

/** Where the host found the words that were typed last. */
let hits = [];
let searching = 0;

/** What the words may mean: titles first, then what was said. */
function paletteItems() {
  const words = $("palette-input").value.toLowerCase().split(/\s+/).filter(Boolean);
  const past = [...state.sessions.values()].map((session) => ({ ...session, id: PAST + encodeURIComponent(session.id), title: session.title || "Untitled" }));
  const sorted = [...state.conversations.values(), ...past].sort(newest);
  const found = sorted.filter((item) => words.every((word) => title(item).toLowerCase().includes(word))).slice(0, 50);
  if (!words.length) return [{ id: "", title: "New conversation" }, ...found];
  return [...found, ...hits];
}

async function search() {
  const words = $("palette-input").value.trim();
  if (words.length < 2) return;
  try {
    const answer = await api("GET", `/api/search?q=${encodeURIComponent(words)}`);
    if (words !== $("palette-input").value.trim()) return;
    hits = answer.map((hit) => ({
      id: hit.conversation || PAST + encodeURIComponent(hit.session),
      title: hit.title || "Untitled",
      updated_ms: hit.at_ms,
      snippet: hit.snippet,
    }));
    drawPalette();
  } catch { /* Titles are found without the host. */ }
}

/** A place that was found, its words marked. */
function snippetNode(snippet) {
  const node = make("span", "snippet");
  for (const [n, piece] of snippet.split(/>>>|<<</).entries()) node.append(n % 2 ? make("mark", "", piece) : piece);
  return node;
}

function drawPalette() {
  const items = paletteItems();
  paletteAt = Math.min(paletteAt, Math.max(0, items.length - 1));
  $("palette-list").replaceChildren(...items.map((item, n) => {
    const name = make("span", "", title(item));
    if (item.snippet) name.append(snippetNode(item.snippet));
    const node = make("li", item.id ? "" : "fresh", name, item.updated_ms ? make("small", "", day(item.updated_ms)) : "");
    node.id = `palette-${n}`;
    node.setAttribute("role", "option");
    node.setAttribute("aria-selected", String(n === paletteAt));
    node.addEventListener("click", () => takePalette(item));
    return node;
  }));
  if (!items.length) $("palette-list").append(make("li", "none", "No results"));
  $("palette-input").setAttribute("aria-activedescendant", `palette-${paletteAt}`);
  $(`palette-${paletteAt}`)?.scrollIntoView({ block: "nearest" });
}

function takePalette(item) {
  $("palette").close();
  go(item.id);
}

function openPalette() {
  if ($("ask").open) return;
  $("palette-input").value = "";
  paletteAt = 0;
  hits = [];
  drawPalette();
  if (!$("palette").open) $("palette").showModal();
  $("palette-input").focus();
}

function go(id) {
  if (location.hash.slice(1) === id) { if (!id) open(null); return; }
  if (id) location.hash = id;
  else { history.pushState(null, "", location.pathname); open(null); }
}

$("palette-input").addEventListener("input", () => {
  paletteAt = 0;
  hits = [];
  drawPalette();
  clearTimeout(searching);
  searching = setTimeout(search, 150);
});
$("palette-input").addEventListener("keydown", (event) => {
  const items = paletteItems();
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (items.length) paletteAt = (paletteAt + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length;
    drawPalette();
  } else if (event.key === "Enter") {
    event.preventDefault();
    if (items[paletteAt]) takePalette(items[paletteAt]);
  }
});
for (const dialog of [$("palette"), $("ask")]) {
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}

// ---------------------------------------------------------------- the frame

function showSidebar(on) {
  $("app").classList.toggle("with-sidebar", on);
  $("menu").setAttribute("aria-expanded", String(on));
}

$("menu").addEventListener("click", () => showSidebar(!$("app").classList.contains("with-sidebar")));
$("shade").addEventListener("click", () => showSidebar(false));
$("new").addEventListener("click", () => go(""));
$("find").addEventListener("click", openPalette);
$("older").addEventListener("click", () => openOlder().catch((error) => banner(`Earlier messages cannot be loaded: ${error.message}`, "bad", true)));
$("to-end").addEventListener("click", toEnd);
scroll.addEventListener("scroll", () => { $("to-end").hidden = atEnd(); }, { passive: true });

$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch { /* It holds until the page is left. */ }
});

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
  } else if (event.key === "Escape" && !$("palette").open && !$("ask").open) {
    if ($("app").classList.contains("with-sidebar")) showSidebar(false);
    else stop();
  }
});
addEventListener("hashchange", route);
addEventListener("popstate", route);
addEventListener("visibilitychange", seen);
addEventListener("pagehide", saveDraft);
if (/Mac|iPhone|iPad/.test(navigator.platform)) $("find-key").textContent = "⌘ K";

async function start() {
  try {
    const answer = await api("GET", "/api/state");
    state.cursor = answer.cursor;
    state.conversations = new Map(answer.conversations.map((item) => [item.id, item]));
    state.sessions = new Map(answer.sessions.map((item) => [item.id, item]));
    state.instance = answer.instance;
    state.commands = answer.commands;
    state.uploadMax = answer.upload_bytes_max;
    banner("");
    drawList();
    listen();
    const id = location.hash.slice(1);
    if (pastIn(id)) {
      state.past = null;
      await openPast(pastIn(id));
    } else {
      await open(state.conversations.has(id) ? id : null);
    }
  } catch (error) {
    banner(`The conversations cannot be loaded: ${error.message}`, "lost");
    reconnect = setTimeout(start, 2000);
  }
}

// A link on another site opens the page with its token, which does not belong into the history.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);
start();
