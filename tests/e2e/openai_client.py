"""Test of the HTTP API with OpenAI's own client.

    openai_client.py BASE_URL KEY

Exits with 0 if all checks pass, otherwise with a traceback. Works with any runtime that answers "hello".
"""

import sys
import uuid

import openai

HELLO = [{"role": "user", "content": "hello"}]


def answers_whole(client):
    answer = client.chat.completions.create(model="hermes", messages=HELLO)
    assert answer.object == "chat.completion", answer
    assert answer.id.startswith("chatcmpl-"), answer
    [choice] = answer.choices
    assert choice.finish_reason == "stop", answer
    assert choice.message.role == "assistant", answer
    assert choice.message.content.strip(), answer
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens, answer
    return choice.message.content


def answers_streaming(client):
    text, reasons, usage, ids = "", [], None, set()
    stream = client.chat.completions.create(
        model="hermes", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        assert chunk.object == "chat.completion.chunk", chunk
        ids.add(chunk.id)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            if choice.finish_reason:
                reasons.append(choice.finish_reason)
    assert text.strip() and reasons == ["stop"] and usage is not None and len(ids) == 1, (text, reasons, usage, ids)
    return text


def lists_models(client):
    models = [model.id for model in client.models.list()]
    assert models and all(models), models
    assert client.models.retrieve(models[0]).id == models[0]


def repeats_under_a_key(client):
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    first, second = (
        client.chat.completions.create(model="hermes", messages=HELLO, extra_headers=headers) for _ in range(2)
    )
    assert (first.id, first.choices[0].message.content) == (second.id, second.choices[0].message.content)


def goes_on_under_a_name(client):
    headers = {"X-Hermes-Session-Id": str(uuid.uuid4())}
    for _ in range(2):
        raw = client.chat.completions.with_raw_response.create(model="hermes", messages=HELLO, extra_headers=headers)
        assert raw.headers["x-hermes-session-id"] == headers["X-Hermes-Session-Id"]
        assert raw.parse().choices[0].message.content.strip()


def refuses(client, base_url):
    stranger = openai.OpenAI(base_url=base_url, api_key="wrong", max_retries=0)
    try:
        stranger.chat.completions.create(model="hermes", messages=HELLO)
    except openai.AuthenticationError as error:
        assert error.status_code == 401 and error.code == "invalid_api_key", error
    else:
        raise AssertionError("a wrong key was let in")
    for wrong in ({"messages": []}, {"messages": HELLO, "n": 2}):
        try:
            client.chat.completions.create(model="hermes", **wrong)
        except openai.BadRequestError as error:
            assert error.code == "invalid_value" and error.param, error
        else:
            raise AssertionError(f"{wrong} was accepted")


def main(base_url, key):
    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=60)
    whole, streamed = answers_whole(client), answers_streaming(client)
    print(f"whole: {whole!r}")
    print(f"streamed: {streamed!r}")
    lists_models(client)
    repeats_under_a_key(client)
    goes_on_under_a_name(client)
    refuses(client, base_url)
    print("the official client is content")


if __name__ == "__main__":
    main(*sys.argv[1:])
