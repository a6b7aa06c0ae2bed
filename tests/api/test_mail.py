"""Mail: the fields of an item; tests/api/test_lists.py has the rest."""

from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_alice_reads_her_mail(alice, insert_into):
    full = {
        "id": insert_into(
            "mail",
            recipients=["alice@example.com", "bob@example.com"],
            subject="Hello",
            snippet='Dear "Alice", …',
            read=True,
            received_at=NOON,
        ),
        "from": "ada@example.com",
        "to": ["alice@example.com", "bob@example.com"],
        "subject": "Hello",
        "snippet": 'Dear "Alice", …',
        "read": True,
        "receivedAt": "2026-01-01T12:00:00.000Z",
    }
    bare = {
        **full,
        "id": insert_into("mail", received_at=NOON - timedelta(days=1)),
        "to": [],
        "subject": "",
        "snippet": "",
        "read": False,
        "receivedAt": "2025-12-31T12:00:00.000Z",
    }
    response = alice.get("/mail")
    assert response.status_code == 200
    listed = response.get_json()["data"]
    assert listed == [full, bare]
    assert [list(item) for item in listed] == [list(full)] * 2
