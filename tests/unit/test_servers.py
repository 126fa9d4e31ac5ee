"""The server of the tests counts what it is asked."""

import socket

from support.servers import Reply, Server, completion


def test_a_body_that_was_cut_off_is_no_request() -> None:
    with Server(lambda number, request: Reply(completion())) as server:
        with socket.create_connection(server.server_address[:2]) as client:
            client.sendall(b'POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"model"')
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b"", "the server gives it up"
        assert server.in_flight == server.most == 0
        assert not server.requests
