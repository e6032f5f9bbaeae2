// A client on kafkajs, with codecs of other packages.
//
// script_test.go says what the commands are.
'use strict'

const { Kafka, CompressionTypes, CompressionCodecs, PartitionAssigners, Partitioners, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@mongodb-js/zstd')

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: (encoder) => zstd.compress(encoder.buffer, 3),
  decompress: (buffer) => zstd.decompress(buffer),
})
const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

// Standard output is for records.
const logCreator = () => ({ log }) => console.error(JSON.stringify(log))

const connect = (address) => new Kafka({ brokers: [address], logLevel: logLevel.WARN, logCreator })

function show(topic, partition, message) {
  console.log(
    JSON.stringify({
      topic,
      partition,
      offset: Number(message.offset),
      key: message.key.toString(),
      value: message.value === null ? null : message.value.toString(),
      header: message.headers.h ? message.headers.h.toString() : '',
    }),
  )
}

async function input() {
  let text = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) text += chunk
  return text
}

async function create(address, topic, partitions) {
  const admin = connect(address).admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: Number(partitions), replicationFactor: 1 }] })
  await admin.disconnect()
}

async function produce(address, topic, codec) {
  const producer = connect(address).producer({ idempotent: true, createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  const messages = (await input())
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
    .map(({ key, value, header }) => ({ key, value, headers: { h: header } }))
  await producer.send({ topic, messages, acks: -1, compression: codecs[codec] })
  await producer.disconnect()
}

async function read(address, count, ...topics) {
  const consumer = connect(address).consumer({ groupId: `reader-${process.pid}` })
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  let left = Number(count)
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer.run({
      eachMessage: async ({ topic, partition, message }) => {
        if (left-- > 0) show(topic, partition, message)
        if (left === 0) resolve()
      },
    })
  })
  await consumer.disconnect()
}

async function member(address, groupId, topic) {
  const consumer = connect(address).consumer({
    groupId,
    heartbeatInterval: 500,
    partitionAssigners: [PartitionAssigners.roundRobin],
    // The default gives up after 5 attempts, which a restart may outlast.
    retry: { retries: 50, maxRetryTime: 1000 },
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
      for (const message of batch.messages) {
        if (!isRunning() || isStale()) break
        show(batch.topic, batch.partition, message)
        resolveOffset(message.offset)
        const offset = (BigInt(message.offset) + 1n).toString()
        if (message === batch.messages.at(-1)) await consumer.commitOffsets([{ topic, partition: batch.partition, offset }])
      }
      await heartbeat()
    },
  })
  await input()
  await consumer.disconnect()
}

// A connection that broke while the node was away may be left and keep the process up, so it is ended.
const [command, ...args] = process.argv.slice(2)
;({ create, produce, read, member })[command](...args).then(
  () => process.stdout.write('', () => process.exit(0)), // once all is written
  (error) => {
    console.error(error)
    process.exit(1)
  },
)
