// A Slack emulator for the end-to-end tests: the state and the Web API of `emulate` (its Slack plugin), with the
// missing parts: Socket Mode with its three seconds, signed requests of the Events API with their retries,
// `app_mention`, buttons, slash commands, the app's status, a second workspace, faults, and a check of every call
// against Slack's own limits. check_slack_host.py checks it with the official SDK.
//
//   node slack_host.mjs MODULES PORT SEED [EVENTS_URL]
//
// Without EVENTS_URL deliveries go to the sockets. `POST /_sim/WHAT` controls the people and the faults.
import { createHmac, randomUUID } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [, , modules, portText, seedFile, eventsUrl] = process.argv;
const require = createRequire(join(modules, 'package.json'));
const { createServer, serve } = await import(pathToFileURL(join(modules, 'node_modules/@emulators/core/dist/index.js')));
const { WebSocketServer } = require('ws');
const dist = join(modules, 'node_modules/emulate/dist');
const file = readdirSync(dist).find((name) => /^dist-.*\.js$/.test(name) && readFileSync(join(dist, name), 'utf8').includes('"/api/chat.postMessage"'));
const { slackPlugin, getSlackStore, seedFromConfig } = await import(pathToFileURL(join(dist, file)));

const port = Number(portText);
const seed = JSON.parse(readFileSync(seedFile, 'utf8'));
const baseUrl = `http://127.0.0.1:${port}`;
const { app_id: APP, bot_user_id: BOT } = seed.oauth_apps[0];
const SECOND = { token: 'xoxb-second', team_id: 'T000000002', team: 'Second', user: 'hermes', user_id: 'U0HERMES2', bot_id: 'B0HERMES2' };
const ACK_MS = 3000, DELIVERIES_MAX = 4;

let slack, turn = 0, held = null, release = () => {};
const sockets = [], waiting = new Map(), journal = [], errors = [], faults = [], log = { acks: 0, late: 0, opened: 0, fetches: 0, requests: [], responses: [] };

// ---- deliveries

const pick = () => sockets.length && sockets[turn++ % sockets.length];

function envelope(type, payload, attempt = 0) {
  const id = randomUUID(), socket = pick();
  const again = () => {
    waiting.delete(id);
    log.late++;
    if (attempt + 1 < DELIVERIES_MAX) envelope(type, payload, attempt + 1);
  };
  // A delivery that no socket accepts is repeated, like one without an acknowledgement.
  waiting.set(id, setTimeout(again, ACK_MS));
  const retry = type === 'events_api' ? { retry_attempt: attempt, retry_reason: attempt ? 'timeout' : '' } : {};
  if (socket) socket.send(JSON.stringify({ envelope_id: id, type, accepts_response_payload: type !== 'events_api', payload, ...retry }));
  return id;
}

async function request(path, type, body, attempt = 0, at = Math.floor(Date.now() / 1000), secret = seed.signing_secret) {
  const signature = 'v0=' + createHmac('sha256', secret).update(`v0:${at}:${body}`).digest('hex');
  const headers = { 'content-type': type, 'x-slack-request-timestamp': String(at), 'x-slack-signature': signature };
  if (attempt) Object.assign(headers, { 'x-slack-retry-num': String(attempt), 'x-slack-retry-reason': 'http_timeout' });
  let status = 0, text = '';
  try {
    const answer = await fetch(new URL(path, eventsUrl), { method: 'POST', body, headers, signal: AbortSignal.timeout(ACK_MS) });
    [status, text] = [answer.status, await answer.text()];
  } catch { /* a request that fails is repeated as one that is refused */ }
  log.requests.push({ path, status, attempt });
  if (status !== 200 && attempt + 1 < DELIVERIES_MAX && secret === seed.signing_secret) setTimeout(() => request(path, type, body, attempt + 1, at, secret), 500);
  return { status, text };
}

const deliver = (payload) => (eventsUrl ? request('/slack/events', 'application/json', JSON.stringify(payload)) : envelope('events_api', payload));

function wrapped(event, more = {}) {
  const team = more.team_id ?? 'T000000001';
  return {
    token: 'verification', api_app_id: APP, team_id: team, type: 'event_callback', event_id: 'Ev' + randomUUID().slice(0, 8).toUpperCase(),
    event_time: Math.floor(Date.now() / 1000), authorizations: [{ enterprise_id: null, team_id: team, user_id: BOT, is_bot: true }], ...more, event,
  };
}

