"""Check of the Discord emulator with an independent client library. Every failure is a fault of the emulator.

    check_discord_emulator.py http://127.0.0.1:PORT
"""

import asyncio
import io
import json
import logging
import sys
import urllib.request

import discord
import yarl
from discord.gateway import DiscordWebSocket

BASE = sys.argv[1]
TOKEN = "NDI.TESTTO.TESTTOKENTESTTOKENTESTTOKENTEST"
discord.http.Route.BASE = f"{BASE}/api/v10"
DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(BASE.replace("http", "ws") + "/gateway")


async def sim(what, **body):
    def ask():
        request = urllib.request.Request(f"{BASE}/_sim/{what}", json.dumps(body).encode(), {"content-type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=30))
    return await asyncio.get_running_loop().run_in_executor(None, ask)


def get(what):
    return json.load(urllib.request.urlopen(f"{BASE}/_sim/{what}", timeout=30))


class Bot(discord.Client):
    def __init__(self):
        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
        super().__init__(intents=intents)
        self.tree = discord.app_commands.CommandTree(self)
        self.heard, self.resumed, self.stands = asyncio.Queue(), asyncio.Event(), asyncio.Event()

    async def on_message(self, message):
        if message.author != self.user:
            await self.heard.put(message)

    async def on_ready(self):
        self.stands.set()

    async def on_resumed(self):
        self.resumed.set()

    async def hears(self):
        return await asyncio.wait_for(self.heard.get(), 20)


async def refused(code, deed):
    try:
        await deed
    except discord.HTTPException as error:
        assert error.code == code, error
        return
    raise AssertionError(f"{code} was expected")


async def talk(bot):
    await sim("message", **{"from": 7, "channel": 10, "text": "<@42> hello", "roles": [3]})
    heard = await bot.hears()
    assert bot.user in heard.mentions and heard.channel.name == "general" and heard.guild.name == "The Guild", heard
    answer = await heard.reply("hello **you**")
    assert answer.reference.message_id == heard.id
    assert (await answer.edit(content="changed")).content == "changed"
    await answer.add_reaction("\N{EYES}")
    thread = await heard.create_thread(name="plans", auto_archive_duration=1440)
    assert thread.id == heard.id and thread.parent_id == 10
    inside = await thread.send("inside", file=discord.File(io.BytesIO(b"some bytes"), "a.txt"))
    assert await inside.attachments[0].read() == b"some bytes"
    await refused(160004, heard.create_thread(name="again"))
    await refused(50006, heard.channel.send(""))
    await refused(50035, heard.channel.send("x" * 2001))
    same = [await heard.channel.send("once", nonce="n1") for _ in range(2)]
    assert same[0].id == same[1].id, "an enforced nonce makes one"
    await bot.get_channel(12).send("voice channels take text")
    post = await bot.get_channel(14).create_thread(name="a question", content="what?")
    assert post.thread.parent_id == 14
    async with heard.channel.typing():
        pass
    assert (await bot.fetch_channel(10)).name == "general"
    await sim("message", **{"from": 8, "text": "in private"})
    assert isinstance((await bot.hears()).channel, discord.DMChannel)


async def commands_and_buttons(bot):
    asked = asyncio.Queue()

    @bot.tree.command(name="title", description="Names the conversation")
    async def title(interaction: discord.Interaction, input: str):
        await interaction.response.defer(ephemeral=True)
        await interaction.followup.send(f"called {input}")
        await interaction.edit_original_response(content="done")
        await asked.put(input)

    await bot.tree.sync()
    await sim("slash", **{"from": 7, "channel": 10, "name": "title", "input": "boats"})
    assert await asyncio.wait_for(asked.get(), 20) == "boats"
    [interaction] = get("interactions")
    assert interaction["acknowledged"] == 5 and interaction["ephemeral"], interaction

    class Ask(discord.ui.View):
        @discord.ui.button(label="Yes", custom_id="yes", style=discord.ButtonStyle.primary)
        async def yes(self, interaction, button):
            await interaction.response.defer()
            await asked.put("pressed")

    message = await bot.get_channel(10).send("sure?", view=Ask())
    await sim("press", **{"from": 7, "message": str(message.id), "custom_id": "yes"})
    assert await asyncio.wait_for(asked.get(), 20) == "pressed"


async def resume(bot):
    await sim("gateway", do="reconnect")
    await asyncio.wait_for(bot.resumed.wait(), 30)
    await sim("message", **{"from": 7, "channel": 11, "text": "after it"})
    assert (await bot.hears()).content == "after it"
    assert [one["op"] for one in get("gateway") if one["op"] in ("identify", "resume")] == ["identify", "resume"]


async def main():
    discord.utils.setup_logging(level=logging.WARNING)
    bot = Bot()
    async with bot:
        running = asyncio.ensure_future(bot.start(TOKEN))
        await asyncio.wait([running, asyncio.ensure_future(bot.stands.wait())], timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert bot.stands.is_set(), running
        await talk(bot)
        await commands_and_buttons(bot)
        await resume(bot)
        await bot.close()
        await running
    # The verdict contains exactly the errors that discord.py was made to cause.
    errors = get("verdict")["errors"]
    assert len(errors) == 1 and "BASE_TYPE_MAX_LENGTH" in errors[0], errors


asyncio.run(main())
print("the emulator passes discord.py")
