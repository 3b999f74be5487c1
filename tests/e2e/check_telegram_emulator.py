"""Check of the Telegram emulator with two independent client libraries. Every failure is a fault of the emulator.

    check_telegram_emulator.py http://127.0.0.1:PORT
"""

import asyncio
import json
import sys
import urllib.request

from aiohttp import web

import aiogram
import aiogram.exceptions
import telegram
import telegram.constants
import telegram.error
import telegram.request
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.webhook.aiohttp_server import SimpleRequestHandler

BASE = sys.argv[1]


def sim(token, what, **body):
    request = urllib.request.Request(f"{BASE}/_sim/{token}/{what}", json.dumps(body).encode(), {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=30))


def get(token, what):
    return json.load(urllib.request.urlopen(f"{BASE}/_sim/{token}/{what}", timeout=30))


async def with_python_telegram_bot(token):
    async with telegram.Bot(token, base_url=f"{BASE}/bot", base_file_url=f"{BASE}/file/bot") as bot:
        me = await bot.get_me()
        assert me.username == "hermes_bot", me
        sim(token, "message", chat=7, text="hello")
        updates = await bot.get_updates(timeout=5)
        assert updates[0].message.text == "hello", updates
        sent = await bot.send_message(7, "<b>bold</b> &amp; more", parse_mode="HTML")
        assert sent.text == "bold & more", sent
        await bot.edit_message_text("changed", 7, sent.message_id)
        try:
            await bot.edit_message_text("changed", 7, sent.message_id)
            raise AssertionError("an unchanged edit must be refused")
        except telegram.error.BadRequest as error:
            assert "not modified" in str(error), error
        for emoji in telegram.constants.ReactionEmoji:
            await bot.set_message_reaction(7, sent.message_id, emoji.value)
        await bot.set_message_reaction(7, sent.message_id, [])
        for wrong in ("✅", ["👍", "👎"]):
            try:
                await bot.set_message_reaction(7, sent.message_id, wrong)
                raise AssertionError(f"{wrong} must be refused")
            except telegram.error.BadRequest as error:
                assert "reaction" in str(error).lower(), error
        try:
            await bot.send_message(7, "x" * 4097)
            raise AssertionError("4097 units must be refused")
        except telegram.error.BadRequest as error:
            assert "too long" in str(error), error
        sim(token, "fault", method="sendMessage", kind="429", retry_after=3)
        try:
            await bot.send_message(7, "later")
            raise AssertionError("the fault must show")
        except telegram.error.RetryAfter as error:
            seconds = error.retry_after if isinstance(error.retry_after, int) else error.retry_after.total_seconds()
            assert seconds == 3, error
        topic = await bot.create_forum_topic(-100, "plans")
        inside = await bot.send_message(-100, "in the topic", message_thread_id=topic.message_thread_id)
        assert inside.message_thread_id == topic.message_thread_id
        sim(token, "topic", chat=-100, id=topic.message_thread_id, deleted=True)
        try:
            await bot.send_message(-100, "gone", message_thread_id=topic.message_thread_id)
            raise AssertionError("a deleted topic must be refused")
        except telegram.error.BadRequest as error:
            assert "thread not found" in str(error), error
        sim(token, "migrate", chat=-5, to=-1005)
        try:
            await bot.send_message(-5, "moved")
            raise AssertionError("a migrated chat must be refused")
        except telegram.error.ChatMigrated as error:
            assert error.new_chat_id == -1005, error
        document = await bot.send_document(7, b"some bytes", filename="a.txt")
        fetched = await (await bot.get_file(document.document.file_id)).download_as_bytearray()
        assert bytes(fetched) == b"some bytes", fetched


async def with_a_webhook(bot, token):
    """Checks the webhook of the library: an update is delivered, repeated until it is accepted, and polls are refused
    meanwhile."""
    texts, dispatcher = asyncio.Queue(), aiogram.Dispatcher()
    statuses = [503]

    @dispatcher.message()
    async def _(message):
        await texts.put(message.text)

    @web.middleware
    async def refuses_the_first(request, handler):
        return web.Response(status=statuses.pop()) if statuses else await handler(request)

    app = web.Application(middlewares=[refuses_the_first])
    SimpleRequestHandler(dispatcher, bot, secret_token="right_one", handle_in_background=False).register(app, path="/in")
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/in"
    await bot.set_webhook(url, secret_token="right_one", allowed_updates=["message"])
    await asyncio.to_thread(sim, token, "message", chat=8, text="brought")
    assert await asyncio.wait_for(texts.get(), 30) == "brought"
    info = await bot.get_webhook_info()
    assert info.url == url and "503" in info.last_error_message, info
    try:
        await bot.get_updates()
        raise AssertionError("there is no poll beside a webhook")
    except aiogram.exceptions.TelegramConflictError:
        pass
    for address, secret in (("http://bot.example.org/in", "right_one"), (url, "two words")):
        try:
            await bot.set_webhook(address, secret_token=secret)
            raise AssertionError("this webhook must be refused")
        except aiogram.exceptions.TelegramBadRequest:
            pass
    await bot.delete_webhook()
    await runner.cleanup()


async def with_aiogram(token):
    session = AiohttpSession(api=TelegramAPIServer.from_base(BASE))
    bot = aiogram.Bot(token, session=session)
    try:
        assert (await bot.get_me()).is_bot
        sent = await bot.send_message(8, "hello", reply_parameters=None)
        assert sent.chat.id == 8
        sim(token, "press", chat=8, message_id=sent.message_id, data="yes")
        updates = await bot.get_updates(timeout=5)
        assert updates[0].callback_query.data == "yes", updates
        await bot.answer_callback_query(updates[0].callback_query.id)
        await bot.set_my_commands([aiogram.types.BotCommand(command="help", description="Help")])
        await with_a_webhook(bot, token)
        sim(token, "fault", method="getUpdates", kind="409")
        try:
            await bot.get_updates()
            raise AssertionError("the fault must show")
        except aiogram.exceptions.TelegramConflictError:
            pass
    finally:
        await session.close()


asyncio.run(with_python_telegram_bot("1:ptb"))
asyncio.run(with_aiogram("2:aio"))
for token in ("1:ptb", "2:aio"):
    verdict = get(token, "verdict")
    assert verdict["ok"], verdict
print("the emulator passes python-telegram-bot and aiogram")
