"""Mail: the fields of an item; tests/api/test_lists.py has the rest."""

from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_alice_reads_her_mail(alice, insert_into):
    to = ["alice@example.com", "bob@example.com"]
    same = {"subject": "Hello", "snippet": 'Dear "Alice", …', "read": True}
    full = {
        **{"id": insert_into("mail", recipients=to, received_at=NOON, **same), **same},
        **{"from": "ada@example.com", "to": to, "receivedAt": "2026-01-01T12:00:00.000Z"},
    }
    bare = {
        **{"id": insert_into("mail", received_at=NOON - timedelta(days=1)), "to": []},
        **{"from": "ada@example.com", "subject": "", "snippet": "", "read": False},
        "receivedAt": "2025-12-31T12:00:00.000Z",
    }
    response = alice.get("/mail")
    assert response.status_code == 200
    assert response.get_json()["data"] == [full, bare]
