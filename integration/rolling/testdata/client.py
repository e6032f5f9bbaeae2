"""librdkafka's producer and consumer with their defaults: bootstrap servers, topic, group, and settings of the consumer
as key=value. Each line of standard input is produced; its end ends the program. A line is printed for each record that
was acknowledged, failed or was read, and for each error. That a broker can not be reached, which librdkafka says too,
is for it to deal with."""

import sys
import threading

from confluent_kafka import Consumer, KafkaError, Producer

bootstrap, topic, group, *settings = sys.argv[1:]
lock = threading.Lock()
ended = threading.Event()


def say(*words):
    with lock:
        print(*(str(w).replace("\n", " ") for w in words), flush=True)


def failed(error):
    if error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
        say("error", error)


def delivered(error, message):
    value = message.value().decode()
    if error:
        say("failed", value, error)
    else:
        say("acked", value)


def read():
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "error_cb": failed,
        **dict(s.split("=", 1) for s in settings),
    })
    consumer.subscribe([topic])
    while not ended.is_set():
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            say("error", message.error())
        else:
            say("read", message.value().decode())
    consumer.close()


def report():
    while not ended.is_set():
        producer.poll(0.1)


producer = Producer({"bootstrap.servers": bootstrap, "error_cb": failed})
threads = [threading.Thread(target=read), threading.Thread(target=report)]
for thread in threads:
    thread.start()
for line in sys.stdin:
    producer.produce(topic, line.rstrip("\n").encode(), on_delivery=delivered)
left = producer.flush(60)
if left:
    say("error", left, "records are neither acknowledged nor failed")
ended.set()
for thread in threads:
    thread.join()
