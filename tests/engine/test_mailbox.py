"""Results cross from the engine's thread to event loops and threads, in order, with their end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sgrt.engine.bells import Bells
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


def test_what_follows_the_first_item_is_gathered_until_the_interval_or_the_end() -> None:
    async def batches(interval_s: float, *, pushed_at_once: bool = False) -> list[list[int]]:
        mailbox: Mailbox[int] = Mailbox(interval_s=interval_s)
        found: list[list[int]] = []

        async def read() -> None:
            async for batch in mailbox.batches():
                found.append(batch)

        reader = asyncio.ensure_future(read())
        for item in range(4):
            mailbox.push(item)
            for _ in range(0 if pushed_at_once else 5):  # the reader has all the turns it wants
                await asyncio.sleep(0)
        mailbox.close()
        await reader
        return found

    assert asyncio.run(batches(0.0)) == [[0], [1], [2], [3]]
    assert asyncio.run(batches(0.0, pushed_at_once=True)) == [[0], [1], [2], [3]]
    assert asyncio.run(batches(1000.0, pushed_at_once=True)) == [[0, 1, 2, 3]]
    assert asyncio.run(batches(1000.0)) == [[0], [1, 2, 3]]


def test_a_reader_that_gathers_is_woken_by_the_interval() -> None:
    async def first_two() -> list[list[int]]:
        mailbox: Mailbox[int] = Mailbox(interval_s=0.001)
        mailbox.push(0)
        batches = mailbox.batches()
        found = [await anext(batches)]
        mailbox.push(1)
        return [*found, await anext(batches)]

    assert asyncio.run(first_two()) == [[0], [1]]


def test_readers_on_a_loop_wait_until_the_bells_ring() -> None:
    async def read() -> tuple[list[int], list[int]]:
        bells = Bells()
        boxes: list[Mailbox[int]] = [Mailbox(wake_loop=bells.wake) for _ in range(3)]
        found: list[int] = []

        async def one(box: Mailbox[int]) -> None:
            found.extend([item async for item in box])

        readers = [asyncio.ensure_future(one(box)) for box in boxes]
        await asyncio.sleep(0)
        for number, box in enumerate(boxes):
            box.push(number)
            box.close()
        for _ in range(5):
            await asyncio.sleep(0)
        before = list(found)
        bells.ring()
        await asyncio.gather(*readers)
        return before, found

    assert asyncio.run(read()) == ([], [0, 1, 2])
