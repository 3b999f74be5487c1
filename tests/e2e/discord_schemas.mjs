// Prints the JSON Schema of the body of each route, from the published OpenAPI description of Discord.
//
//   node discord_schemas.mjs FOLDER-WITH-node_modules > schemas.json
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const load = (file) => import(pathToFileURL(resolve(process.argv[2], "node_modules", file)));
const { z } = await load("zod/index.js");
const spec = await load("discord-api-spec/build/discord-api-spec.zod.js");

const bodies = {
  "POST channels/{channel}/messages": ["MessageCreateRequestSchema"],
  "PATCH channels/{channel}/messages/{message}": ["MessageEditRequestPartialSchema"],
  "POST channels/{channel}/messages/{message}/threads": ["CreateTextThreadWithMessageRequestSchema"],
  "POST channels/{channel}/threads": ["CreateTextThreadWithoutMessageRequestSchema", "CreateForumThreadRequestSchema"],
  "PATCH channels/{channel}": ["UpdateThreadRequestPartialSchema"],
  "POST users/@me/channels": ["CreatePrivateChannelRequestSchema"],
  "PUT applications/{application}/commands": ["ApplicationCommandUpdateRequestSchema"],
  "POST interactions/{interaction}/{token}/callback": ["CreateMessageInteractionCallbackRequestSchema", "UpdateMessageInteractionCallbackRequestSchema"],
  "PATCH webhooks/{application}/{token}/messages/{message}": ["IncomingWebhookUpdateRequestPartialSchema"],
  "POST webhooks/{application}/{token}": ["IncomingWebhookInteractionRequestSchema", "IncomingWebhookRequestPartialSchema"],
};

const schemas = {};
for (const [route, names] of Object.entries(bodies)) {
  schemas[route] = names.map((name) => {
    if (!spec[name]) throw new Error(`the description has no ${name}`);
    return z.toJSONSchema(spec[name], { io: "input", unrepresentable: "any" });
  });
}
process.stdout.write(JSON.stringify(schemas));
