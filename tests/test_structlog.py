# SPDX-License-Identifier: Apache-2.0
"""
The processor in structlog's chains, and in logging's by ProcessorFormatter.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle

from typing import Any

import pytest
import structlog

from structlog.testing import capture_logs

from structbatch.engine.selflog import ProblemKind
from structbatch.structlog import Shipper
from tests.support.pipelines import Problems, offline


def configure(*processors: Any, **arguments: Any) -> Any:
    """
    A logger with this chain.
    """
    structlog.configure(processors=list(processors), **arguments)
    return structlog.get_logger()


class TestChain:
    """
    The last of a chain.
    """

    def test_it_ships_and_ends_the_chain(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Nothing is printed, nothing is raised.
        """
        pipeline, transport = offline()
        log = configure(structlog.processors.add_log_level, Shipper(pipeline))
        with pipeline:
            log.warning("order.paid", order_id=7)

        (event,) = transport.events
        assert "order.paid" == event["message"]
        assert 7 == event["order_id"]
        assert "warn" in event["level"].lower()
        assert ("", "") == capsys.readouterr()

    def test_the_methods_name_is_the_level_where_there_is_none(self) -> None:
        """
        A chain without `add_log_level` loses no severity.
        """
        pipeline, transport = offline()
        log = configure(Shipper(pipeline))
        with pipeline:
            log.error("x")

        assert "error" in transport.events[0]["level"].lower()

    def test_bound_and_context_fields(self) -> None:
        """
        Context travels with the event.
        """
        pipeline, transport = offline()
        log = configure(structlog.contextvars.merge_contextvars, Shipper(pipeline))
        with pipeline, structlog.contextvars.bound_contextvars(request_id="r1"):
            log.bind(user="u1").info("x")

        assert ("r1", "u1") == (transport.events[0]["request_id"], transport.events[0]["user"])

    def test_exceptions(self) -> None:
        """
        `log.exception` needs no processor of structlog's.
        """
        pipeline, transport = offline()
        log = configure(Shipper(pipeline))
        with pipeline:
            try:
                {}["k"]
            except KeyError:
                log.exception("x")

        assert "KeyError" == transport.events[0]["exception.type"]

    def test_asyncio(self) -> None:
        """
        `ainfo` logs on another thread, with the task's context.
        """
        pipeline, transport = offline()
        log = configure(
            structlog.contextvars.merge_contextvars,
            Shipper(pipeline),
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )

        async def task(n: int) -> None:
            structlog.contextvars.bind_contextvars(task=n)
            await asyncio.sleep(0)
            await log.ainfo("x", n=n)

        async def main() -> None:
            await asyncio.gather(*(task(n) for n in range(10)))

        with pipeline:
            asyncio.run(main())

        assert [(n, n) for n in range(10)] == sorted((event["task"], event["n"]) for event in transport.events)

    def test_capture_logs_sees_the_events(self) -> None:
        """
        structlog's own way of testing works, and nothing is shipped meanwhile.
        """
        pipeline, transport = offline()
        log = configure(structlog.processors.add_log_level, Shipper(pipeline))
        with pipeline, capture_logs() as captured:
            log.info("x", n=1)

        assert [{"event": "x", "n": 1, "log_level": "info"}] == captured
        assert [] == transport.events


