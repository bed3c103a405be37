"""Results cross from the engine's thread to event loops and threads, in order, with their end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sgrt.engine.mailbox import Mailbox


def _send(mailbox: Mailbox[int], count: int, error: Exception | None = None) -> threading.Thread:
    def work() -> None:
        for number in range(count):
            mailbox.push(number)
        if error is None:
            mailbox.close()
        else:
            mailbox.fail(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


async def _receive(mailbox: Mailbox[int]) -> list[int]:
    return [item async for item in mailbox]


def test_items_come_in_order_to_a_thread_and_to_a_loop() -> None:
    for receive in (list, lambda mailbox: asyncio.run(_receive(mailbox)), Mailbox.collect):
        mailbox: Mailbox[int] = Mailbox()
        thread = _send(mailbox, 500)
        assert receive(mailbox) == list(range(500))
        thread.join()


def test_an_error_comes_after_the_items_before_it() -> None:
    mailbox: Mailbox[int] = Mailbox()
    _send(mailbox, 2, ValueError("broken")).join()
    items = iter(mailbox)
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(ValueError, match="broken"):
        next(items)


def test_collecting_raises_the_error_it_ends_with() -> None:
    mailbox: Mailbox[int] = Mailbox()
    thread = _send(mailbox, 2, ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        mailbox.collect()
    thread.join()


def test_only_the_first_end_counts() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.close()
    mailbox.fail(ValueError("late"))
    assert list(mailbox) == []


def test_a_consumer_whose_loop_is_gone_does_not_disturb_the_sender() -> None:
    mailbox: Mailbox[int] = Mailbox()

    async def wait_a_moment() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_receive(mailbox), timeout=0.01)

    asyncio.run(wait_a_moment())
    mailbox.push(1)
    mailbox.close()
    assert list(mailbox) == [1]
