"""Which queue and which lane a device task has."""

from __future__ import annotations

from timeline_programs import batch, call, kernel, numbered, recv, send, talk

from gpuscope.program.types import Op, ProcessGroup
from gpuscope.timeline.places import Places, group_labels, point_to_point_batches

GROUPS = (
    ProcessGroup("0", "dp", (0, 2)),
    ProcessGroup("1", "tp", (0, 1)),
    ProcessGroup("2", "", (0, 3)),
)


def placed(*items):
    ops = numbered(items)
    places = Places(ops, GROUPS)
    found = [places(k, item.op, n) for n, item in enumerate(ops) for k in item.kernels]
    return found, list(places.lanes.index)


def test_each_group_has_a_queue_and_is_named_by_its_label():
    found, lanes = placed(talk(1), talk(1, group=1), talk(1), talk(1, group=2))
    assert lanes == ["link dp", "link tp", "link 2"]
    assert [p.queue for p in found][:3] == [found[0].queue, found[1].queue, found[0].queue]
    assert len({p.queue for p in found}) == 3


def test_a_collective_without_a_group_has_the_common_link():
    _, lanes = placed(talk(1, group=-1), talk(1, group=-1))
    assert lanes == ["link"]


def test_a_collective_comes_after_the_stream_that_it_was_issued_from():
    found, lanes = placed(call(kernel(1, stream=3), stream=3), talk(1, stream=3))
    assert found[1].joined == found[0].queue
    assert lanes == ["stream 3", "link dp"]


def test_a_send_has_the_queue_of_its_pair():
    found, lanes = placed(send(1, 2), talk(1), recv(1, 2, waits=(0,)))
    assert lanes == ["link dp to 2", "link dp", "link dp from 2"]
    assert found[0].queue == found[2].queue != found[1].queue


def test_a_batch_runs_side_by_side_on_the_group():
    found, _ = placed(*batch(send(1, 2), recv(1, 2)), talk(1))
    assert found[0].batch == found[1].batch == 0
    assert found[0].queue == found[1].queue == found[2].queue
    assert found[2].batch == -1


def test_what_one_call_issued_is_a_batch_and_no_more():
    def p2p(batch, peer=1):
        return Op(
            0, "c10d::send", group=0, peer=peer, args={} if batch is None else {"batch": batch}
        )

    assert point_to_point_batches([p2p(1), p2p(1), p2p(2)]) == {0: 0, 1: 0, 2: 2}
    assert point_to_point_batches([p2p(None)]) == {}
    assert point_to_point_batches([p2p(None), p2p(None)]) == {}
    assert point_to_point_batches([p2p(1), Op(0, "aten::view", view=True), p2p(1)]) == {0: 0, 2: 0}
    assert point_to_point_batches([p2p(1), Op(0, "aten::add"), p2p(1)]) == {0: 0, 2: 2}


def test_copies_share_an_engine_whatever_their_stream():
    one, two = (kernel(1, lane="copy_h2d", stream=s, kind="transfer") for s in (1, 2))
    found, lanes = placed(call(one, stream=1), call(two, stream=2))
    assert lanes == ["copy H2D"]
    assert found[0].engine == found[1].engine == 0
    assert found[0].queue != found[1].queue


def test_groups_of_one_label_are_told_apart_by_name():
    groups = (ProcessGroup("5", "dp", (0, 1)), ProcessGroup("6", "dp", (0, 2)))
    assert group_labels(groups) == ("dp 5", "dp 6")
