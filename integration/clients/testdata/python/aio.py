"""A client on aiokafka.

script_test.go says what the commands are.
"""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError


def show(message):
    headers = dict(message.headers)
    print(json.dumps({
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "key": message.key.decode(),
        "value": None if message.value is None else message.value.decode(),
        "header": headers.get("h", b"").decode(),
    }), flush=True)


async def create(address, topic, partitions):
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        response = await admin.create_topics([NewTopic(topic, num_partitions=int(partitions), replication_factor=1)])
        for _topic, code, *_text in response.topic_errors:
            if code:
                sys.exit(f"error {code}")
    finally:
        await admin.close()


async def produce(address, topic, codec):
    producer = AIOKafkaProducer(bootstrap_servers=address, compression_type=None if codec == "none" else codec, enable_idempotence=True)
    await producer.start()
    try:
        acknowledged = []
        for line in sys.stdin:
            r = json.loads(line)
            value = None if r["value"] is None else r["value"].encode()
            acknowledged.append(await producer.send(topic, key=r["key"].encode(), value=value, headers=[("h", r["header"].encode())]))
        await asyncio.gather(*acknowledged)
    finally:
        await producer.stop()


async def read(address, count, *topics):
    consumer = AIOKafkaConsumer(*topics, bootstrap_servers=address, auto_offset_reset="earliest")
    await consumer.start()
    try:
        for _ in range(int(count)):
            show(await consumer.getone())
    finally:
        await consumer.stop()


async def member(address, group, topic, *settings):
    settings = dict(setting.split("=") for setting in settings)
    config = {}
    if settings.get("assignor") == "sticky":
        config["partition_assignment_strategy"] = [StickyPartitionAssignor]
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        group_instance_id=settings.get("instance"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=500,
        **config,
    )
    await consumer.start()
    leave = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    uncommitted = False
    try:
        while not leave.done():
            batches = await consumer.getmany(timeout_ms=100)
            for batch in batches.values():
                for message in batch:
                    show(message)
                    uncommitted = True
            if uncommitted:
                # What fails is committed with what comes next, or read again by whom the partitions went to.
                try:
                    await consumer.commit()
                    uncommitted = False
                except KafkaError as error:
                    print(repr(error), file=sys.stderr)
    finally:
        await consumer.stop()


asyncio.run({"create": create, "produce": produce, "read": read, "member": member}[sys.argv[1]](*sys.argv[2:]))
