"""The servers that stand for object stores do what places for answers rely on."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from support.buckets import Bucket, Proxy, azurite, moto, variables

obstore = pytest.importorskip("obstore")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[moto, azurite])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    with request.param() as started:
        yield started


def put(bucket: Bucket, path: str, retries: int = 0) -> None:
    """Put an object that must not exist yet; each try may take a second."""
    retrying = {"max_retries": retries, "retry_timeout": timedelta(seconds=5)}
    with variables(bucket.environment):
        store = obstore.store.from_url(
            bucket.url, client_options={"allow_http": True, "timeout": "1s"}, retry_config=retrying
        )
    obstore.put(store, path, b"content", mode="create")


def test_an_object_is_created_once(bucket: Bucket) -> None:
    once = bucket.under("once")
    put(once, "a")
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        put(once, "a")
    assert once.content() == {"a": b"content"}


def test_the_proxy_fails_as_it_is_told(bucket: Bucket) -> None:
    with Proxy(bucket) as proxy:
        far = bucket.behind(proxy).under("proxied")
        put(far, "passed")
        for fault in ("unavailable", "denied", "hang", "refuse", "cut"):
            proxy.fail(fault)
            with pytest.raises(obstore.exceptions.BaseError):
                put(far, fault)
            proxy.mend()
        proxy.fail("unavailable", times=2)
        put(far, "later", retries=3)
        proxy.fail("swallow", times=1)
        with pytest.raises(obstore.exceptions.AlreadyExistsError):
            put(far, "swallowed", retries=3)
        arrived = far.content()
    assert arrived.keys() - {"cut"} == {"passed", "later", "swallowed"}
    assert proxy.puts == 1 + 5 - 1 + 3 + 2, "a refused one is not seen"