async function dispatch(type, _action, payload) {
  const event = payload.event ?? {};
  if (event.type !== 'message') return;
  const channel = slack.channels.findOneBy('channel_id', event.channel);
  event.channel_type = channel?.is_im ? 'im' : channel?.is_mpim ? 'mpim' : channel?.is_private ? 'group' : 'channel';
  event.event_ts ??= event.ts;
  if (event.user === BOT) event.bot_id = seed.oauth_apps[0].bot_id;
  if (event.thread_ts) {
    const root = slack.messages.all().find((one) => one.ts === event.thread_ts && one.channel_id === event.channel);
    if (root && root.ts !== event.ts) event.parent_user_id = root.user;
  }
  await deliver(wrapped(event));
  const mentions = !event.subtype && event.user !== BOT && event.text?.includes(`<@${BOT}>`) && !channel?.is_im;
  if (mentions) {
    const { channel_type, ...rest } = event;
    await deliver(wrapped({ ...rest, type: 'app_mention' }));
  }
}

// ---- actions of people and the platform

const sim = {
  // Buttons and slash commands.
  interactive: (payload) => (eventsUrl
    ? request('/slack/interactive', 'application/x-www-form-urlencoded', 'payload=' + encodeURIComponent(JSON.stringify(payload)))
    : { envelope: envelope('interactive', payload) }),
  slash: (payload) => (eventsUrl
    ? request('/slack/commands', 'application/x-www-form-urlencoded', new URLSearchParams(payload).toString())
    : { envelope: envelope('slash_commands', payload) }),
  event: ({ event, ...more }) => deliver(wrapped(event, more)),
  raw: ({ path, body, at, secret, type }) => request(path, type ?? 'application/json', body, 0, at, secret),
  press: ({ channel, ts, value, user }) => {
    const message = slack.messages.all().find((one) => one.ts === ts && one.channel_id === channel);
    const buttons = (message?.blocks ?? []).flatMap((block) => block.elements ?? []);
    const button = buttons.find((one) => one.value === value);
    if (!button) return { error: 'there is no such button', buttons };
    return sim.interactive({
      type: 'block_actions', user: { id: user, team_id: 'T000000001' }, api_app_id: APP, team: { id: 'T000000001' }, trigger_id: randomUUID(),
      container: { type: 'message', message_ts: ts, channel_id: channel, is_ephemeral: false, ...(message.thread_ts ? { thread_ts: message.thread_ts } : {}) },
      channel: { id: channel }, message: { type: 'message', ts, text: message.text, blocks: message.blocks, ...(message.thread_ts ? { thread_ts: message.thread_ts } : {}) },
      actions: [{ type: 'button', action_id: button.action_id, block_id: 'x', value, action_ts: `${Math.floor(Date.now() / 1000)}.000${Math.floor(Math.random() * 900 + 100)}` }],
    });
  },
  // The next `times` calls of `method` fail: 429, 500, cut (executed, but the connection breaks), hold (not executed)
  // and hold_after (executed), both never answered, or a Slack error code.
  fault: (fault) => { faults.push({ times: 1, ...fault }); return {}; },
  disconnect: ({ reason }) => { for (const one of [...sockets]) one.send(JSON.stringify({ type: 'disconnect', reason, debug_info: { host: 'applink' } })); return {}; },
  // The connection breaks without a message.
  cut: () => { for (const one of [...sockets]) one.terminate(); return {}; },
  // The connection stays open and transfers nothing more.
  silence: () => { for (const one of sockets.splice(0)) { one.removeAllListeners('message'); one._socket.pause(); } return {}; },
  // Files are not served while `on`.
  hold: ({ on }) => { release(); held = on ? new Promise((go) => { release = go; }) : null; return {}; },
  // Response of the slash command's URL.
  respond: (said) => { log.responses.push(said); return {}; },
  state: () => ({ journal, errors, sockets: sockets.length, waiting: waiting.size, ...log }),
  messages: ({ channel }) => slack.messages.all().filter((one) => one.channel_id === channel),
  ephemeral: ({ channel }) => slack.ephemeralMessages.all().filter((one) => one.channel_id === channel),
};

// ---- check of every call against Slack's limits, before the emulator handles it

const json = (body, status = 200, headers = {}) => new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });

