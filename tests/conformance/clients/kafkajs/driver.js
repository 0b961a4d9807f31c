// kafkajs behind the words of ../driven.py: JSON lines in, JSON lines out.
// node driver.js BOOTSTRAP                     answers requests until standard input closes
// node driver.js BOOTSTRAP member TOPIC GROUP  prints what it owns and reads, leaves when standard input closes
"use strict";
const { readFileSync } = require("node:fs");
const readline = require("node:readline");
const kafkajs = require("kafkajs");
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = kafkajs;
CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");
const lz4 = require("lz4-napi");
const fzstd = require("fzstd");
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
});
const zstd = new Promise((resolve) => require("zstd-codec").ZstdCodec.run((z) => resolve(new z.Simple())));
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  // zstd-codec wants the size in the frame's header, which clients that stream leave out
  decompress: async (buffer) => Buffer.from(fzstd.decompress(buffer)),
});

const CODECS = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD,
};
const [bootstrap, mode, memberTopic, memberGroup] = process.argv.slice(2);
const { MOLDAU_CONFORMANCE_USER: username, MOLDAU_CONFORMANCE_PASSWORD: password } = process.env;
const login = username === undefined ? {} : {
  ssl: { ca: [readFileSync(process.env.MOLDAU_CONFORMANCE_AUTHORITY)] },
  sasl: { mechanism: "scram-sha-512", username, password },
};
const kafka = new Kafka({ clientId: "kafkajs", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING, ...login });
const tell = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const decoded = (text) => (text === null ? null : Buffer.from(text, "base64"));
const encoded = (bytes) => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString("base64"));

// kafkajs has a map of headers: a repeated one is an array, and their order among names is the map's
function toHeaders(pairs) {
  const headers = {};
  for (const [name, value] of pairs) {
    const bytes = decoded(value);
    headers[name] = name in headers ? [].concat(headers[name], [bytes]) : bytes;
  }
  return headers;
}
function fromHeaders(headers) {
  return Object.entries(headers || {}).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one) => [name, encoded(one)]));
}

let producer = null;
let admin = null;
async function theAdmin() {
  if (!admin) { admin = kafka.admin(); await admin.connect(); }
  return admin;
}

// Runs a consumer until it has `count` records of the partition (or of any, where it is null), then leaves.
async function collect(topic, group, count, partition, commit) {
  const consumer = kafka.consumer({ groupId: group, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const records = [];
  let last = null;
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition: from, message }) => {
        if (records.length >= count || (partition !== null && from !== partition)) return;
        records.push(message);
        last = { topic, partition: from, offset: String(BigInt(message.offset) + 1n) };
        if (records.length === count) resolve();
      },
    }).catch(reject);
  });
  if (commit) await consumer.commitOffsets([last]);
  await consumer.disconnect();
  return records.map((m) => ({ key: encoded(m.key), value: encoded(m.value), headers: fromHeaders(m.headers) }));
}

async function transactional(transactionalId) {
  const writer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1, retry: { retries: 5 } });
  await writer.connect();
  return writer;
}

const operations = {
  async produce({ topic, partition, codec, records }) {
    if (!producer) {
      producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
      await producer.connect();
    }
    const messages = records.map((r) => ({
      key: decoded(r.key), value: decoded(r.value), headers: toHeaders(r.headers), partition,
    }));
    await producer.send({ topic, messages, acks: -1, compression: CODECS[codec] });
  },
  read: ({ topic, partition, count, group }) => collect(topic, group, count, partition, false),
  read_and_commit: ({ topic, group, count }) => collect(topic, group, count, null, true),
  async transact({ topic, name, values, commit, group, source, offset }) {
    const writer = await transactional(name);
    try {
      const transaction = await writer.transaction();
      await transaction.send({ topic, messages: values.map((value) => ({ value, partition: 0 })) });
      if (group) {
        const partitions = [{ partition: 0, offset: String(offset) }];
        await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic: source, partitions }] });
      }
      await (commit ? transaction.commit() : transaction.abort());
    } finally {
      await writer.disconnect();
    }
  },
  async fence({ topic, name }) {
    const first = await transactional(name);
    // kafkajs asks for its producer id when a transaction begins
    const transaction = await first.transaction();
    const second = await transactional(name);
    await (await second.transaction()).abort();
    try {
      await transaction.send({ topic, messages: [{ value: "old", partition: 0 }] });
      await transaction.commit();
    } finally {
      await first.disconnect();
      await second.disconnect();
    }
  },
  async add_partitions({ topic, total }) {
    await (await theAdmin()).createPartitions({ topicPartitions: [{ topic, count: total }] });
  },
  async partition_count({ topic }) {
    const metadata = await (await theAdmin()).fetchTopicMetadata({ topics: [topic] });
    return metadata.topics[0].partitions.length;
  },
  async set_config({ topic, name, value }) {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }];
    await (await theAdmin()).alterConfigs({ validateOnly: false, resources });
  },
  async config({ topic, name }) {
    const described = await (await theAdmin()).describeConfigs({
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }],
    });
    return described.resources[0].configEntries[0].configValue;
  },
  async delete_records({ topic, partition, offset }) {
    // kafkajs looks for the leader only in metadata that it has
    await (await theAdmin()).fetchTopicOffsets(topic);
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] });
    const offsets = await admin.fetchTopicOffsets(topic);
    return Number(offsets.find((one) => one.partition === partition).low);
  },
  async groups() {
    return (await (await theAdmin()).listGroups()).groups.map((group) => group.groupId);
  },
  async delete_group({ group }) {
    await (await theAdmin()).deleteGroups([group]);
  },
  async offset_at({ topic, partition, timestamp }) {
    const found = await (await theAdmin()).fetchTopicOffsetsByTimestamp(topic, timestamp);
    return Number(found.find((one) => one.partition === partition).offset);
  },
  async delete_topic({ topic }) {
    await (await theAdmin()).deleteTopics({ topics: [topic] });
  },
};

async function serve() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { operation, ...values } = JSON.parse(line);
    try {
      tell({ result: (await operations[operation](values)) ?? null });
    } catch (error) {
      tell({ error: String(error.stack || error) });
    }
  }
  if (producer) await producer.disconnect();
  if (admin) await admin.disconnect();
}

async function member() {
  const consumer = kafka.consumer({
    groupId: memberGroup, sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 10000, maxWaitTimeInMs: 100,
  });
  consumer.on(consumer.events.GROUP_JOIN, (event) =>
    tell({ event: "assigned", content: event.payload.memberAssignment[memberTopic] || [] }));
  await consumer.connect();
  await consumer.subscribe({ topics: [memberTopic], fromBeginning: true });
  await consumer.run({
    autoCommitInterval: 200,
    eachMessage: async ({ message }) => tell({ event: "value", content: String(message.value ?? "") }),
  });
  process.stdin.resume();
  await new Promise((resolve) => process.stdin.on("end", resolve));
  await consumer.disconnect();
  process.exit(0);
}

(mode === "member" ? member() : serve()).catch((error) => {
  tell({ error: String(error.stack || error) });
  process.exit(1);
});
