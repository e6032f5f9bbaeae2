"""A client on confluent-kafka-python, and so on the librdkafka that it brings.

script_test.go says what the commands are.
"""

import json
import sys
import threading

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def show(message):
    value = message.value()
    headers = dict(message.headers() or [])
    print(json.dumps({
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "key": message.key().decode(),
        "value": None if value is None else value.decode(),
        "header": headers.get("h", b"").decode(),
    }), flush=True)


def create(address, topic, partitions):
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(topic, num_partitions=int(partitions), replication_factor=1)]).values():
        future.result()


def produce(address, topic, codec):
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "enable.idempotence": True})
    failed = []

    def delivered(error, _message):
        if error is not None:
            failed.append(error)

    for line in sys.stdin:
        r = json.loads(line)
        value = None if r["value"] is None else r["value"].encode()
        producer.produce(topic, key=r["key"].encode(), value=value, headers={"h": r["header"].encode()}, on_delivery=delivered)
        producer.poll(0)
    producer.flush()
    if failed:
        sys.exit(f"{len(failed)} records failed: {failed[0]}")


def read(address, count, *topics):
    # A group is needed to have a consumer, and is not used.
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
    left = int(count)
    while left:
        message = consumer.poll()
        if message.error():
            raise KafkaException(message.error())
        show(message)
        left -= 1
    consumer.close()


def member(address, group, topic, *settings):
    settings = dict(setting.split("=") for setting in settings)
    config = {
        "bootstrap.servers": address,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "error_cb": lambda error: print(error, file=sys.stderr),
        # The only broker goes and comes back within the test; by default the pause before it is dialled again grows to 10 s.
        "reconnect.backoff.max.ms": 500,
    }
    if "assignor" in settings:
        config["partition.assignment.strategy"] = settings["assignor"]
    if "instance" in settings:
        config["group.instance.id"] = settings["instance"]
    consumer = Consumer(config)
    consumer.subscribe([topic])
    leave = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), leave.set()), daemon=True).start()
    uncommitted = False
    while not leave.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error():
            print(message.error(), file=sys.stderr)
        elif message is not None:
            show(message)
            uncommitted = True
            continue
        if uncommitted:
            # What fails is committed with what comes next, or read again by whom the partitions went to.
            try:
                consumer.commit(asynchronous=False)
                uncommitted = False
            except KafkaException as error:
                print(error, file=sys.stderr)
    consumer.close()


{"create": create, "produce": produce, "read": read, "member": member}[sys.argv[1]](*sys.argv[2:])