function judge(method, call) {
  const fault = (what) => errors.push(`${method}: ${what}`);
  if (['chat.postMessage', 'chat.update', 'chat.postEphemeral'].includes(method)) {
    if (method !== 'chat.update' && (call.text ?? '').length > 4000) fault('the text is longer than 4000 characters, and Slack makes several messages of it');
    if (/<(?!https?:|mailto:|tel:|ftp:|[@#!][A-Z]|\/)/.test(call.text ?? '')) fault(`an unescaped < in ${call.text}`);
    if (method === 'chat.update' && Buffer.byteLength(call.text ?? '') > 4000) return 'msg_too_long';
    const blocks = typeof call.blocks === 'string' ? JSON.parse(call.blocks) : call.blocks ?? [];
    if (blocks.length > 50) fault('more than 50 blocks');
    for (const block of blocks) {
      if (block.type === 'section' && !(block.text.text.length >= 1 && block.text.text.length <= 3000)) fault('a section of another length');
      if (block.type === 'actions' && block.elements.length > 25) fault('more than 25 elements');
      for (const one of block.elements ?? []) if (one.text.text.length > 75 || one.value.length > 2000) fault('a button that is too long');
    }
  }
  if (call.thread_ts && !/^\d+\.\d+$/.test(call.thread_ts)) fault(`no thread: ${call.thread_ts}`);
  return null;
}

async function handle(raw, app) {
  const { pathname } = new URL(raw.url);
  if (pathname.startsWith('/_sim/')) {
    const body = await raw.text();
    return json((await sim[pathname.slice(6)](body ? JSON.parse(body) : {})) ?? {});
  }
  if (pathname.startsWith('/files-pri/')) { log.fetches++; await held; }
  const method = pathname.startsWith('/api/') ? pathname.slice(5) : pathname.startsWith('/upload/') ? 'upload' : null;
  const token = (raw.headers.get('authorization') ?? '').replace(/^Bearer /, '');
  if (!method || !token.startsWith('xoxb-') && !token.startsWith('xapp-') && method !== 'upload') return app.fetch(raw);
  const bytes = await raw.arrayBuffer();
  const type = raw.headers.get('content-type') ?? '', text = Buffer.from(bytes).toString();
  const call = type.startsWith('application/json') ? JSON.parse(text || '{}')
    : type.startsWith('application/x-www-form-urlencoded') ? Object.fromEntries(new URLSearchParams(text)) : {};
  const entry = { method, token, call, at: Date.now() / 1000 };
  journal.push(entry);
  const at = faults.findIndex((one) => one.method === method && one.times > 0 && (!one.channel || one.channel === call.channel));
  const fault = at < 0 ? null : faults[at];
  if (fault && --fault.times === 0) faults.splice(at, 1);
  if (fault) entry.fault = fault.kind;
  if (fault?.kind === 'hold') await new Promise(() => {});
  if (fault?.kind === 429) return json({ ok: false, error: 'ratelimited' }, 429, { 'retry-after': String(fault.after ?? 1) });
  if (fault?.kind === 500) return new Response('<html>upstream</html>', { status: 502 });
  if (fault && !['cut', 'hold_after'].includes(fault.kind)) return json({ ok: false, error: fault.kind });
  const refusal = judge(method, call);
  if (refusal) return json({ ok: false, error: refusal });
  if (method === 'apps.connections.open') {
    if (!token.startsWith('xapp-')) return json({ ok: false, error: 'not_allowed_token_type' });
    log.opened++;
    return json({ ok: true, url: `ws://127.0.0.1:${port}/link/?ticket=${randomUUID()}&app_id=${APP}` });
  }
  if (method === 'assistant.threads.setStatus') return json({ ok: true });
  if (token === SECOND.token && method === 'auth.test') return json({ ok: true, ...SECOND, token: undefined });
  const headers = new Headers(raw.headers);
  // The second workspace's token writes to the same state.
  if (token === SECOND.token) headers.set('authorization', `Bearer ${seed.tokens[0].token}`);
  const answer = await app.fetch(new Request(raw.url, { method: raw.method, headers, body: raw.method === 'POST' ? bytes : undefined }));
  // The call is executed, but not answered.
  if (fault?.kind === 'hold_after') await new Promise(() => {});
  if (fault?.kind === 'cut') return new Response(new ReadableStream({ start: (stream) => stream.error(new Error('cut')) }));
  return answer;
}

const hooks = { setHeaderFactory() {}, getSubscriptions: () => [], getDeliveries: () => [], clear() {}, dispatch };
const plugin = {
  name: 'slack', seed: slackPlugin.seed,
  register(app, store, _webhooks, ...rest) { slack = getSlackStore(store); slackPlugin.register(app, store, hooks, ...rest); },
};
const { app, store } = createServer(plugin, { port, baseUrl, tokens: {} });
plugin.seed(store, baseUrl);
seedFromConfig(store, baseUrl, seed);
const server = serve({ fetch: (raw) => handle(raw, app), port, hostname: '127.0.0.1' });

new WebSocketServer({ server, path: '/link/' }).on('connection', (socket) => {
  sockets.push(socket);
  const beat = setInterval(() => socket.ping(), 5000);
  socket.on('close', () => { clearInterval(beat); const at = sockets.indexOf(socket); if (at >= 0) sockets.splice(at, 1); });
  socket.on('error', () => {});
  socket.on('message', (text) => {
    const { envelope_id: id } = JSON.parse(text);
    clearTimeout(waiting.get(id));
    if (waiting.delete(id)) log.acks++;
  });
  socket.send(JSON.stringify({ type: 'hello', num_connections: sockets.length, connection_info: { app_id: APP }, debug_info: { host: 'applink', build_number: 1, approximate_connection_time: 18060 } }));
});
console.log('ready', baseUrl);