class TestTee:
    """
    Ship and print.
    """

    def test_a_renderer(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        It gets the event as it would without us.
        """
        pipeline, transport = offline()
        log = configure(Shipper(pipeline, tee=structlog.processors.JSONRenderer(sort_keys=True)))
        with pipeline:
            log.info("x", n=1)

        assert '{"event": "x", "n": 1}' == capsys.readouterr().out.strip()
        assert 1 == len(transport.events)

    def test_several_in_order(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        What they change reaches neither the record nor each other's past.
        """
        pipeline, transport = offline()

        def add(_: Any, __: str, event: Any) -> Any:
            event["added"] = 1
            return event

        log = configure(Shipper(pipeline, tee=[add, structlog.processors.JSONRenderer(sort_keys=True)]))
        with pipeline:
            log.info("x")

        assert '{"added": 1, "event": "x"}' == capsys.readouterr().out.strip()
        assert "added" not in transport.events[0]

    def test_another_shipper(self) -> None:
        """
        Two places.
        """
        (one, first), (two, second) = offline(), offline()
        log = configure(Shipper(one, tee=Shipper(two)))
        with one, two:
            log.info("x", n=1)

        assert [1] == [event["n"] for event in first.events] == [event["n"] for event in second.events]

    def test_not_with_passthrough(self) -> None:
        """
        They exclude each other.
        """
        pipeline, _ = offline()

        with pytest.raises(TypeError, match="exclude each other"):
            Shipper(pipeline, tee=print, passthrough=True)


class TestPlace:
    """
    Where in the chain.
    """

    def test_passthrough_leaves_the_rest_to_the_next(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Ship, then print by the chain's own renderer.
        """
        problems = Problems()
        pipeline, transport = offline(on_problem=problems)
        log = configure(Shipper(pipeline, passthrough=True), structlog.processors.JSONRenderer())
        with pipeline:
            log.info("x")

        assert '{"event": "x"}' == capsys.readouterr().out.strip()
        assert 1 == len(transport.events)
        assert [] == problems

    def test_not_last_is_said_once(self) -> None:
        """
        What stands behind it never runs.
        """
        problems = Problems()
        pipeline, transport = offline(on_problem=problems)
        log = configure(Shipper(pipeline), structlog.processors.JSONRenderer())
        with pipeline:
            for _ in range(5):
                log.info("x")

        assert [ProblemKind.MISPLACED] == problems.kinds
        assert "not the last processor" in problems[0].message
        assert 5 == len(transport.events)

    def test_passthrough_at_the_end_prints_no_dict(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Said once; structlog would otherwise call the logger with a dict for keyword arguments, and raise.
        """
        problems = Problems()
        pipeline, transport = offline(on_problem=problems)
        log = configure(Shipper(pipeline, passthrough=True))
        with pipeline:
            try:
                log.info("x")
            except TypeError:
                pytest.fail("the first call raised")
            log.info("x")

        assert [ProblemKind.MISPLACED] == problems.kinds
        assert 2 == len(transport.events)
        assert "" == capsys.readouterr().out

    def test_last_is_fine(self) -> None:
        """
        Nothing is said.
        """
        problems = Problems()
        pipeline, _ = offline(on_problem=problems)
        log = configure(structlog.processors.add_log_level, Shipper(pipeline))
        with pipeline:
            log.info("x")

        assert [] == problems


class TestProcessorFormatter:
    """
    The way to ship what logging logs.
    """

    @staticmethod
    def format(formatter: structlog.stdlib.ProcessorFormatter, *arguments: Any) -> str:
        """
        What a handler would write for a record of logging.
        """
        record = logging.LogRecord("shop.orders", logging.WARNING, __file__, 1, "paid %s", arguments, None)
        return formatter.format(record)

    def test_it_ships_and_returns_text(self) -> None:
        """
        DropEvent would escape into the application there.
        """
        pipeline, transport = offline()
        formatter = structlog.stdlib.ProcessorFormatter(
            processors=[Shipper(pipeline)],
            foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name],
        )
        with pipeline:
            text = self.format(formatter, "twice")

        (event,) = transport.events
        assert "" == text
        assert "paid twice" == event["message"]
        assert "shop.orders" == event["logger"]
        assert not [key for key in event if key.startswith("_")]

    def test_with_a_tee(self) -> None:
        """
        What it renders is what the handler writes.
        """
        pipeline, transport = offline()
        tee = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer()]
        formatter = structlog.stdlib.ProcessorFormatter(processors=[Shipper(pipeline, tee=tee)])
        with pipeline:
            text = self.format(formatter, "twice")

        assert '{"event": "paid twice"}' == text
        assert 1 == len(transport.events)

    def test_a_tee_that_drops(self) -> None:
        """
        Another shipper, or a filter: text all the same.
        """
        (one, first), (two, second) = offline(), offline()
        formatter = structlog.stdlib.ProcessorFormatter(processors=[Shipper(one, tee=Shipper(two))])
        with one, two:
            text = self.format(formatter, "twice")

        assert "" == text
        assert 1 == len(first.events) == len(second.events)

    def test_events_of_structlog_through_logging(self) -> None:
        """
        `wrap_for_formatter` at the end of structlog's chain.
        """
        pipeline, transport = offline()
        formatter = structlog.stdlib.ProcessorFormatter(processors=[Shipper(pipeline)])
        handler = logging.Handler()
        handler.emit = lambda record: formatter.format(record) and None  # type: ignore[method-assign]
        logger = logging.getLogger("structbatch-tests")
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.DEBUG)
        log = structlog.wrap_logger(
            logger,
            processors=[structlog.stdlib.add_log_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
            wrapper_class=structlog.stdlib.BoundLogger,
        )
        try:
            with pipeline:
                log.info("x", n=1)
        finally:
            logger.removeHandler(handler)

        (event,) = transport.events
        assert ("x", 1) == (event["message"], event["n"])
        assert not [key for key in event if key.startswith("_")]


class TestCopies:
    """
    Loggers are copied and pickled with their processors.
    """

    def test_deepcopy(self) -> None:
        """
        The very same.
        """
        pipeline, _ = offline()
        shipper = Shipper(pipeline)

        assert shipper is copy.deepcopy(shipper)

    def test_pickle_in_the_same_process(self) -> None:
        """
        The same pipeline, found by its key.
        """
        pipeline, transport = offline()
        shipper = pickle.loads(pickle.dumps(Shipper(pipeline, passthrough=True)))  # noqa: S301
        with pipeline:
            event = shipper(None, "info", {"event": "x", "n": 1})

        assert {"event": "x", "n": 1} == event
        assert [1] == [event["n"] for event in transport.events]

    def test_a_bound_logger(self) -> None:
        """
        With all that hangs on it.
        """
        pipeline, transport = offline()
        logger = structlog.PrintLogger()
        log = structlog.wrap_logger(logger, processors=[Shipper(pipeline)]).bind(n=1)
        with pipeline:
            pickle.loads(pickle.dumps(log)).info("x")  # noqa: S301
            copy.deepcopy(log).info("x")

        assert [1, 1] == [event["n"] for event in transport.events]

    def test_a_stranger_is_told_what_to_do(self) -> None:
        """
        Where neither the pipeline nor a recipe is to be had.
        """
        pipeline, _ = offline()
        pickled = pickle.dumps(pipeline)
        pipeline.key = "another"

        with pytest.raises(LookupError, match="make one here instead"):
            pickle.loads(pickled)  # noqa: S301

    def test_no_secret_is_shown_or_pickled(self) -> None:
        """
        Neither in a representation nor in a pickle.
        """
        pipeline, _ = offline(secret=lambda: "s3cr3t", name="shop")
        shipper = Shipper(pipeline)

        assert "<Shipper shop>" == repr(shipper)
        assert b"s3cr3t" not in pickle.dumps(shipper)
