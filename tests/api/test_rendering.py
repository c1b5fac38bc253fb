"""Rendering over REST: the ids of a run, to the last digit."""

from tests.support import tiny_tokenizers as tiny

TEMPLATE = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"


def test_numbers_of_a_call_are_rendered_as_they_were_sent(lite_app, lite_client, lite_people):
    folder = tiny.make_tokenizer(lite_app.state.context.settings.model_roots[0] / "digits", template=TEMPLATE)
    digits = '{"x": 1.10, "y": 1e400, "z": -0}'
    body = (
        f'{{"tokenizer": "{folder}", "messages": [{{"role": "user", "content": "hi"}}, {{"role": "assistant", "content": "", '
        f'"tool_calls": [{{"type": "function", "function": {{"name": "f", "arguments": {digits}}}}}]}}]}}'
    )
    headers = {**lite_people.reviewer.headers, "Content-Type": "application/json"}
    answer = lite_client.post("/api/v1/render", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["text"] == f"hi{digits}"
