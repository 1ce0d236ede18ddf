"""How often a password may be tried."""

from __future__ import annotations

from queueapp.auth.throttle import LoginThrottle, Throttle, network_of


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_after_the_burst_there_is_one_try_at_a_time() -> None:
    clock = Clock()
    throttle = Throttle(3, 10.0, clock=clock)

    assert [throttle.take("a") for _ in range(5)] == [0, 0, 0, 10, 10]
    assert throttle.take("b") == 0
    clock.now += 4
    assert throttle.take("a") == 6
    clock.now += 6
    assert [throttle.take("a") for _ in range(2)] == [0, 10]
    clock.now += 30
    assert [throttle.take("a") for _ in range(4)] == [0, 0, 0, 10]


def test_a_try_given_back_is_there_again() -> None:
    throttle = Throttle(1, 10.0, clock=Clock())

    for _ in range(5):
        assert throttle.take("a") == 0
        throttle.give_back("a")
    throttle.give_back("never heard of")


def test_what_is_remembered_is_bounded() -> None:
    throttle = Throttle(1, 10.0, most=100, clock=Clock())

    for number in range(1000):
        throttle.take("name " * 1000 + str(number))
        throttle.take(str(number))

    assert len(throttle) == 100


def test_a_name_is_limited_whatever_the_address_and_the_other_way_round() -> None:
    one_name, one_address = LoginThrottle(clock := Clock()), LoginThrottle(Clock())

    by_name = []
    for number in range(33):
        by_name.append(one_name.take(f"203.0.113.{number}", "ana"))
        # Not faster than all together may.
        clock.now += 1
    by_address = [one_address.take("203.0.113.7", f"name {number}") for number in range(11)]

    assert by_name == [0] * 32 + [13]
    assert by_address == [0] * 10 + [60]


def test_one_address_never_keeps_a_name_from_its_owner() -> None:
    throttle = LoginThrottle(clock := Clock())
    waits = []
    for second in range(7200):
        clock.now += 1
        throttle.take("203.0.113.7", "ana")
        if second % 600 == 0:
            waits.append(throttle.take("198.51.100.1", "ana"))

    assert waits == [0] * 12


def test_a_refused_try_uses_up_nothing() -> None:
    throttle = LoginThrottle(clock := Clock())
    for number in range(15):
        throttle.take(f"203.0.113.{number}", f"name {number}")
    # Refused for all together, by an address and a name of their own.
    assert [throttle.take("198.51.100.1", "ana") for _ in range(100)] == [1] * 100
    clock.now += 30

    assert [throttle.take("198.51.100.1", "ana") for _ in range(10)] == [0] * 10
    # Refused for the address: the name, and all together, have theirs still.
    assert {throttle.take("198.51.100.1", "ana") for _ in range(100)} == {60}
    clock.now += 10
    assert [throttle.take(f"198.51.100.{n}", "ana") for n in range(2, 17)] == [0] * 15


def test_what_is_refused_is_not_remembered_in_the_place_of_others() -> None:
    throttle = LoginThrottle(clock := Clock())
    for _ in range(10):
        assert throttle.take("203.0.113.7", "ana") == 0
    for number in range(20_000):
        throttle.take(f"10.{number // 250}.{number % 250}.1", f"name {number}")
    clock.now += 2

    assert throttle.take("203.0.113.7", "ana") == 58


def test_all_addresses_together_leave_the_processor_to_others() -> None:
    throttle = LoginThrottle(Clock())

    tries = [throttle.take(f"10.0.{n}.1", f"name {n}") for n in range(16)]

    assert tries == [0] * 15 + [1]


def test_one_customer_of_ipv6_is_one_address() -> None:
    assert network_of("2001:db8:1:2::7") == network_of("2001:db8:1:ffff:ffff::1")
    assert network_of("2001:db8:1:2::7") != network_of("2001:db8:2:2::7")
    assert network_of("::ffff:203.0.113.7") == network_of("203.0.113.7")
    assert network_of("") == ""
