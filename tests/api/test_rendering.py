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


def test_a_render_says_which_message_a_warning_is_about_and_takes_a_role_map(lite_app, lite_client, lite_people):
    folder = tiny.make_tokenizer(
        lite_app.state.context.settings.model_roots[0] / "roles",
        template="{% for m in messages %}{% if m.role != 'developer' %}{{ m.role + m.content }}{% endif %}{% endfor %}",
    )
    messages = [{"role": "user", "content": "hi"}, {"role": "developer", "content": "Be brief."}]

    def warnings(**more):
        body = {"tokenizer": str(folder), "messages": messages, **more}
        answer = lite_client.post("/api/v1/render", json=body, headers=lite_people.reviewer.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["text"], [(item["code"], item["where"]) for item in answer.json()["warnings"]]

    assert warnings() == ("userhi", [("content_lost", 1)])
    assert warnings(role_map={"developer": "system"}) == ("userhisystemBe brief.", [("role_mapped", 1)])
    assert warnings(chat_template_kwargs={"enable_thinking": True})[1][0] == ("kwarg_unused", None)
    refused = lite_client.post(
        "/api/v1/render",
        json={"tokenizer": str(folder), "messages": messages, "token_format": "nonesuch"},
        headers=lite_people.reviewer.headers,
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "format_unknown")
