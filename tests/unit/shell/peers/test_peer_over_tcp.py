"""A peer over real sockets; `test_peer` has its rules, on a network that can be cut."""

from __future__ import annotations

import asyncio

import pytest

from moldau.core.metadata.image import BrokerListener
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.transport.network import TcpNetwork
from moldau.wire.protocol.messages.metadata import MetadataRequest
from tests.support.answering_node import AnsweringNode

ASKED = MetadataRequest(topics=())


@pytest.mark.asyncio
async def test_over_real_sockets_the_first_request_connects_and_all_share_one_connection():
    node, network = AnsweringNode(), TcpNetwork()
    listener = await network.listen("127.0.0.1", 0, node.accept)
    peer = Peer(BrokerListener("CONTROLLER", "127.0.0.1", listener.port), network)
    answers = await asyncio.gather(*(peer.request(ASKED, 30_000) for _ in range(10)))
    assert [answer.cluster_id for answer in answers] == ["the other one"] * 10
    assert len(node.connections) == 1
    peer.close()
    listener.close()


@pytest.mark.asyncio
async def test_over_real_sockets_an_address_where_nobody_listens_gives_no_answer():
    network = TcpNetwork()
    listener = await network.listen("127.0.0.1", 0, AnsweringNode().accept)
    address = BrokerListener("CONTROLLER", "127.0.0.1", listener.port)
    listener.close()
    with pytest.raises(NoAnswerError, match=f"127.0.0.1:{listener.port}"):
        await Peer(address, network).request(ASKED, 30_000)
