"""Producers and consumers on librdkafka that print a history, an event a line.

librdkafka_test.go says what the commands are. They end with standard input.
"""

import json
import random
import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

ended = threading.Event()


def tell(kind, partition=-1, offset=-1, value="", note=""):
    print(json.dumps({"kind": kind, "partition": partition, "offset": offset, "value": value, "note": note}), flush=True)


# What a broker answers before it has taken anything in.
REFUSALS = {KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.MSG_SIZE_TOO_LARGE}

COMMON = {
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 5000,
}


def produce(address, topic, name, partitions, rate, seed, *settings):
    """name begins each value."""
    producer = Producer({"bootstrap.servers": address, **COMMON, **dict(s.split("=", 1) for s in settings)})
    chance = random.Random(int(seed))

    def delivered(error, message):
        value = message.value().decode()
        if error is None:
            tell("ack", message.partition(), message.offset(), value)
        elif error.code() in REFUSALS:
            tell("refused", message.partition(), -1, value, str(error))
        else:
            tell("unknown", message.partition(), -1, value, str(error))

    pause = 1 / float(rate)
    due = time.monotonic()
    count = 0
    while not ended.is_set():
        # Behind a cluster that stands still not all the world is to be queued.
        if len(producer) < 2000:
            partition, value = chance.randrange(int(partitions)), f"{name}-{count:06d}"
            count += 1
            tell("send", partition, -1, value)
            producer.produce(topic, value=value.encode(), partition=partition, on_delivery=delivered)
        due = max(due + pause, time.monotonic() - 1)
        producer.poll(max(0, due - time.monotonic()))
        time.sleep(max(0, due - time.monotonic()))
    left = producer.flush(90)
    if left:
        sys.exit(f"{left} records have not been answered")


def consume(address, topic, partitions, group, how):
    """how is assign or subscribe."""
    consumer = Consumer({
        "bootstrap.servers": address,
        "group.id": group,
        "auto.offset.reset": "error" if how == "assign" else "earliest",
        "enable.auto.commit": how != "assign",
        "auto.commit.interval.ms": 1000,
        "fetch.wait.max.ms": 100,
        **COMMON,
    })
    if how == "assign":
        assigned = [TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(int(partitions))]
        for p in assigned:
            tell("moved", p.partition)
        consumer.assign(assigned)
    else:
        consumer.subscribe([topic], on_assign=lambda _, assigned: [tell("moved", p.partition) for p in assigned])
    while not ended.is_set():
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            tell("read", message.partition(), message.offset(), message.value().decode())
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE) or error.fatal():
            tell("failed", message.partition() if message.partition() is not None else -1, -1, "", str(error))
    consumer.close()


threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
{"produce": produce, "consume": consume}[sys.argv[1]](*sys.argv[2:])
