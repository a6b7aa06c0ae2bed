"""The application, assembled."""


def test_a_path_with_the_literal_text_of_a_rule_is_an_unknown_path(alice):
    for path in ("/tasks/<id:id>", "/tasks/%3Cid:id%3E", "/webhooks/<id:id>/rotate"):
        assert alice.get(path).status_code in (404, 405)
    assert alice.get(f"/tasks/<id:id>/{'0' * 8}-0000-0000-0000-{'0' * 12}").status_code == 404
