"""What the agent says of a platform that takes no report for long."""

import re

import httpx
import pytest

from cluster.agent.link import Link
from cluster.agent.outage import REMIND_S, Outage

FAULT = "The platform at http://p does not answer: no route."


def test_an_outage_is_told_again_every_few_minutes_with_the_time_it_began_at() -> None:
    outage = Outage()
    said = [(at, outage.goes_on(1_000_000.0 + at, float(at), FAULT)) for at in range(0, 1201, 5)]
    told = [(at, sentence) for at, sentence in said if sentence]
    assert [at for at, _ in told] == [300, 600, 900, 1200]
    assert len({sentence for _, sentence in told}) == 1
    form = r"No report has got through since \d\d:\d\d:\d\d still; what runs, runs on\. "
    assert re.fullmatch(form + re.escape(FAULT), told[0][1])


def test_a_clock_that_is_set_makes_no_outage_longer() -> None:
    outage = Outage()
    assert outage.goes_on(0.0, 0.0, FAULT) == ""
    assert outage.goes_on(1_000_000.0, REMIND_S - 1, FAULT) == ""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (httpx.RemoteProtocolError("Server disconnected without sending a response."), "sending a response."),
        (httpx.ConnectTimeout(""), "ConnectTimeout."),
    ],
)
def test_what_goes_wrong_ends_with_one_full_stop(error: httpx.HTTPError, said: str) -> None:
    sentence = str(Link("http://127.0.0.1:9")._silent(error))
    assert sentence.endswith(said)
    assert not sentence.endswith("..")
